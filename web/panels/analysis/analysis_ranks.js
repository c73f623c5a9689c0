import { choose, chosen, framed, hostAddress, onChosen, panel, show } from "warpmeter-ui";
import { CHOSEN, PARTS, bar, legend, seconds, segments, share, timelineAddress } from "warpmeter-ui/analysis.js";

const LATE = 0.02; // of the span: what is worth marking

export default {
  mixins: [panel],
  template: framed(`
    <p v-if="rows && rows.length < 2" class="wm-empty">One rank alone is analysed: capture the whole job to hold its ranks against each other.</p>
    <template v-else-if="rows">
      <div class="wm-scroll wm-long" tabindex="0" role="region" :aria-label="title + ' (table)'">
        <table class="wm-table">
          <thead><tr><th scope="col">Rank</th><th scope="col">Host</th><th scope="col">Span</th><th scope="col" class="wm-number">Busy</th><th scope="col" class="wm-number">Compute</th><th scope="col" class="wm-number">Comm. alone</th><th scope="col" class="wm-number">Step, median</th><th scope="col" class="wm-number">Waited</th><th scope="col" class="wm-number">MFU</th><th scope="col" class="wm-number">Memory</th><th scope="col"></th></tr></thead>
          <tbody>
            <tr v-for="row in rows" :key="row.process" :aria-selected="row.process === shown">
              <td><button type="button" class="wm-link" :aria-pressed="row.process === shown" @click="pick(row)">{{ row.process }}</button></td>
              <td><a v-if="row.host" class="wm-cut" :title="row.host" :href="host(row.host)">{{ row.host }}</a><span v-else>–</span></td>
              <td class="wm-grow">${bar("row.parts")}</td>
              <td class="wm-number">{{ row.busy }}</td>
              <td class="wm-number">{{ time(row.compute_seconds) }}</td>
              <td class="wm-number">{{ time(row.exposed_comm_seconds) }}</td>
              <td class="wm-number" :class="{ 'wm-mark': row.slow }">{{ time(row.step_p50_seconds) }}</td>
              <td class="wm-number">{{ row.late ? time(row.late.waited_seconds) : '–' }}</td>
              <td class="wm-number">{{ ratio(row.mfu) }}</td>
              <td class="wm-number">{{ bytes(row.memory_peak_bytes) }}</td>
              <td><span v-if="row.marked" class="wm-mark">late: {{ row.why }}</span> <a :href="view(row)">timeline</a></td>
            </tr>
          </tbody>
        </table>
      </div>
      ${legend("parts")}
      <template v-if="late.length">
        <h3>Stragglers</h3>
        <div class="wm-scroll" tabindex="0" role="region" :aria-label="title + ' (table)'"><table class="wm-table">
          <thead><tr><th scope="col">Rank</th><th scope="col" class="wm-number">Last to</th><th scope="col" class="wm-number">Cost the others</th><th scope="col" class="wm-number">Late in all</th><th scope="col">What it did longer than the others</th></tr></thead>
          <tbody><tr v-for="row in late" :key="row.rank">
            <td>{{ row.rank }}<small v-if="row.host" class="wm-cut" :title="row.host">&ensp;{{ row.host }}</small></td>
            <td class="wm-number">{{ row.last }} of {{ row.of }}</td>
            <td class="wm-number">{{ time(row.cost_seconds) }}</td>
            <td class="wm-number">{{ time(row.late_seconds) }}</td>
            <td>{{ row.words || 'not told' }}</td>
          </tr></tbody>
        </table></div>
      </template>
      <p v-else class="wm-muted">No rank surely came late to a collective.</p>
    </template>`),
  data: () => ({ rows: null, late: [], shown: "", parts: PARTS.map(([, name, colour]) => ({ name, colour })) }),
  mounted() {
    this.unchosen = onChosen(CHOSEN, () => this.select());
  },
  beforeUnmount() {
    this.unchosen();
  },
  methods: {
    draw({ data }, { data: late }) {
      const most = Math.max(0, ...data.map((row) => row.span_seconds ?? 0));
      const steps = data.map((row) => row.step_p50_seconds).filter((value) => value !== null).sort((a, b) => a - b);
      const median = steps[Math.floor((steps.length - 1) / 2)];
      this.late = late.map((row) => ({ ...row, words: this.causes(row.causes_seconds) }));
      this.rows = data.map((row) => {
        const found = late.find((each) => each.rank === row.rank);
        const parts = PARTS.map(([name, text, colour]) => ({ name: text, value: row[`${name}_seconds`] ?? 0, colour }));
        const marked = found && found.cost_seconds > LATE * (row.span_seconds ?? 0);
        return { ...row, parts: segments(parts, most), busy: share(row.busy_seconds, row.span_seconds), late: found, marked, why: found?.cause.replaceAll("_", " ") || "why is not told", slow: row.step_p50_seconds > 1.1 * median };
      });
      this.select();
    },
    select() {
      const { rank, process } = chosen(CHOSEN);
      this.shown = process ?? this.rows?.find((row) => `${row.rank}` === rank)?.process ?? "";
    },
    pick(row) {
      const again = row.process === this.shown;
      const alone = this.rows.filter((each) => each.rank === row.rank).length === 1;
      choose({ rank: again || !alone ? null : row.rank, process: again || alone ? null : row.process }, { push: true });
    },
    causes: (all) => Object.entries(all).filter(([, value]) => value > 0).sort((a, b) => b[1] - a[1]).map(([name, value]) => `${name.replaceAll("_", " ")} ${seconds(value)}`).join(", "),
    view: (row) => timelineAddress({ rank: row.rank, process: row.process === `${row.rank}` ? null : row.process }),
    host: (name) => hostAddress(name),
    time: seconds,
    ratio: (value) => show(value, "ratio"),
    bytes: (value) => show(value, "B"),
  },
};
