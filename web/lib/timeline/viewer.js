// The timeline in motion: what is in view, and what pointers and keys do to it. Knows nothing of the page around it.

import { layout } from "./layout.js";
import { minimap, Painter, RULER, STEPS } from "./painter.js";
import { Tiles } from "./tiles.js";

const LEAST_NS = 200; // the shortest stretch that one can look at
const ZOOM = 2.6; // by e in a second while a key is held
const PAN = 1.1; // widths in a second

export class Viewer {
  // `told`: `moved()`, `selected(event)`, `ranged(range)`, `hovered(event, x, y)`, `failed(why)`, `laid(layout)`.
  constructor({ canvas, stage, map, scroller, lanes, steps, names, end, fetch, folded, told }) {
    Object.assign(this, { canvas, stage, map, scroller, lanes, steps, names, end, folded, told });
    canvas.viewer = this; // for who looks at the page from outside: tests, the console
    this.painter = new Painter(canvas);
    [this.t0, this.t1] = [0, end];
    [this.selected, this.hover, this.range, this.arrows] = [null, null, null, []];
    this.held = new Set();
    this.tiles = new Tiles({ end, names, fetch, changed: () => this.dirty(), failed: (why) => told.failed(why) });
    this.fold();
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(scroller);
    this.observer.observe(stage);
    this.pointers = new Map();
    this.listen();
    this.resize();
  }

  close() {
    this.observer.disconnect();
    this.abort.abort();
    cancelAnimationFrame(this.frame);
  }

  get head() {
    return RULER + (this.steps.length ? STEPS : 0);
  }

  get nsPerPixel() {
    return (this.t1 - this.t0) / this.painter.width;
  }

  resize() {
    if (!this.stage.clientWidth) return; // hidden: what is in view stays
    const [width, height] = [Math.max(50, this.stage.clientWidth), Math.max(50, this.scroller.clientHeight)];
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
    this.map.style.width = `${width}px`;
    this.painter.resize(width, height);
    this.dirty(true);
  }

  theme() {
    this.painter.paints();
    this.dirty();
  }

  fold() {
    this.laid = layout(this.lanes, this.folded);
    this.told.laid({ ...this.laid, head: this.head });
    this.dirty();
  }

  toggle(key) {
    if (!this.folded.delete(key)) this.folded.add(key);
    this.fold();
  }

  // Draw in the next frame; `moved`: other tiles may be needed, and the page is told.
  dirty(moved = false) {
    this.moved ||= moved;
    this.frame ||= requestAnimationFrame((now) => this.draw(now));
  }

  draw(now) {
    this.frame = 0;
    this.hold(now);
    if (this.moved) {
      this.moved = false;
      this.tiles.look(this.t0, this.t1, this.nsPerPixel);
      this.told.moved();
    }
    const began = performance.now();
    this.painter.paint({
      t0: this.t0, t1: this.t1, top: this.scroller.scrollTop, rows: this.laid.rows, byLane: this.laid.byLane,
      tiles: this.tiles, names: this.names, steps: this.steps, selected: this.selected, hover: this.hover,
      range: this.range, arrows: this.arrows,
    });
    const tile = this.tiles.tiles.get(`${this.tiles.root}/0`);
    minimap(this.map, this.painter, { tile, end: this.end, lanes: this.lanes, t0: this.t0, t1: this.t1, range: this.range });
    this.took = performance.now() - began;
  }

  // --- where one looks ---------------------------------------------------------------------------------------------

  look(t0, t1) {
    const span = Math.min(this.end, Math.max(LEAST_NS, t1 - t0));
    const left = Math.max(0, Math.min(this.end - span, (t0 + t1) / 2 - span / 2)); // before the first event is nothing
    [this.t0, this.t1] = [left, left + span];
    this.dirty(true);
  }

