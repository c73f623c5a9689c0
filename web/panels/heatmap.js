import { choose, chosen, clock, colour, framed, hostAddress, instant, isDark, look, now, onChosen, panel, show, stretch, unitName } from "warpmeter-ui";
import { cross, onCross } from "warpmeter-ui/plot.js";
import { askHeat, bands, extent, gradient, ordered, palette, picture } from "warpmeter-ui/heat.js";
import { metrics } from "warpmeter-ui/metrics.js";

const [LEFT, RIGHT, BOTTOM, HIGHEST, THICKEST, DRAG] = [84, 10, 20, 420, 14, 4];

// Behind the cells: what shows through is not known.
function hatch(context) {
  const tile = new OffscreenCanvas(6, 6);
  const pen = tile.getContext("2d");
  pen.strokeStyle = colour("--wm-edge");
  pen.globalAlpha = 0.5;
  pen.stroke(new Path2D("M-1 1L1 -1M0 6L6 0M5 7L7 5"));
  return context.createPattern(tile, "repeat");
}

export default {
  mixins: [panel],
  by: askHeat,
  template: framed(
    `<div ref="plot" class="wm-plot wm-heat" tabindex="0" role="group" aria-roledescription="heatmap" :aria-label="summary" :style="{ minHeight: empty ? null : height + 20 + 'px' }"
          @pointerdown="press" @pointermove="move" @pointerup="release" @pointerleave="leaveIt" @keydown="keys" @blur="at = null">
      <canvas v-show="!empty" ref="canvas"></canvas>
      <div ref="line" class="wm-cross" hidden></div>
      <div v-if="drag" class="wm-drag" :style="drag"></div>
      <div v-if="tip" class="wm-tip" :class="{ 'wm-left': tip.left }" :style="{ left: tip.x + 'px', top: tip.y + 'px' }" aria-live="polite">
        <b>{{ tip.name }}</b><span>{{ metric }}<em>{{ tip.value }}</em></span><span v-if="tip.job">job {{ tip.job }}</span><small>{{ tip.time }}</small>
      </div>
      <p v-if="empty" class="wm-empty">No GPU reported {{ metric }} in this window. Look at a longer one, or choose another metric.</p>
    </div>`,
    `<button v-if="zoomed" type="button" @click="whole">All {{ total }} GPUs</button>
     <label class="wm-muted">Order <select :value="by" @change="sort($event.target.value)"><option value="host">host</option><option value="value">value</option><option value="job">job</option></select></label>
     <label class="wm-muted">Metric <select :value="metric" @change="measure($event.target.value)"><option v-for="each in metrics" :key="each.name" :value="each.name" :title="each.meaning">{{ each.name }}</option></select></label>
     <span class="wm-scale" role="img" :aria-label="'Colours from ' + low + ' to ' + high">{{ low }} <i :style="{ background: ramp }"></i> {{ high }}</span>`,
  ),
  data: () => ({ metrics: [], metric: "gpu_util", by: "host", at: null, tip: null, drag: null, height: 256, total: 0, zoomed: false, empty: false, low: "0", high: "1", ramp: gradient(isDark()) }),
  computed: {
    summary() {
      return `${this.title}: ${this.metric} of ${this.total} GPUs over time. Arrow keys move, Enter opens the host, plus zooms.`;
    },
  },
  mounted() {
    metrics("gpu-samples").then((found) => (this.metrics = found));
    this.read();
    this.unchosen = onChosen(["order", "rows", "metric"], () => (this.read(), this.paint()));
    this.uncross = onCross((ms, from) => this.stand(ms, from));
    this.size = new ResizeObserver(() => this.paint());
    this.size.observe(this.$refs.plot);
    addEventListener("wm-theme", this.paint);
  },
  beforeUnmount() {
    this.unchosen();
    this.uncross();
    this.size.disconnect();
    removeEventListener("wm-theme", this.paint);
  },
  methods: {
    read() {
      ({ order: this.by = "host", metric: this.metric = "gpu_util" } = chosen(["order", "metric"]));
    },
    draw(answer) {
      this.answer = Object.freeze(answer);
      this.span = extent(answer.cells, answer.unit);
      [this.low, this.high] = this.span.map((value) => show(value, answer.unit));
      this.unit = [answer.metric, unitName(answer.unit)].filter(Boolean).join(", ");
      this.orders = {};
      this.paint();
    },
    rowsShown() {
      const { columns } = this.answer;
      const order = (this.orders[this.by] ??= ordered(this.answer, this.by));
      const [from, to] = (chosen(["rows"]).rows ?? "").split("~");
      const place = (key) => order.findIndex((row) => `${columns.host[row]}/${columns.gpu[row]}` === key);
      const [first, last] = to ? [place(from), place(to) + 1] : [0, order.length];
      const usable = first >= 0 && last > first;
      return { order, first: usable ? first : 0, last: usable ? last : order.length, zoomed: Boolean(to && usable) };
    },
    paint() {
      if (!this.answer) return;
      const { width, step_s: step, since, first } = this.answer;
      const shown = (this.shown = this.rowsShown());
      const rows = shown.last - shown.first;
      [this.total, this.zoomed, this.empty] = [shown.order.length, shown.zoomed, !rows || !width];
      this.ramp = gradient(isDark());
      if (this.empty) return;
      this.height = Math.max(Math.min(HIGHEST, rows * THICKEST), 60);
      this.bandCount = Math.min(rows, this.height);
      this.begin = first ? first * 1e3 : Date.parse(since);
      this.end = this.begin + width * step * 1e3;
      const cells = (this.cells = bands(this.answer, shown.order, shown.first, shown.last, this.bandCount));
      this.columnCount = width;
      this.put(picture(cells, width, this.bandCount, this.span, palette(isDark())));
    },
    put(image) {
      const { canvas, plot } = this.$refs;
      const [ratio, width] = [devicePixelRatio || 1, plot.clientWidth];
      Object.assign(canvas, { width: width * ratio, height: (this.height + BOTTOM) * ratio });
      Object.assign(canvas.style, { width: `${width}px`, height: `${this.height + BOTTOM}px` });
      const small = new OffscreenCanvas(image.width, image.height);
      small.getContext("2d").putImageData(image, 0, 0);
      const context = canvas.getContext("2d");
      context.scale(ratio, ratio);
      context.imageSmoothingEnabled = false;
      context.fillStyle = hatch(context);
      context.fillRect(LEFT, 0, this.wide(), this.height);
      context.drawImage(small, LEFT, 0, this.wide(), this.height);
      this.label(context);
    },
    label(context) {
      const { host } = this.answer.columns;
      const { order, first, last } = this.shown;
      context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
      context.fillStyle = colour("--wm-muted");
      context.textBaseline = "top";
      let [free, before] = [-1, null];
      for (let row = first; row < last; row += 1) {
        const y = ((row - first) / (last - first)) * this.height;
        const name = host[order[row]];
        if (name === before || y < free) continue;
        [before, free] = [name, y + 14];
        if (y + 11 <= this.height) context.fillText(this.short(context, name), 0, y);
      }
      const count = Math.max(2, Math.floor(this.wide() / 110));
      for (let at = 0; at <= count; at += 1) {
        context.textAlign = at === 0 ? "left" : at === count ? "right" : "center";
        context.fillText(clock(this.begin + ((this.end - this.begin) * at) / count, this.end - this.begin), LEFT + (this.wide() * at) / count, this.height + 6);
      }
    },
    short(context, name) {
      let text = name;
      while (context.measureText(text).width > LEFT - 8) text = `…${text.slice(2)}`;
      return text;
    },
    wide() {
      return this.$refs.plot.clientWidth - LEFT - RIGHT;
    },
    // Column and band under a pointer.
    under(event) {
      const box = this.$refs.plot.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left - LEFT, event.clientY - box.top];
      const inside = x >= 0 && x < this.wide() && y >= 0 && y < this.height;
      return { x, y, inside, column: Math.floor((x / this.wide()) * this.columnCount), band: Math.floor((y / this.height) * this.bandCount) };
    },
    press(event) {
      if (event.button !== 0 || event.pointerType === "touch" || !this.cells) return;
      this.from = this.under(event);
      if (!this.from.inside) this.from = null;
      else this.$refs.plot.setPointerCapture(event.pointerId);
    },
    move(event) {
      if (!this.cells) return;
      const here = this.under(event);
      if (this.from) this.spread(here);
      if (here.inside) this.tell(here.column, here.band);
      else this.leaveIt();
    },
    spread(here) {
      const [x, y] = [Math.min(Math.max(here.x, 0), this.wide()), Math.min(Math.max(here.y, 0), this.height)];
      const [wide, high] = [Math.abs(x - this.from.x), Math.abs(y - this.from.y)];
      this.area = { x0: Math.min(x, this.from.x), x1: Math.max(x, this.from.x), y0: Math.min(y, this.from.y), y1: Math.max(y, this.from.y), time: wide >= 12, rows: high >= 12 };
      const { time, rows, x0, y0 } = this.area;
      this.drag = !time && !rows ? null : { left: `${LEFT + (time ? x0 : 0)}px`, width: `${time ? wide : this.wide()}px`, top: `${rows ? y0 : 0}px`, height: `${rows ? high : this.height}px`, bottom: "auto" };
    },
    release(event) {
      const [from, area] = [this.from, this.area];
      this.from = this.area = this.drag = null;
      if (!from) return;
      if (area?.time || area?.rows) choose({ ...this.timeOf(area), ...this.rowsOf(area) }, { push: true });
      else if (Math.abs(this.under(event).x - from.x) < DRAG) this.open(from.band, event);
    },
    timeOf({ time, x0, x1 }) {
      return time ? stretch(...[x0, x1].map((x) => this.begin + (x / this.wide()) * (this.end - this.begin))) : {};
    },
    rowsOf({ rows, y0, y1 }) {
      return rows ? { rows: [y0, y1].map((y) => this.keyOf(this.rowOf(y / this.height))).join("~") } : {};
    },
    rowOf(part) {
      const { first, last } = this.shown;
      return Math.min(last - 1, Math.max(first, first + Math.floor(part * (last - first))));
    },
    keyOf(row) {
      const { host, gpu } = this.answer.columns;
      return `${host[this.shown.order[row]]}/${gpu[this.shown.order[row]]}`;
    },
    whole() {
      choose({ rows: null }, { push: true });
    },
    open(band, event) {
      const address = hostAddress(this.answer.columns.host[this.shown.order[this.rowOf((band + 0.5) / this.bandCount)]]);
      if (event.ctrlKey || event.metaKey) window.open(address, "_blank");
      else location.assign(address);
    },
    tell(column, band) {
      const { columns, step_s: step, unit } = this.answer;
      const [first, last] = [this.rowOf(band / this.bandCount), this.rowOf((band + 0.9999) / this.bandCount)];
      const row = this.shown.order[first];
      const ms = this.begin + column * step * 1e3;
      const value = this.cells[band * this.columnCount + column];
      const [x, y] = [LEFT + ((column + 0.5) / this.columnCount) * this.wide(), ((band + 0.5) / this.bandCount) * this.height];
      const several = last > first;
      this.at = { column, band };
      this.tip = {
        x, y: Math.min(y + 12, this.height - 50), left: x > this.$refs.plot.clientWidth / 2, time: instant(ms),
        name: several ? `${this.keyOf(first)} – ${this.keyOf(last)}` : `${columns.host[row]} GPU ${columns.gpu[row]}`,
        value: Number.isNaN(value) ? "nothing known" : `${show(value, unit)}${several ? ` mean of ${last - first + 1}` : ""}`,
        job: several ? "" : columns.job_id?.[row],
      };
      cross(ms + step * 500, this);
    },
    leaveIt() {
      this.tip = null;
      cross(null, this);
    },
    keys(event) {
      const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (!this.cells || (!way && !["Enter", "Escape", "+", "-"].includes(event.key))) return;
      event.preventDefault();
      const { column, band } = this.at ?? { column: this.columnCount - 1, band: 0 };
      if (way) this.tell(Math.min(this.columnCount - 1, Math.max(0, column + way[0])), Math.min(this.bandCount - 1, Math.max(0, band + way[1])));
      else if (event.key === "Enter") this.open(band, event);
      else if (event.key === "Escape") this.leaveIt();
      else this.closer(event.key === "+" ? 0.25 : 1, column);
    },
    closer(half, column) {
      const middle = this.begin + ((column + 0.5) / this.columnCount) * (this.end - this.begin);
      const reach = (this.end - this.begin) * half;
      look(middle - reach, Math.min(now(), middle + reach));
    },
    stand(ms, from) {
      const line = this.$refs.line;
      if (from !== this) this.tip = null;
      line.hidden = ms === null || !this.cells || ms < this.begin || ms > this.end || from === this;
      if (!line.hidden) line.style.transform = `translateX(${LEFT + ((ms - this.begin) / (this.end - this.begin)) * this.wide()}px)`;
    },
    sort(by) {
      choose({ order: by === "host" ? null : by, rows: null }, { push: true });
    },
    measure(name) {
      choose({ metric: name === "gpu_util" ? null : name }, { push: true });
    },
  },
};
