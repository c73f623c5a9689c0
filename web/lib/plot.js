// A plot over time, by ECharts, with what ECharts does not do well for many at once: a crosshair that all plots of a
// page share, a window chosen by dragging, and keys. Only elements move while the pointer does; nothing is drawn again.

import { colour } from "./theme.js";
import { clock, look, now } from "./times.js";
import { isRatio, show } from "./units.js";

export const EDGES = { left: 52, right: 10, top: 8, bottom: 20 };
export const COLOURS = 8;
let library;

// ECharts, fetched once and only when something is drawn.
export const charts = () => (library ??= import("nicegui-echart").then(({ echarts }) => echarts));

// A mixin of panels with one chart, in `$refs.chart`, that follows theme and size. Of the component: `options()`, what
// it shows, and `pressed(index)`, if a press on what stands there leads on.
export const charted = {
  mounted() {
    addEventListener("wm-theme", this.paint);
    this.sized = new ResizeObserver(() => this.plot?.resize());
    this.sized.observe(this.$refs.chart);
  },
  beforeUnmount() {
    removeEventListener("wm-theme", this.paint);
    this.sized.disconnect();
    this.plot?.dispose();
  },
  methods: {
    async chart() {
      const echarts = await charts();
      await this.$nextTick();
      if (!this.$refs.chart) return;
      if (!this.plot) {
        this.plot = echarts.init(this.$refs.chart);
        this.plot.on("click", ({ dataIndex }) => this.pressed?.(dataIndex));
      }
      this.plot.resize();
      this.paint();
    },
    paint() {
      this.plot?.setOption(this.options(), true);
    },
  },
};

export function colours() {
  return Array.from({ length: COLOURS }, (_, at) => colour(`--wm-${at + 1}`));
}

// The options of a chart of `lines` ({ name, colour, points: [[ms, value]], hidden }) from `since` to `until` in ms.
export function options({ since, until, unit, lines }) {
  const [line, text] = [colour("--wm-line"), colour("--wm-muted")];
  const label = { color: text, fontSize: 11 };
  return {
    animation: false,
    grid: EDGES,
    xAxis: {
      type: "time", min: since, max: until, splitNumber: 5,
      axisLine: { lineStyle: { color: line } }, axisTick: { show: false }, splitLine: { show: false },
      axisLabel: { ...label, hideOverlap: true, formatter: (ms) => clock(ms, until - since) },
    },
    yAxis: {
      type: "value", min: 0, splitNumber: 3, ...(isRatio(unit) ? { max: 1, interval: 0.25 } : unit === "B" ? binary(lines) : {}),
      axisLabel: { ...label, formatter: (value) => show(value, unit), margin: 6 }, splitLine: { lineStyle: { color: line } },
    },
    series: lines.map((each) => ({
      type: "line", name: each.name, data: each.hidden ? [] : each.points, showSymbol: false, silent: true,
      lineStyle: { width: each.bold ? 2 : 1.25, opacity: each.faint ? 0.35 : 1 }, itemStyle: { color: each.colour }, color: each.colour,
      z: each.bold ? 4 : 2,
    })),
  };
}

// A step of an axis of bytes: a power of two, so that its labels are whole GiB.
function binary(lines) {
  const most = lines.reduce((found, { points }) => points.reduce((high, [, value]) => Math.max(high, value ?? 0), found), 1);
  const interval = 2 ** Math.max(0, Math.ceil(Math.log2(most / 4)));
  return { interval, max: Math.ceil((most * 1.02) / interval) * interval };
}

// What pointer and keys do on `element`: `at(ms, pixel)` while one points (null: no more), and a drag looks closer.
// `range()` gives what the plot shows, in ms. Returns how to stop.
export function pointing(element, range, at, { edges = EDGES, step = 60e3 } = {}) {
  let [from, key] = [null, null];
  const mark = element.appendChild(Object.assign(document.createElement("div"), { className: "wm-drag", hidden: true }));
  const width = () => element.clientWidth - edges.left - edges.right;
  const inside = (event) => Math.min(width(), Math.max(0, event.clientX - element.getBoundingClientRect().left - edges.left));
  const timeOf = (x) => range()[0] + (x / width()) * (range()[1] - range()[0]);
  const spread = (x) => {
    mark.hidden = from === null || Math.abs(x - from) < 4;
    Object.assign(mark.style, { left: `${edges.left + Math.min(x, from)}px`, width: `${Math.abs(x - from)}px` });
  };
  const handlers = {
    pointerdown: (event) => {
      if (event.button !== 0 || event.pointerType === "touch" || event.target.closest("a, button")) return;
      from = inside(event);
      element.setPointerCapture(event.pointerId);
    },
    pointermove: (event) => {
      const x = inside(event);
      if (from !== null) spread(x);
      at(timeOf(x), { x: x + edges.left, y: event.clientY - element.getBoundingClientRect().top });
    },
    pointerup: (event) => {
      const [begun, x] = [from, inside(event)];
      from = null;
      mark.hidden = true;
      if (begun !== null && Math.abs(x - begun) >= 4) look(...[timeOf(begun), timeOf(x)].sort((a, b) => a - b));
    },
    pointerleave: () => from === null && at(null),
    blur: () => at((key = null)),
    keydown: (event) => {
      const [since, until] = range();
      const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (way) {
        key = Math.min(until, Math.max(since, (key ?? (way > 0 ? since : until)) + way * Math.max(step, (until - since) / 60)));
        at(key, { x: edges.left + ((key - since) / (until - since)) * width(), y: edges.top });
      } else if (event.key === "Escape") at((key = null));
      else if (event.key === "+" || event.key === "=") look(...around(key ?? (since + until) / 2, (until - since) / 4));
      else if (event.key === "-") look(...around((since + until) / 2, until - since));
      else return;
      event.preventDefault();
    },
  };
  for (const [name, handler] of Object.entries(handlers)) element.addEventListener(name, handler);
  return () => Object.entries(handlers).forEach(([name, handler]) => element.removeEventListener(name, handler));
}

const around = (middle, half) => [middle - half, Math.min(middle + half, now())];

// The moment that the page's crosshair stands at, told to all plots; null: nowhere.
export const cross = (ms, from) => dispatchEvent(new CustomEvent("wm-cross", { detail: { ms, from } }));

export function onCross(then) {
  const listen = ({ detail }) => then(detail.ms, detail.from);
  addEventListener("wm-cross", listen);
  return () => removeEventListener("wm-cross", listen);
}