  zoom(factor, at = (this.t0 + this.t1) / 2) {
    const span = Math.max(LEAST_NS, (this.t1 - this.t0) * factor);
    const share = (at - this.t0) / (this.t1 - this.t0);
    this.look(at - share * span, at + (1 - share) * span);
  }

  pan(share) {
    const by = (this.t1 - this.t0) * share;
    this.look(this.t0 + by, this.t1 + by);
  }

  fit() {
    this.look(0, this.end);
  }

  // Bring an event into view: its lane unfolded and scrolled to, and time so that it is a good part of the width.
  show(event, closer = false) {
    const row = this.laid.byLane.get(event.lane);
    const lane = this.lanes.find((each) => each.lane === event.lane);
    if (lane && (!row || row.small)) {
      this.folded.delete(lane.sort);
      this.folded.delete(lane.key);
      this.fold();
    }
    const span = this.t1 - this.t0;
    const middle = event.start_ns + event.duration_ns / 2;
    const outside = event.start_ns + event.duration_ns < this.t0 + span * 0.02 || event.start_ns > this.t1 - span * 0.02;
    if (closer || event.duration_ns < span / 400) {
      const wide = Math.max(LEAST_NS, event.duration_ns * (closer ? 1.6 : 30));
      this.look(middle - wide / 2, middle + wide / 2);
    } else if (outside) this.look(middle - span / 2, middle + span / 2);
    this.scroll(event);
  }

  scroll(event) {
    const row = this.laid.byLane.get(event.lane);
    if (!row) return;
    const [top, room] = [row.y + event.depth * row.step, this.scroller.clientHeight - this.head];
    const now = this.scroller.scrollTop;
    if (top < now + 4) this.scroller.scrollTop = top - 20;
    else if (top + row.step > now + room) this.scroller.scrollTop = top + row.step - room + 20;
  }

  select(event, arrows = []) {
    [this.selected, this.arrows] = [event, arrows];
    this.dirty();
  }

  mark(range) {
    this.range = range;
    this.dirty();
  }

  // --- what is where -----------------------------------------------------------------------------------------------

  timeAt(x) {
    return this.t0 + x * this.nsPerPixel;
  }

  // The event under a point of the canvas, or the nearest within three pixels.
  at(x, y) {
    const down = y - this.head + this.scroller.scrollTop;
    if (y < this.head) return null;
    const row = this.laid.rows.find((each) => each.lane && down >= each.y && down < each.y + each.height);
    if (!row) return null;
    const depth = Math.floor((down - row.y) / row.step);
    const time = this.timeAt(x);
    let [best, away] = [null, 3 * this.nsPerPixel];
    for (const [tile, from, to] of this.tiles.cover(this.t0, this.t1, this.nsPerPixel)) {
      if (time < from - away || time > to + away) continue;
      const events = tile.lanes.get(row.lane.lane);
      for (let i = 0; i < (events?.length ?? 0); i += 1) {
        if (events.depth[i] !== depth) continue;
        const off = Math.max(events.start[i] - time, time - events.start[i] - events.duration[i], 0);
        if (off < away) [best, away] = [this.event(row.lane.lane, events, i), off];
      }
    }
    return best;
  }

  event(lane, events, i) {
    return {
      lane, depth: events.depth[i], start_ns: events.start[i], duration_ns: events.duration[i],
      busy_ns: events.busy[i], count: events.count[i], name: events.name[i],
    };
  }

  // What is in view, in order of time: of a lane and depth, or of all.
  *inView(lane = null, depth = null) {
    for (const [tile, from, to] of this.tiles.cover(this.t0, this.t1, this.nsPerPixel)) {
      for (const [of, events] of tile.lanes) {
        if (lane !== null && of !== lane) continue;
        for (let i = 0; i < events.length; i += 1) {
          if (depth !== null && events.depth[i] !== depth) continue;
          const end = events.start[i] + events.duration[i];
          if (events.start[i] < Math.min(to, this.t1) && end >= Math.max(from, this.t0)) yield this.event(of, events, i);
        }
      }
    }
  }

