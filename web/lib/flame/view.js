// A flame graph with its table, in any page: it draws what it is given, and tells what is searched and zoomed.

import { bar, element, item, rows, table, tip } from "./parts.js";
import { Painter, ROW } from "./painter.js";
import { Tree, matcher } from "./tree.js";

const TALLEST = 560; // before it scrolls
const TOLD_MS = 2500;

export class FlameView {
  // `changed({ q, zoom })` is called when somebody searches or zooms; `zoom` is the name of a box. `tallest`: in pixels.
  constructor(place, { changed = () => {}, tallest = TALLEST } = {}) {
    Object.assign(this, { changed, tallest, tree: new Tree({}), zoom: 0, hover: -1, stand: -1, q: "", match: null, hits: null, sort: "self", unit: "microseconds", asked: "" });
    this.bar = bar({ search: (text) => this.search(text), whole: () => this.zoomTo(0), copy: () => this.copy(this.stand >= 0 ? this.stand : this.zoom) });
    this.canvas = element("canvas", { attributes: { "aria-hidden": "true" } });
    this.canvas.style.visibility = "hidden"; // black until something is drawn, for it is opaque
    // What is looked at is framed by elements: nothing is drawn again while the pointer moves.
    this.marks = { hover: element("i", { className: "wm-flame-mark", hidden: true }), stand: element("i", { className: "wm-flame-mark wm-flame-stand", hidden: true }) };
    this.space = element("div", { className: "wm-flame-space" }, this.canvas, this.marks.hover, this.marks.stand);
    this.scroller = element("div", { className: "wm-flame-graph", tabIndex: 0, attributes: { role: "tree" } }, this.space);
    this.tip = element("div", { className: "wm-flame-tip", hidden: true });
    this.stage = element("div", { className: "wm-flame-stage" }, this.scroller, this.tip);
    this.table = element("div", { className: "wm-flame-table wm-scroll", tabIndex: 0, attributes: { role: "region", "aria-label": "Top functions" } });
    this.root = element("div", { className: "wm-flame" }, this.bar.all, element("div", { className: "wm-flame-parts" }, this.stage, this.table));
    place.append(this.root);
    this.painter = new Painter(this.canvas);
    this.listen();
  }

