import { framed, panel } from "warpmeter-ui";
import { bar, legend, seconds, segments } from "warpmeter-ui/analysis.js";

const FEW = 8;
const PARTS = [
  ["compute", "computation", "--wm-1"],
  ["comm", "communication", "--wm-2"],
  ["mem", "copies", "--wm-4"],
  ["host_wait", "waits for the host", "--wm-5"],
  ["kernel_wait", "waits between kernels", "--wm-7"],
  ["other", "other waits", "--wm-idle"],
];

export default {
  mixins: [panel],
  template: framed(`
    <p v-if="rows && !rows.length" class="wm-empty">No stream ran anything: the capture was of the host alone.</p>
    <template v-else-if="rows">
      <div class="wm-scroll wm-long" tabindex="0" role="region" :aria-label="title + ' (table)'"><table class="wm-table">
        <thead><tr><th scope="col">{{ several ? 'Rank · GPU · stream' : 'GPU · stream' }}</th><th scope="col">Of its span</th><th scope="col" class="wm-number">Busy</th><th scope="col" class="wm-number">Host wait</th><th scope="col" class="wm-number">Kernel wait</th><th scope="col" class="wm-number">Other</th></tr></thead>
        <tbody><tr v-for="row in shown" :key="row.key">
          <td>{{ row.name }}</td><td class="wm-grow">${bar("row.parts")}</td>
          <td class="wm-number">{{ time(row.busy_seconds) }}</td><td class="wm-number">{{ time(row.host_wait_seconds) }}</td><td class="wm-number">{{ time(row.kernel_wait_seconds) }}</td><td class="wm-number">{{ time(row.other_seconds) }}</td>
        </tr></tbody>
      </table></div>
      ${legend("parts")}
      <p class="wm-muted">Host wait: the next launch came after the stream had run dry. Kernel wait: a gap below 30 µs otherwise. <button v-if="rows.length > few" type="button" class="wm-link" @click="all = !all">{{ all ? 'Show fewer' : 'Show all ' + rows.length }}</button></p>
    </template>`),
  data: () => ({ rows: null, all: false, few: FEW, parts: PARTS.map(([, name, colour]) => ({ name, colour })) }),
  computed: {
    shown() {
      return this.all ? this.rows : this.rows.slice(0, FEW);
    },
    several() {
      return new Set(this.rows.map((row) => row.process)).size > 1;
    },
  },
  methods: {
    draw({ data }) {
      this.rows = data;
      this.rows = data.map((row) => {
        const parts = PARTS.map(([name, text, colour]) => ({ name: text, value: row[`${name}_seconds`], colour }));
        const told = [this.several ? row.process : null, row.device, row.stream].filter((part) => part !== null);
        return { ...row, key: told.join("/"), name: told.join(" · "), parts: segments(parts, row.span_seconds) };
      });
    },
    time: seconds,
  },
};