  // The next event in a direction: 1 or -1 along its lane, or "in" and "out" of the nesting.
  beside(event, way) {
    const depth = way === "in" ? event.depth + 1 : way === "out" ? event.depth - 1 : event.depth;
    let best = null;
    for (const each of this.inView(event.lane, depth)) {
      if (way === "in" || way === "out") {
        const inside = way === "in" ? each.start_ns >= event.start_ns && each.start_ns < event.start_ns + event.duration_ns : each.start_ns <= event.start_ns && each.start_ns + each.duration_ns >= event.start_ns;
        if (inside && (!best || each.start_ns < best.start_ns)) best = each;
      } else if ((each.start_ns - event.start_ns) * way > 0 && (!best || (best.start_ns - each.start_ns) * way > 0)) best = each;
    }
    return best;
  }

  // The first event in view of the first lane in sight.
  first() {
    const top = this.scroller.scrollTop;
    for (const row of this.laid.rows) {
      if (!row.lane || row.y < top - 1) continue;
      const found = [...this.inView(row.lane.lane, 0)].filter(({ start_ns }) => start_ns >= this.t0).sort((a, b) => a.start_ns - b.start_ns)[0];
      if (found) return found;
    }
    return null;
  }

  // --- keys --------------------------------------------------------------------------------------------------------

  // While keys of motion are held the view glides, as fast on a slow screen as on a fast one.
  hold(now) {
    const took = Math.min(0.05, (now - (this.lastFrame ?? now)) / 1000);
    this.lastFrame = this.held.size ? now : undefined;
    if (!this.held.size) return;
    const at = this.pointed ?? (this.t0 + this.t1) / 2;
    if (this.held.has("in")) this.zoom(Math.exp(-ZOOM * took), at);
    if (this.held.has("out")) this.zoom(Math.exp(ZOOM * took), at);
    if (this.held.has("left")) this.pan(-PAN * took);
    if (this.held.has("right")) this.pan(PAN * took);
    this.dirty(true);
  }

  press(motion) {
    if (this.held.has(motion)) return;
    this.held.add(motion);
    const at = this.pointed ?? (this.t0 + this.t1) / 2;
    if (motion === "in") this.zoom(0.85, at);
    if (motion === "out") this.zoom(1 / 0.85, at);
    if (motion === "left") this.pan(-0.08);
    if (motion === "right") this.pan(0.08);
  }

  release(motion) {
    this.held.delete(motion);
    this.dirty(true);
  }

  // --- pointers ----------------------------------------------------------------------------------------------------

  listen() {
    this.abort = new AbortController();
    const { signal } = this.abort;
    const on = (element, type, then, options = {}) => element.addEventListener(type, then, { signal, ...options });
    on(this.scroller, "scroll", () => this.dirty());
    on(this.canvas, "wheel", (event) => this.wheel(event), { passive: false });
    on(this.canvas, "pointerdown", (event) => this.down(event));
    on(this.canvas, "pointermove", (event) => this.move(event));
    on(this.canvas, "pointerup", (event) => this.up(event));
    on(this.canvas, "pointercancel", (event) => this.up(event));
    on(this.canvas, "pointerleave", () => this.leave());
    on(this.canvas, "dblclick", (event) => this.closer(event));
    on(this.map, "pointerdown", (event) => this.jump(event));
    on(this.map, "pointermove", (event) => event.buttons && this.jump(event));
    on(window, "blur", () => this.held.clear());
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  wheel(event) {
    event.preventDefault();
    const pixels = event.deltaMode ? 16 : 1;
    const [x] = this.point(event);
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.pan(((event.deltaX || event.deltaY) * pixels) / this.painter.width);
    } else if (event.altKey) this.scroller.scrollTop += event.deltaY * pixels;
    else this.zoom(Math.exp(Math.max(-120, Math.min(120, event.deltaY * pixels)) * 0.0022), this.timeAt(x));
  }

