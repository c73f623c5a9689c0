import { colour, framed, panel, show } from "warpmeter-ui";
import { seconds } from "warpmeter-ui/analysis.js";
import { charted } from "warpmeter-ui/plot.js";

export default {
  mixins: [panel, charted],
  template: framed(
    `<p v-if="devices && !devices.length" class="wm-empty">No allocations are in the trace. Capture with memory (profile_memory) to see what tensors hold.</p>
    <div v-show="!devices || devices.length" ref="chart" class="wm-held-chart" role="img" :aria-label="words"></div>
    <template v-if="device">
      <p class="wm-muted">{{ words }}</p>
      <div v-if="device.holders.length" class="wm-scroll" tabindex="0" role="region" aria-label="Who held memory at the peak"><table class="wm-table">
        <thead><tr><th scope="col">Held at the peak by</th><th scope="col">Module</th><th scope="col" class="wm-number">Blocks</th><th scope="col" class="wm-number">Bytes</th></tr></thead>
        <tbody><tr v-for="(row, at) in holders" :key="at"><td><span class="wm-cut" :title="row.operator">{{ row.operator || 'no operator' }}</span></td><td><span class="wm-cut" :title="row.module">{{ row.module || '–' }}</span></td><td class="wm-number">{{ row.blocks }}</td><td class="wm-number">{{ bytes(row.bytes) }}</td></tr></tbody>
      </table></div>
    </template>`,
    `<label v-if="devices && devices.length > 1" class="wm-muted">Device <select aria-label="Device" v-model="at"><option v-for="(each, at) in devices" :key="at" :value="at">{{ named(each) }}</option></select></label>`,
  ),
  data: () => ({ devices: null, at: 0 }),
  computed: {
    device() {
      return this.devices?.[Math.min(this.at, this.devices.length - 1)];
    },
    holders() {
      return [...this.device.holders].sort((a, b) => b.bytes - a.bytes).slice(0, 8);
    },
    words() {
      if (!this.device) return "Memory";
      const { peak_bytes: peak, peak_at_seconds: at, absolute } = this.device;
      return `At most ${show(peak, "B")} at ${seconds(at)}${absolute ? "" : ", above what was held when the trace began"}.`;
    },
  },
  watch: {
    at() {
      this.paint();
    },
  },
  methods: {
    draw({ devices }) {
      this.devices = devices;
      if (devices.length) this.chart();
    },
    options() {
      const [line, text] = [colour("--wm-line"), colour("--wm-muted")];
      const label = { color: text, fontSize: 11 };
      const { at_seconds: at, allocated_bytes: allocated, reserved_bytes: reserved } = this.device;
      const series = (name, values, hue, area) => ({
        name, type: "line", step: "end", showSymbol: false, color: colour(hue), lineStyle: { width: 1.25 }, areaStyle: area ? { opacity: 0.25 } : undefined,
        data: at.map((moment, place) => [moment, values[place]]),
      });
      return {
        animation: false,
        grid: { left: 64, right: 10, top: 24, bottom: 22 },
        legend: { left: 58, top: 0, itemWidth: 9, itemHeight: 9, icon: "roundRect", textStyle: label },
        tooltip: { trigger: "axis", confine: true, backgroundColor: colour("--wm-raised"), borderColor: line, textStyle: { color: colour("--wm-text"), fontSize: 12 }, valueFormatter: (value) => show(value, "B") },
        xAxis: { type: "value", min: at[0], max: at.at(-1), axisLabel: { ...label, formatter: seconds, hideOverlap: true }, splitLine: { show: false }, axisLine: { lineStyle: { color: line } }, axisPointer: { label: { formatter: ({ value }) => seconds(value) } } },
        yAxis: { type: "value", axisLabel: { ...label, formatter: (value) => show(value, "B") }, splitLine: { lineStyle: { color: line } }, splitNumber: 3, scale: !this.device.absolute },
        series: [series("allocated", allocated, "--wm-1", true), ...(reserved.some((value) => value !== null) ? [series("reserved", reserved, "--wm-2", false)] : [])],
      };
    },
    named: (each) => `rank ${each.process} · ${each.device_type === "cpu" ? "host" : `GPU ${each.device}`}`,
    bytes: (value) => show(value, "B"),
  },
};
