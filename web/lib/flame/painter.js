// Draws a flame graph on a canvas: what is in sight, the outermost function on top.

import { cut } from "../labels.js";
import { frame } from "./tree.js";
import { points } from "./words.js";

export const ROW = 19;
const LABEL_LEAST = 26; // pixels that a name needs
const SLIVER = 0.35; // pixels below which a box, and all that is in it, is left out
const FONT = "11px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";
const HUES = [28, 205, 140, 265, 340, 180, 52, 230, 90, 305];
const SHADES = 4;
const STEPS = 12;
const LIGHT = { ink: "#11151b", same: [232, 235, 240], grew: [238, 108, 84], shrank: [96, 160, 224] };
const DARK = { ink: "#f4f6f9", same: [50, 58, 69], grew: [183, 58, 44], shrank: [44, 105, 178] };

export class Painter {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.fills = new Map();
    this.rows = [];
  }

  // Colours of the page, again when its theme changes.
  paints() {
    const names = ["panel", "line", "muted", "accent"];
    this.of = Object.fromEntries(names.map((name) => [name, css(this.canvas, `--wm-${name}`)]));
    const [red, green, blue] = this.of.panel.match(/\d+/g).map(Number);
    this.dark = red + green + blue < 380;
    this.set = this.dark ? DARK : LIGHT;
    this.fills.clear();
    this.ramp = Array.from({ length: 2 * STEPS + 1 }, (_, at) => mixed(this.set, at / STEPS - 1));
  }

  resize(width, height) {
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
    if (this.canvas.width !== w || this.canvas.height !== h) [this.canvas.width, this.canvas.height] = [w, h];
    [this.width, this.height, this.ratio] = [width, height, ratio];
  }

  // `view`: tree, zoom (a box), lit (which boxes match, or null), top (scrolled away).
  paint(view) {
    const { context } = this;
    const { tree, zoom } = view;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.fillStyle = this.of.panel;
    context.fillRect(0, 0, this.width, this.height);
    context.translate(0, -view.top);
    context.font = FONT;
    context.textBaseline = "middle";
    this.rows = [];
    this.from = tree.start[zoom];
    this.scale = this.width / (tree.width[zoom] || 1);
    for (let at = tree.parent[zoom]; at >= 0; at = tree.parent[at]) this.box(view, at, 0, this.width, true);
    const last = (view.top + this.height) / ROW;
    const drawn = new Float64Array(tree.depth).fill(-1);
    for (let at = zoom; at < tree.end[zoom]; ) {
      const level = tree.level[at];
      const x = (tree.start[at] - this.from) * this.scale;
      const wide = tree.width[at] * this.scale;
      if (level >= last || wide < SLIVER || x + wide < drawn[level] + SLIVER) {
        at = tree.end[at];
        continue;
      }
      drawn[level] = x + wide;
      this.box(view, at, x, wide, false);
      at += 1;
    }
  }

  box({ tree, lit, top }, at, x, wide, above) {
    const level = tree.level[at];
    (this.rows[level] ??= []).push([x, wide, at]);
    const y = level * ROW;
    if (y + ROW <= top) return;
    const { context } = this;
    context.globalAlpha = above ? 0.55 : 1;
    const fill = lit && !lit[at] ? this.of.line : this.fill(tree, at);
    context.fillStyle = fill;
    context.fillRect(x, y, wide > 2 ? wide - 0.7 : Math.max(SLIVER, wide), ROW - 1);
    context.globalAlpha = 1;
    if (lit?.[at]) {
      context.fillStyle = this.of.accent;
      context.fillRect(x, y + ROW - 4, Math.max(1, wide - 0.7), 3);
    }
    if (wide >= LABEL_LEAST) this.label(tree, at, x, y, wide, Boolean(lit && !lit[at]));
  }

  label(tree, at, x, y, wide, faint) {
    const { context } = this;
    const name = tree.title(at);
    context.fillStyle = faint ? this.of.muted : this.set.ink;
    const said = tree.compares && at ? `${mark(tree.change(at))}${name} ${points(tree.share(at) - tree.baseShare(at))}` : name;
    const text = cut(context, said, wide - 7);
    if (text) context.fillText(text, x + 4, y + ROW / 2);
  }

  // By file, with a shade by function; of a difference by the change.
  fill(tree, at) {
    if (tree.compares) return this.ramp[Math.round((tree.change(at) + 1) * STEPS)];
    if (!at) return this.of.line;
    const label = tree.label[at];
    let found = this.fills.get(label);
    if (!found) {
      const { name, file } = frame(label);
      const hue = HUES[sum(file || name) % HUES.length];
      const shade = sum(name) % SHADES;
      found = this.dark ? `hsl(${hue} 34% ${26 + 3 * shade}%)` : `hsl(${hue} 62% ${74 + 3 * shade}%)`;
      this.fills.set(label, found);
    }
    return found;
  }

  // Where a box is drawn; undefined where it is out of sight.
  place(tree, at) {
    const found = this.rows[tree.level[at]]?.find(([, , each]) => each === at);
    return found && { x: found[0], wide: found[1], y: tree.level[at] * ROW };
  }

  // The box at a point of the whole graph, or -1.
  at(x, y) {
    const row = this.rows[Math.floor(y / ROW)] ?? [];
    return row.find(([from, wide]) => x >= from && x < from + Math.max(1, wide))?.[2] ?? -1;
  }
}

const mark = (change) => (change > 0.005 ? "▲" : change < -0.005 ? "▼" : "");

function mixed({ same, grew, shrank }, part) {
  const [to, share] = [part > 0 ? grew : shrank, Math.abs(part)];
  return `rgb(${same.map((from, at) => Math.round(from + (to[at] - from) * share)).join(" ")})`;
}

function sum(text) {
  let found = 7;
  for (let at = 0; at < text.length; at += 1) found = (Math.imul(found, 31) + text.charCodeAt(at)) >>> 0;
  return (found ^ (found >>> 15)) >>> 0;
}

// A colour of the style sheet as a canvas needs it.
function css(canvas, name) {
  const probe = canvas.parentElement.appendChild(document.createElement("i"));
  probe.style.color = `var(${name})`;
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