  down(event) {
    if (event.button > 1) return;
    const [x, y] = this.point(event);
    this.pointers.set(event.pointerId, [x, y]);
    this.canvas.setPointerCapture(event.pointerId);
    this.from = { x, y, at: this.timeAt(x), t0: this.t0, t1: this.t1, top: this.scroller.scrollTop, ranges: event.shiftKey || (y < this.head && !this.stepAt(x, y)), dragged: false };
    if (this.pointers.size === 2) this.pinch = this.pinched();
  }

  pinched() {
    const [[ax], [bx]] = [...this.pointers.values()];
    return { apart: Math.max(20, Math.abs(ax - bx)), at: this.timeAt((ax + bx) / 2), span: this.t1 - this.t0 };
  }

  move(event) {
    const [x, y] = this.point(event);
    this.pointed = this.timeAt(x);
    if (!this.pointers.has(event.pointerId)) return this.hovering(x, y);
    this.pointers.set(event.pointerId, [x, y]);
    if (this.pointers.size === 2) {
      const { apart, at, span } = this.pinch;
      const now = this.pinched();
      const next = (span * apart) / now.apart;
      const share = ([...this.pointers.values()].reduce((sum, [px]) => sum + px, 0) / 2) / this.painter.width;
      return this.look(at - share * next, at + (1 - share) * next);
    }
    const { from } = this;
    if (Math.abs(x - from.x) + Math.abs(y - from.y) > 4) from.dragged = true;
    if (!from.dragged) return;
    if (from.ranges) return this.mark([Math.min(from.at, this.pointed), Math.max(from.at, this.pointed)].map((at) => Math.round(Math.max(0, Math.min(this.end, at)))));
    this.canvas.classList.add("wm-tl-grabbing");
    const by = ((from.x - x) * (from.t1 - from.t0)) / this.painter.width;
    this.look(from.t0 + by, from.t1 + by);
    this.scroller.scrollTop = from.top + from.y - y;
  }

  up(event) {
    if (!this.pointers.delete(event.pointerId) || this.pointers.size) return;
    this.canvas.classList.remove("wm-tl-grabbing");
    const { from } = this;
    if (event.type === "pointercancel") return;
    if (from.dragged) return void (from.ranges && this.told.ranged(this.range));
    const step = this.stepAt(from.x, from.y);
    if (step) return this.told.ranged([step.start_ns, step.start_ns + step.duration_ns]);
    this.told.selected(this.at(from.x, from.y));
  }

  stepAt(x, y) {
    if (y < RULER || y >= this.head) return null;
    const time = this.timeAt(x);
    return this.steps.find((step) => step.start_ns <= time && time < step.start_ns + step.duration_ns) ?? null;
  }

  hovering(x, y) {
    const found = this.at(x, y);
    this.canvas.style.cursor = found || this.stepAt(x, y) ? "pointer" : y < this.head ? "col-resize" : "grab";
    const same = found?.start_ns === this.hover?.start_ns && found?.lane === this.hover?.lane && found?.depth === this.hover?.depth;
    this.hover = found;
    if (!same) this.dirty();
    this.told.hovered(found, x, y);
  }

  leave() {
    [this.hover, this.pointed] = [null, undefined];
    this.told.hovered(null);
    this.dirty();
  }

  closer(event) {
    const found = this.at(...this.point(event));
    if (found) this.show(found, true);
    else if (this.stepAt(...this.point(event))) {
      const step = this.stepAt(...this.point(event));
      this.look(step.start_ns - step.duration_ns * 0.05, step.start_ns + step.duration_ns * 1.05);
    }
  }

  jump(event) {
    this.map.setPointerCapture(event.pointerId);
    const box = this.map.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * this.end;
    const half = (this.t1 - this.t0) / 2;
    this.look(at - half, at + half);
  }
}
