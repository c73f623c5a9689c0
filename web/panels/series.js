import { ask, colour, framed, hostAddress, instant, jobAddress, panel, show, unitName } from "warpmeter-ui";
import { charts, colours, cross, onCross, options, pointing } from "warpmeter-ui/plot.js";
import { labelled, latest, nearest, reasons, range as extent } from "warpmeter-ui/lines.js";

const [NAMED, TOLD] = [8, 12]; // lines that the legend and the tip name, before they say how many more there are

export default {
  mixins: [panel],
  props: { metrics: Array, names: Array, why: String, hint: String, link: String },
  template: framed(`
    <p v-if="reason" class="wm-empty">{{ reason }}</p>
    <div v-show="!reason" ref="plot" class="wm-plot" tabindex="0" role="group" :aria-label="summary" aria-roledescription="chart">
      <div ref="chart" class="wm-chart"></div>
      <div ref="line" class="wm-cross" hidden></div>
      <div v-if="tip" class="wm-tip" :class="{ 'wm-left': tip.left }" :style="{ left: tip.x + 'px' }" aria-live="polite">
        <b>{{ tip.time }}</b>
        <span v-for="row in tip.rows" :key="row.name" :class="{ 'wm-near': row.near }"><i :style="{ background: row.colour }"></i>{{ row.name }}<em>{{ row.value }}</em></span>
        <small v-if="tip.more">and {{ tip.more }} more</small>
      </div>
    </div>
    <ul v-if="!reason" class="wm-legend">
      <li v-for="each in legend" :key="each.name">
        <button type="button" class="wm-key" :aria-pressed="only === each.name" :title="'Show only ' + each.name" @click="pick(each.name)"><i :style="{ background: each.colour }"></i>{{ each.short ?? each.name }}</button>
        <a v-if="each.href" :href="each.href" :aria-label="'Open ' + each.name" title="Open">↗</a>
        <em>{{ each.value }}</em>
      </li>
      <li v-if="lines.length > shown"><button type="button" class="wm-link" @click="shown = lines.length">{{ lines.length - shown }} more</button></li>
    </ul>`),
  data: () => ({ lines: [], times: [], tip: null, at: null, only: null, shown: NAMED, reason: "", since: 0, until: 1 }),
  computed: {
    legend() {
      const index = this.at === null ? null : nearest(this.times, this.at);
      return this.lines.slice(0, this.shown).map((each) => ({ ...each, value: show(index === null ? latest(each.values) : each.values[index], each.unit), href: this.href(each) }));
    },
    summary() {
      const [least, most] = extent(this.lines);
      return this.lines.length ? `${this.title}: ${this.lines.length} lines, from ${show(least, this.kind)} to ${show(most, this.kind)}. Arrow keys read values, plus and minus zoom.` : this.title;
    },
  },
  mounted() {
    charts(); // comes while the answer does
    this.size = new ResizeObserver(() => this.chart?.resize());
    this.size.observe(this.$refs.chart);
    this.unpoint = pointing(this.$refs.plot, () => [this.since, this.until], this.point);
    this.uncross = onCross((ms, from) => this.stand(ms, from !== this));
    addEventListener("wm-theme", this.paint);
  },
  beforeUnmount() {
    this.size.disconnect();
    this.unpoint();
    this.uncross();
    removeEventListener("wm-theme", this.paint);
    this.chart?.dispose();
  },
  methods: {
    draw(...answers) {
      const charts = answers.map((answer, at) => answer.charts.find(({ metric }) => [metric, ""].includes(this.metrics[at])));
      const [[window], [first]] = [answers, charts];
      [this.since, this.until] = [Date.parse(window.since), Date.parse(window.until)];
      this.times = window.times.map((seconds) => seconds * 1e3);
      this.kind = first.unit;
      const told = this.follows.includes("metric") ? first.metric : "";
      this.unit = [told, unitName(first.unit)].filter(Boolean).join(", ");
      this.lines = labelled(charts, this.names);
      if (!this.lines.some((each) => each.values.some((value) => value !== null))) return this.explain(charts);
      this.reason = "";
      return this.paint();
    },
    async paint() {
      const echarts = await charts();
      if (!this.$refs.chart || !this.lines.length) return;
      await this.$nextTick();
      this.chart ??= echarts.init(this.$refs.chart);
      const palette = colours();
      const text = colour("--wm-text");
      this.lines.forEach((each, at) => (each.colour = each.bold ? text : palette[at % palette.length]));
      const lines = this.lines.map((each) => ({
        ...each, hidden: this.only !== null && this.only !== each.name, points: each.values.map((value, at) => [this.times[at], value]),
      }));
      this.chart.setOption(options({ since: this.since, until: this.until, unit: this.kind, lines }), { notMerge: true });
    },
    async explain(unknown) {
      const known = this.why ? await ask(this.why, {}, { shown: true }).catch(() => ({})) : {};
      this.reason = reasons(unknown, known.data ?? [], this.hint);
    },
    pick(name) {
      this.only = this.only === name ? null : name;
      this.paint();
    },
    point(ms, pixel) {
      cross(ms, this);
      this.tip = ms === null ? null : this.told(ms, pixel);
    },
    stand(ms, elsewhere) {
      const line = this.$refs.line;
      if (elsewhere) this.tip = null;
      this.at = ms;
      line.hidden = ms === null || ms < this.since || ms > this.until;
      if (line.hidden) return;
      const width = this.$refs.plot.clientWidth - 62;
      line.style.transform = `translateX(${52 + ((ms - this.since) / (this.until - this.since)) * width}px)`;
    },
    told(ms, { x, y }) {
      const index = nearest(this.times, ms);
      const seen = this.lines.filter((each) => (this.only === null || this.only === each.name) && each.values[index] !== null && each.values[index] !== undefined);
      const value = this.chart?.convertFromPixel({ yAxisIndex: 0 }, y) ?? 0;
      const near = seen.reduce((best, each) => (!best || Math.abs(each.values[index] - value) < Math.abs(best.values[index] - value) ? each : best), null);
      const sorted = [...seen].sort((a, b) => b.values[index] - a.values[index]);
      const rows = sorted.length > TOLD ? sorted.filter((each, at) => at < TOLD - 1 || each === near) : sorted;
      return {
        time: instant(this.times[index]), x, left: x > this.$refs.plot.clientWidth / 2, more: sorted.length - rows.length,
        rows: rows.map((each) => ({ name: each.name, colour: each.colour, near: each === near, value: show(each.values[index], each.unit) })),
      };
    },
    href(each) {
      if (this.link === "host" && each.host) return hostAddress(each.host);
      return this.link === "job" && each.job ? jobAddress(each.job) : null;
    },
  },
};