  listen() {
    const { scroller, canvas } = this;
    this.size = new ResizeObserver(() => this.fit());
    this.size.observe(scroller);
    scroller.addEventListener("scroll", () => this.dirty());
    canvas.addEventListener("pointermove", (event) => this.point(event));
    canvas.addEventListener("pointerleave", () => this.point(null));
    canvas.addEventListener("click", (event) => this.click(event));
    scroller.addEventListener("keydown", (event) => this.key(event));
    scroller.addEventListener("focus", () => scroller.matches(":focus-visible") && this.stop(this.stand >= 0 ? this.stand : this.zoom));
    scroller.addEventListener("blur", () => this.stop(-1));
    this.slash = (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.closest?.("input, select, textarea")) return;
      event.preventDefault();
      this.bar.search.focus();
    };
    addEventListener("keydown", this.slash);
  }

  close() {
    this.size.disconnect();
    removeEventListener("keydown", this.slash);
    this.root.remove();
  }

  // Show a graph: `columns` as the API has them, `top` its table of functions (left out: added up from the graph), `first`
  // the level of the first functions, for there may be parts above.
  show({ columns, top = null, unit = "microseconds", first = 1 }) {
    const stood = this.stand >= 0 ? this.tree.name(this.stand) : "";
    Object.assign(this, { tree: new Tree(columns), unit, hover: -1 });
    this.tip.hidden = true;
    this.stand = this.tree.named(stood);
    this.found = rows(this.tree, top, first);
    if (this.tree.compares !== (this.sort === "change")) this.sort = this.tree.compares ? "change" : "self";
    this.bar.legend.hidden = !this.tree.compares;
    this.hits = this.match && this.tree.search(this.match);
    this.zoom = Math.max(0, this.tree.named(this.asked));
    this.scroller.setAttribute("aria-label", `Flame graph of ${this.tree.length} boxes. Arrow keys go to callers, callees and neighbours, Enter zooms, C copies the stack.`);
    this.place();
    this.say();
    this.list();
    this.fit();
  }

  // What the page's address says: a text to search for, the name of the box to look at.
  choose({ q = "", zoom = "" }) {
    this.asked = zoom;
    if (q !== this.q) this.look(q);
    const at = Math.max(0, this.tree.named(zoom));
    if (at === this.zoom) return;
    this.zoom = at;
    this.say();
    this.dirty();
  }

  search(text) {
    this.look(text);
    this.tell();
  }

  look(text) {
    this.q = text;
    if (this.bar.search.value !== text) this.bar.search.value = text;
    let wrong = "";
    try {
      this.match = matcher(text.trim());
    } catch (error) {
      [this.match, wrong] = [null, error.message];
    }
    this.hits = this.match && this.tree.search(this.match);
    this.say(wrong);
    this.list();
    this.dirty();
  }

  tell() {
    this.asked = this.zoom > 0 ? this.tree.name(this.zoom) : "";
    this.changed({ q: this.q, zoom: this.asked });
  }

  say(wrong = "") {
    const { hits } = this;
    const found = hits && (hits.count ? `${(hits.share * 100).toFixed(1)}\u202f% of all, in ${hits.count.toLocaleString("en")} ${hits.count === 1 ? "box" : "boxes"}` : "nothing matches");
    this.bar.hits.textContent = wrong || found || "";
    this.bar.whole.disabled = !this.zoom;
    this.bar.copy.disabled = !this.tree.length;
  }

  list() {
    const { tree, found = [], sort, match, unit } = this;
    const doing = {
      sort: (key) => {
        this.sort = key;
        this.list();
        this.table.querySelector("[aria-sort=descending] button")?.focus();
      },
      pick: (label) => this.search(this.q === label ? "" : label),
    };
    const focused = this.table.contains(document.activeElement) ? document.activeElement.title : "";
    this.table.replaceChildren(table({ tree, found, sort, match, unit }, doing));
    if (focused) [...this.table.querySelectorAll("button")].find(({ title }) => title === focused)?.focus();
  }

  zoomTo(at) {
    if (at < 0 || !this.tree.length) return;
    this.zoom = at;
    this.say();
    this.tell();
    this.dirty();
  }

  // The text of a stack, the outermost first, a line a function.
  text(at) {
    return this.tree.path(at).slice(1).map((each) => this.tree.label[each]).join("\n");
  }

  async copy(at) {
    if (at < 0 || !this.tree.length) return;
    const done = await toClipboard(this.text(at));
    this.bar.hits.textContent = done ? `copied a stack of ${this.tree.path(at).length - 1}` : "the browser did not let it be copied";
    clearTimeout(this.later);
    this.later = setTimeout(() => this.say(), TOLD_MS);
  }

  // --- drawing ---

  fit() {
    const { scroller, tree } = this;
    const whole = Math.max(1, tree.depth) * ROW + 1;
    this.space.style.height = `${whole}px`;
    scroller.style.height = `${Math.min(this.tallest, whole)}px`;
    this.painter.resize(scroller.clientWidth, scroller.clientHeight);
    this.canvas.style.width = `${scroller.clientWidth}px`;
    this.canvas.style.height = `${scroller.clientHeight}px`;
    this.dirty();
  }

  // In the colours of the page as they are now.
  paint() {
    this.painter.of = null;
    this.dirty();
  }

  dirty() {
    this.frame ??= requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.frame = null;
    if (!this.tree.length || !this.root.isConnected) return;
    if (!this.painter.of) this.painter.paints();
    const { tree, zoom, hits } = this;
    this.painter.paint({ tree, zoom, lit: hits?.lit ?? null, top: this.scroller.scrollTop });
    this.canvas.style.visibility = "";
    this.mark("hover");
    this.mark("stand");
  }

  mark(name) {
    const [mark, at] = [this.marks[name], this[name]];
    const box = at >= 0 && this.painter.place(this.tree, at);
    mark.hidden = !box;
    if (box) Object.assign(mark.style, { transform: `translate(${box.x}px, ${box.y}px)`, width: `${Math.max(2, box.wide - 0.7)}px` });
  }

  // --- the pointer ---

  boxAt(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    return this.tree.length ? this.painter.at(event.clientX - left, event.clientY - top + this.scroller.scrollTop) : -1;
  }

  point(event) {
    const at = event ? this.boxAt(event) : -1;
    this.canvas.classList.toggle("wm-flame-over", at >= 0);
    if (at !== this.hover) {
      this.hover = at;
      this.mark("hover");
    }
    const { left, top } = this.stage.getBoundingClientRect();
    this.hint(at, event ? event.clientX - left : 0, event ? event.clientY - top : 0);
  }

  click(event) {
    const at = this.boxAt(event);
    if (at < 0) return;
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return void this.copy(at);
    this.zoomTo(at);
  }

  hint(at, x, y) {
    const { tip: shown, stage } = this;
    shown.hidden = at < 0;
    if (at < 0) return;
    shown.replaceChildren(...tip(this.tree, at, this.unit));
    const left = Math.max(0, Math.min(x + 12, stage.clientWidth - shown.offsetWidth - 4));
    shown.style.transform = `translate(${left}px, ${y + 18}px)`;
  }

  // --- keys ---

  // The tree holds the item that keys stand at, or the whole.
  place() {
    const at = this.stand >= 0 ? this.stand : 0;
    const old = this.scroller.querySelector("[role=treeitem]");
    if (!this.tree.length) return void old?.remove();
    const now = item(this.tree, at, this.unit);
    if (old) old.replaceWith(now);
    else this.scroller.append(now);
    this.scroller.setAttribute("aria-activedescendant", now.id);
  }

  stop(at) {
    this.stand = at;
    this.place();
    if (at < 0) return void (this.hint(-1), this.mark("stand"));
    const { scroller } = this;
    const y = this.tree.level[at] * ROW;
    if (y < scroller.scrollTop) scroller.scrollTop = y;
    else if (y + ROW > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = y + ROW - scroller.clientHeight;
    this.draw();
    const box = this.painter.place(this.tree, at);
    if (box) this.hint(at, Math.max(0, box.x), box.y - scroller.scrollTop);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.tree.length) return;
    const at = this.stand >= 0 ? this.stand : this.zoom;
    const doing = {
      ArrowDown: () => this.stop(this.widest(at)), ArrowUp: () => this.stop(Math.max(0, this.tree.parent[at])),
      ArrowLeft: () => this.stop(this.beside(at, -1)), ArrowRight: () => this.stop(this.beside(at, 1)), Home: () => this.stop(0),
      Enter: () => this.zoomTo(at), " ": () => this.zoomTo(at), Escape: () => this.zoomTo(0), 0: () => this.zoomTo(0),
      Backspace: () => this.zoomTo(Math.max(0, this.tree.parent[this.zoom])), c: () => this.copy(at), C: () => this.copy(at),
      n: () => this.stop(this.hit(at, 1)), N: () => this.stop(this.hit(at, -1)),
    }[event.key];
    if (!doing) return;
    event.preventDefault();
    doing();
  }

  widest(at) {
    const { width } = this.tree;
    return this.tree.children(at).reduce((best, each) => (best === at || width[each] > width[best] ? each : best), at);
  }

  // The next box of the same level that is drawn.
  beside(at, way) {
    this.draw();
    const row = this.painter.rows[this.tree.level[at]] ?? [];
    const here = row.findIndex(([, , each]) => each === at);
    return row[here + way]?.[2] ?? at;
  }

  // The next box that the search found, from here on, around.
  hit(at, way) {
    const { length } = this.tree;
    for (let step = 1; this.hits && step <= length; step += 1) {
      const each = (at + way * step + length * 2) % length;
      if (this.hits.lit[each]) return each;
    }
    return at;
  }
}

// A clipboard is there in pages that came by https or from this machine; elsewhere a selection does.
async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const held = element("textarea", { value: text, className: "wm-hidden" });
    const before = document.activeElement;
    document.body.append(held);
    held.select();
    const done = document.execCommand("copy");
    held.remove();
    before?.focus();
    return done;
  }
}
