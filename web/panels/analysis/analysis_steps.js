import { colour, framed, panel, show } from "warpmeter-ui";
import { PARTS, legend, seconds, timelineAddress } from "warpmeter-ui/analysis.js";
import { charted } from "warpmeter-ui/plot.js";

const NANO = 1e9;

export default {
  mixins: [panel, charted],
  template: framed(`
    <p v-if="steps && !steps.length" class="wm-empty">No steps were found. Call profiler.step() in the training loop, or capture more than one of its rounds.</p>
    <div v-show="!steps || steps.length" ref="chart" class="wm-steps-chart" role="img" :aria-label="words"></div>
    <template v-if="steps && steps.length">
      ${legend("parts")}
      <p class="wm-muted">{{ words }}</p>
      <p v-if="odd.length">Odd: <template v-for="(each, at) in odd" :key="each.step">{{ at ? ', ' : '' }}<a :href="view(each)">{{ each.step }}</a> {{ time(each.duration_seconds) }}<small> rank {{ each.slowest_rank }}</small></template></p>
    </template>`),
  data: () => ({ steps: null }),
  computed: {
    // What a step is made of; the whole where that is not known: no GPU, or an old load.
    shares() {
      return (this.steps ?? []).some((each) => each.during_compute_seconds !== null) ? PARTS : [["whole", "whole step", "--wm-1"]];
    },
    parts() {
      return this.shares.map(([, name, colour]) => ({ name, colour }));
    },
    odd() {
      return (this.steps ?? []).filter((each) => each.odd).slice(0, 20);
    },
    words() {
      const all = this.steps ?? [];
      if (!all.length) return "Steps";
      const longest = all.reduce((a, b) => (b.duration_seconds > a.duration_seconds ? b : a));
      const several = all[0].ranks > 1;
      const input = all.some((each) => each.input_seconds > 0) ? `; waiting for input ${seconds(all.reduce((sum, each) => sum + (each.input_seconds ?? 0), 0) / all.length)} a step` : "";
      return `${all.length} step${all.length > 1 ? "s" : ""}, median ${seconds(longest.median_seconds)}${several ? " (of each step the longest of its ranks; bars are means over ranks)" : ""}; longest ${longest.step} ${seconds(longest.duration_seconds)}${several ? ` on rank ${longest.slowest_rank}` : ""}${input}. ${this.odd.length ? "" : "None is odd."}`;
    },
  },
  methods: {
    draw({ data }) {
      this.steps = data;
      if (data.length) this.chart();
    },
    pressed(index) {
      location.assign(this.view(this.steps[index]));
    },
    value(step, part) {
      return step[`during_${part}_seconds`] ?? 0;
    },
    options() {
      const [line, text, mark] = [colour("--wm-line"), colour("--wm-muted"), colour("--wm-warn")];
      const label = { color: text, fontSize: 11 };
      const parts = this.shares;
      return {
        animation: false,
        grid: { left: 56, right: 8, top: 16, bottom: 22 },
        tooltip: {
          trigger: "axis", confine: true, axisPointer: { type: "shadow" }, backgroundColor: colour("--wm-raised"), borderColor: line, textStyle: { color: colour("--wm-text"), fontSize: 12 },
          formatter: ([{ dataIndex }]) => this.tip(this.steps[dataIndex], parts),
        },
        xAxis: { type: "category", data: this.steps.map((each) => each.step.replace("ProfilerStep#", "")), axisLabel: { ...label, hideOverlap: true }, axisLine: { lineStyle: { color: line } }, axisTick: { show: false } },
        yAxis: { type: "value", min: 0, axisLabel: { ...label, formatter: seconds }, splitLine: { lineStyle: { color: line } }, splitNumber: 4 },
        series: parts.map(([name, title, hue], at) => ({
          name: title, type: "bar", stack: "all", barCategoryGap: "18%", barMaxWidth: 72, itemStyle: { color: colour(hue) }, cursor: "pointer",
          data: this.steps.map((each) => (name === "whole" ? each.mean_seconds : this.value(each, name))),
          ...(at === parts.length - 1 && {
            label: { show: this.steps.some((each) => each.odd), position: "top", color: mark, fontSize: 11, formatter: ({ dataIndex }) => (this.steps[dataIndex].odd ? "▼" : "") },
            markLine: { silent: true, symbol: "none", precision: 12, data: [{ yAxis: this.steps[0].median_seconds }], lineStyle: { color: text, type: "dashed" }, label: { show: false } },
          }),
        })),
      };
    },
    tip(step, parts) {
      const box = document.createElement("div");
      const add = (line) => box.append(Object.assign(document.createElement("div"), { textContent: line }));
      add(`${step.step}: ${seconds(step.mean_seconds)}${step.ranks > 1 ? `, longest ${seconds(step.duration_seconds)} on rank ${step.slowest_rank}` : ""}`);
      for (const [name, title] of parts) if (name !== "whole") add(`${title} ${seconds(this.value(step, name))}`);
      if (step.input_seconds) add(`waiting for input ${seconds(step.input_seconds)}`);
      if (step.mfu !== null) add(`MFU ${show(step.mfu, "ratio")}`);
      return box;
    },
    view(step) {
      const [from, length] = [Math.round(step.start_seconds * NANO), Math.round(step.mean_seconds * NANO)];
      return timelineAddress({ t0: from, t1: from + length, ...(step.ranks > 1 ? { rank: step.slowest_rank } : {}) });
    },
    time: seconds,
  },
};
