// Draws a timeline on a canvas: what tiles hold of the stretch in view, the ruler, steps, what is selected, and arrows.

import { cut } from "../labels.js";
import { colour as css, isDark } from "../theme.js";
import { length, ruler } from "./scale.js";
import { palette, SHADES } from "./names.js";

export const RULER = 22;
export const STEPS = 20;
const LABEL_LEAST = 34; // pixels that a name needs
const FONT = "11px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";

export class Painter {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.paints();
  }

  // Colours of the page, again when its theme changes.
  paints() {
    const names = ["back", "panel", "raised", "line", "text", "muted", "accent", "bad"];
    this.of = Object.fromEntries(names.map((name) => [name, css(`--wm-${name}`)]));
    this.dark = isDark();
    this.fills = palette(this.dark);
    this.ink = this.dark ? "#f4f6f9" : "#11151b";
  }

  resize(width, height) {
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
    if (this.canvas.width !== w || this.canvas.height !== h) [this.canvas.width, this.canvas.height] = [w, h];
    [this.width, this.height, this.ratio] = [width, height, ratio];
  }

  // `view`: t0, t1, top (what is scrolled away), rows, tiles, names, steps, selected, range, hover, arrows.
  paint(view) {
    const { context } = this;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.fillStyle = this.of.panel;
    context.fillRect(0, 0, this.width, this.height);
    this.scale = this.width / (view.t1 - view.t0);
    this.x = (ns) => (ns - view.t0) * this.scale;
    const head = RULER + (view.steps.length ? STEPS : 0);
    this.grid(view, head);
    context.save();
    context.beginPath();
    context.rect(0, head, this.width, this.height - head);
    context.clip();
    context.translate(0, head - view.top);
    this.lanes(view, head);
    this.marks(view);
    context.restore();
    this.head(view, head);
    this.range(view, head);
  }

  grid({ t0, t1 }, head) {
    const { context } = this;
    this.ruled = ruler(t0, t1, this.width);
    context.fillStyle = this.of.line;
    for (const { at } of this.ruled.lines) context.fillRect(Math.round(this.x(at)), head, 1, this.height - head);
  }

  lanes(view, head) {
    const { context } = this;
    context.font = FONT;
    context.textBaseline = "middle";
    const inSight = view.rows.filter((row) => row.y + row.height > view.top && row.y < view.top + this.height - head);
    for (const row of inSight) {
      if (!row.group) continue;
      context.fillStyle = this.of.raised;
      context.fillRect(0, row.y, this.width, row.height);
    }
    const parts = [...view.tiles.cover(view.t0, view.t1, 1 / this.scale)];
    const shown = inSight.filter((row) => row.lane);
    for (const [tile, from, to] of parts) for (const row of shown) this.fill(view, row, tile, from, to);
    const named = new Set();
    for (const [tile, from, to] of parts) for (const row of shown) if (!row.small) this.label(view, row, tile, from, to, named);
  }

  fill({ t0, t1, names }, row, tile, from, to) {
    const events = tile.lanes.get(row.lane.lane);
    if (!events) return;
    const { context, scale, fills } = this;
    const [left, right] = [Math.max(from, t0), Math.min(to, t1)];
    const { start, duration, style, depth, name } = events;
    const { dimmed } = names;
    const tall = row.small ? Math.max(1, row.step) : row.step - 1;
    let last = -1;
    for (let at = 0; at < events.length; at += 1) {
      const [begin, end] = [start[at], start[at] + duration[at]];
      if (begin >= right || end < left || (end === left && duration[at])) continue;
      const x0 = (Math.max(begin, left) - t0) * scale;
      const wide = (Math.min(end, right) - t0) * scale - x0;
      const paint = dimmed?.[name[at]] ? style[at] - (style[at] % SHADES) - 1000 : style[at];
      if (paint !== last) {
        context.globalAlpha = paint < 0 ? 0.35 : 1;
        context.fillStyle = paint < 0 ? this.of.line : fills[paint];
        last = paint;
      }
      const top = row.y + depth[at] * row.step;
      if (wide > 2.5) context.fillRect(x0, top, end <= right ? wide - 0.6 : wide + 0.5, tall);
      else context.fillRect(Math.floor(x0 * 2) / 2, top, Math.max(1, wide), tall);
    }
    context.globalAlpha = 1;
  }

  label({ t0, t1, names }, row, tile, from, to, named) {
    const events = tile.lanes.get(row.lane.lane);
    if (!events) return;
    const { context, scale } = this;
    const { start, duration, depth, name, count } = events;
    const least = LABEL_LEAST / scale;
    context.fillStyle = this.ink;
    for (let at = 0; at < events.length; at += 1) {
      if (duration[at] < least || count[at] > 1) continue;
      const end = start[at] + duration[at];
      if (end <= Math.max(from, t0) || start[at] >= Math.min(to, t1)) continue;
      const key = row.lane.lane * 1e18 + depth[at] * 1e16 + start[at];
      if (named.has(key)) continue;
      named.add(key);
      const x0 = Math.max(0, this.x(start[at]));
      const wide = Math.min(this.width, this.x(end)) - x0 - 6;
      if (wide < LABEL_LEAST - 8) continue;
      context.globalAlpha = names.dimmed?.[name[at]] ? 0.45 : 1;
      const text = cut(context, names.short[name[at]], wide);
      const top = row.y + depth[at] * row.step + row.step / 2;
      if (text) context.fillText(text, x0 + 4, top);
      if (wide > 110 && text.length === names.short[name[at]].length) {
        const taken = context.measureText(text).width + 8;
        const took = length(duration[at]);
        context.globalAlpha *= 0.65;
        if (wide - taken > took.length * 6.5) context.fillText(took, x0 + 4 + taken, top);
      }
    }
    context.globalAlpha = 1;
  }

  // What is pointed at and selected, and the arrows to what launched it or what it launched.
  marks(view) {
    const { context } = this;
    for (const [event, width, paint] of [[view.hover, 1, this.ink], [view.selected, 2, this.of.accent]]) {
      const box = event && this.box(view, event);
      if (!box) continue;
      context.strokeStyle = paint;
      context.lineWidth = width;
      context.strokeRect(box.x - 0.5, box.y - 0.5, Math.max(2, box.width) + 0.5, box.height + 0.5);
    }
    for (const [from, to] of view.arrows) this.arrow(view, from, to);
  }

  box(view, event) {
    const row = view.byLane.get(event.lane);
    if (!row) return null;
    const [x0, x1] = [this.x(event.start_ns), this.x(event.start_ns + event.duration_ns)];
    if (x1 < -50 || x0 > this.width + 50) return null;
    const left = Math.max(-4, x0);
    return { x: left, width: Math.min(this.width + 4, x1) - left, y: row.y + event.depth * row.step, height: Math.max(2, row.step - 1) };
  }

  arrow(view, from, to) {
    const [a, b] = [from, to].map((each) => view.byLane.get(each.lane));
    if (!a || !b) return;
    const { context } = this;
    const [x0, x1] = [this.x(from.start_ns + Math.min(from.duration_ns, 1 / this.scale)), this.x(to.start_ns)];
    if (Math.max(x0, x1) < -2000 || Math.min(x0, x1) > this.width + 2000) return;
    const [y0, y1] = [a.y + from.depth * a.step + a.step / 2, b.y + to.depth * b.step + b.step / 2];
    const bend = x1 - x0 > 160 ? x1 - x0 - 90 : Math.max(24, Math.abs(x1 - x0) * 0.4); // a long one stays by its launch
    const near = Math.min(bend, 60);
    context.strokeStyle = context.fillStyle = this.of.accent;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x0, y0);
    if (bend > 70) context.lineTo(x0 + bend - 60, y0);
    context.bezierCurveTo(x0 + bend, y0, x1 - near, y1, x1, y1);
    context.stroke();
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x1 - 7, y1 - 4);
    context.lineTo(x1 - 7, y1 + 4);
    context.fill();
  }

  head(view, head) {
    const { context } = this;
    context.fillStyle = this.of.panel;
    context.fillRect(0, 0, this.width, head);
    context.fillStyle = this.of.line;
    context.fillRect(0, head - 1, this.width, 1);
    context.font = FONT;
    context.textBaseline = "middle";
    context.fillStyle = this.of.muted;
    const { base, lines } = this.ruled;
    const room = base ? context.measureText(length(base)).width + 14 : 0;
    if (base) context.fillText(length(base), 4, RULER / 2);
    for (const { at, text } of lines) {
      const x = Math.round(this.x(at));
      if (x > room) context.fillText(text, x + 4, RULER / 2);
      context.fillRect(x, RULER - 6, 1, 6);
    }
    this.steps(view);
  }

  steps({ steps }) {
    const { context } = this;
    let drawn = -1;
    steps.forEach((step, at) => {
      const [x0, x1] = [Math.max(0, this.x(step.start_ns)), Math.min(this.width, this.x(step.start_ns + step.duration_ns))];
      if (x1 <= 0 || x0 >= this.width || (x1 - x0 < 1 && Math.floor(x1) === drawn)) return;
      drawn = Math.floor(x1);
      context.fillStyle = this.fills[(at % 2 ? 4 : 0) * SHADES + 1];
      context.fillRect(x0, RULER, Math.max(1, x1 - x0 - 1), STEPS - 3);
      if (x1 - x0 < 30) return;
      context.fillStyle = this.ink;
      const text = x1 - x0 > 170 ? `${step.name} · ${length(step.duration_ns)}` : x1 - x0 > 92 ? step.name : step.name.replace(/^\D+/, "");
      context.fillText(cut(context, text, x1 - x0 - 8), x0 + 4, RULER + (STEPS - 3) / 2);
    });
  }

  range({ range }, head) {
    if (!range) return;
    const { context } = this;
    const [x0, x1] = [this.x(range[0]), this.x(range[1])];
    context.globalAlpha = 0.14;
    context.fillStyle = this.of.accent;
    context.fillRect(x0, head, x1 - x0, this.height - head);
    context.globalAlpha = 1;
    for (const x of [x0, x1]) context.fillRect(Math.round(x), RULER, 1, this.height);
    context.fillRect(Math.max(0, x0), RULER - 3, Math.min(this.width, x1) - Math.max(0, x0), 3);
  }
}

