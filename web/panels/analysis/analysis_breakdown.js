import { framed, panel, show } from "warpmeter-ui";
import { bar, legend, seconds, segments, share } from "warpmeter-ui/analysis.js";

const KINDS = [
  ["compute", "Computation", "--wm-1"],
  ["comm", "Communication", "--wm-2"],
  ["mem", "Memory (copies and sets)", "--wm-4"],
  ["comm_compute_overlap", "Computation and communication at once", "--wm-3", true],
  ["mem_compute_overlap", "Computation and memory at once", "--wm-5", true],
  ["mem_comm_overlap", "Communication and memory at once", "--wm-6", true],
];
const CAUSES = [
  ["idle_launching", "for the host to launch"],
  ["idle_sync", "after a synchronisation"],
  ["idle_input", "for input"],
  ["idle_allocation", "for memory to be allocated"],
  ["idle_device", "for other work of the device"],
  ["idle_unknown", "for what the trace does not tell"],
];

// The whole span, each moment once.
function whole(answer, view) {
  const of = (name) => answer[`${name}_seconds`] ?? 0;
  const overlap = of("comm_compute_overlap");
  return view === "kinds"
    ? [
        { name: "computation", value: of("compute") - overlap, colour: "--wm-1" },
        { name: "computation and communication at once", value: overlap, colour: "--wm-3" },
        { name: "communication alone", value: of("exposed_comm"), colour: "--wm-2" },
        { name: "copies alone", value: of("exposed_mem"), colour: "--wm-4" },
        { name: "idle", value: of("idle"), colour: "--wm-idle" },
      ]
    : [
        { name: "compute", value: of("compute"), colour: "--wm-1" },
        { name: "non-compute", value: of("exposed_comm") + of("exposed_mem"), colour: "--wm-2" },
        { name: "idle", value: of("idle"), colour: "--wm-idle" },
      ];
}

export default {
  mixins: [panel],
  props: { view: String },
  template: framed(`
    <p v-if="answer && !answer.span_seconds" class="wm-empty">No GPU event is in the trace: nothing ran on a GPU while it was captured, or the capture was of the host alone.</p>
    <template v-else-if="answer">
      <div class="wm-large">${bar("stack")}</div>
      ${legend("stack")}
      <table class="wm-breakdown">
        <tbody>
          <tr v-for="row in rows" :key="row.name" :class="{ 'wm-sub': row.sub }">
            <th scope="row"><i class="wm-swatch" :style="{ background: 'var(' + row.colour + ')' }"></i>{{ row.name }}</th>
            <td>${bar("row.parts", "row.name + ' ' + row.share")}</td>
            <td class="wm-number">{{ row.time }}</td>
            <td class="wm-number">{{ row.share }}</td>
          </tr>
        </tbody>
      </table>
      <p v-if="view === 'temporal' && idleKnown && answer.idle_seconds" class="wm-muted wm-waits">Idle time, by what the GPU waited for:</p>
      <table v-if="view === 'temporal' && idleKnown && answer.idle_seconds" class="wm-breakdown">
        <tbody>
          <tr v-for="row in causes" :key="row.name" class="wm-sub">
            <th scope="row">{{ row.name }}</th><td>${bar("row.parts", "row.name + ' ' + row.share")}</td><td class="wm-number">{{ row.time }}</td><td class="wm-number">{{ row.share }}</td>
          </tr>
        </tbody>
      </table>
      <p class="wm-muted wm-waits">{{ note }}</p>
    </template>`),
  data: () => ({ answer: null }),
  computed: {
    span() {
      return this.answer.span_seconds;
    },
    stack() {
      return segments(whole(this.answer, this.view), this.span);
    },
    rows() {
      if (this.view === "kinds") return KINDS.map(([name, text, colour, sub]) => this.row(text, this.answer[`${name}_seconds`], colour, sub));
      const exposed = [this.answer.exposed_comm_seconds, this.answer.exposed_mem_seconds];
      return [
        this.row("Compute", this.answer.compute_seconds, "--wm-1"),
        this.row("Non-compute", exposed[0] + exposed[1], "--wm-2"),
        this.row("communication that no computation hides", exposed[0], "--wm-2", true),
        this.row("copies and sets that neither hides", exposed[1], "--wm-4", true),
        this.row("Idle", this.answer.idle_seconds, "--wm-idle"),
      ];
    },
    causes() {
      return CAUSES.map(([name, text]) => this.row(text, this.answer[`${name}_seconds`], "--wm-8")).filter(({ value }) => value > 0).sort((a, b) => b.value - a.value);
    },
    idleKnown() {
      return this.answer.idle_launching_seconds !== null;
    },
    note() {
      const ranks = this.answer.ranks > 1 ? `, summed over ${this.answer.ranks} ranks` : "";
      const old = this.answer.mem_compute_overlap_seconds === null ? " Overlaps of copies and causes of idle time were not kept when it was loaded: load it again for them." : "";
      return `Of ${seconds(this.span)} from the first GPU event to the last${ranks}.${old}`;
    },
  },
  methods: {
    draw(answer) {
      this.answer = answer;
    },
    row(name, value, colour, sub = false) {
      return { name, value, colour, sub, time: show(value, "s"), share: share(value, this.span), parts: segments([{ name, value: value ?? 0, colour }], this.span) };
    },
  },
};