// The whole trace in a strip: how busy the streams were (without streams, the threads), and what is in view.
export function minimap(canvas, painter, { tile, end, lanes, t0, t1, range }) {
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== Math.round(width * ratio)) [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = painter.of.back;
  context.fillRect(0, 0, width, height);
  const streams = lanes.filter(({ sort }) => sort === "stream");
  const shown = (streams.length ? streams : lanes).slice(0, 6);
  const tall = (height - 4) / Math.max(1, shown.length);
  const scale = width / end;
  shown.forEach((lane, row) => {
    const events = tile?.lanes.get(lane.lane);
    for (let at = 0; at < (events?.length ?? 0); at += 1) {
      if (events.depth[at]) continue;
      context.fillStyle = painter.fills[events.style[at]];
      context.fillRect(events.start[at] * scale, 2 + row * tall, Math.max(0.7, events.duration[at] * scale), tall - 1);
    }
  });
  const [x0, x1] = [t0 * scale, Math.max(t1 * scale, t0 * scale + 3)];
  context.fillStyle = painter.of.panel;
  context.globalAlpha = 0.66;
  context.fillRect(0, 0, x0, height);
  context.fillRect(x1, 0, width - x1, height);
  context.globalAlpha = 1;
  context.strokeStyle = painter.of.accent;
  context.lineWidth = 1.5;
  context.strokeRect(Math.max(0.75, x0), 0.75, Math.min(width - 1.5, x1 - x0), height - 1.5);
  if (range) {
    context.fillStyle = painter.of.accent;
    context.fillRect(range[0] * scale, height - 3, Math.max(1, (range[1] - range[0]) * scale), 3);
  }
}
