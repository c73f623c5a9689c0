import { ago, ask, choose, chosen, framed, instant, onChosen, panel, show } from "warpmeter-ui";

const MOODS = { delivered: "good", rendered: "good", failed: "warn", late: "warn", gave_up: "bad" };
const WORDS = { gave_up: "given up", failed: "tried again", "": "sent by hand" };
const MARK = { delivered: "✓", queued: "…", failed: "↻", gave_up: "✕" };
const KNOWN = { "report.html": "Open the report" };

export default {
  mixins: [panel],
  props: { limit: Number },
  template: framed(
    `<div v-if="rows.length" class="wm-scroll" tabindex="0" role="region" aria-label="Reports (table)">
       <table class="wm-table wm-reports">
         <thead><tr><th scope="col">Report</th><th scope="col">Schedule</th><th scope="col">Period (UTC)</th><th scope="col">State</th><th scope="col">Last</th><th scope="col">Sent to</th></tr></thead>
         <tbody v-for="row in rows" :key="row.report_id">
           <tr :class="{ 'wm-chosen': row.report_id === picked }">
             <td class="wm-why"><button type="button" class="wm-id" :aria-expanded="row.report_id === picked" @click="pick(row)">{{ row.title || row.report_id }}</button></td>
             <td>{{ row.schedule || 'by hand' }}</td>
             <td class="wm-nowrap">{{ period(row) }}</td>
             <td class="wm-nowrap"><span :class="'wm-tag wm-' + mood(row.state)" :title="row.why">{{ word(row.state) }}</span></td>
             <td class="wm-nowrap" :title="instant(Date.parse(row.last_at))">{{ ago(Date.parse(row.last_at)) }}</td>
             <td><span v-for="each in row.deliveries" :key="each.target" :class="'wm-tag wm-' + mood(each.state)" :title="told(each)">{{ mark(each.state) }} {{ each.target }}<span class="wm-skip"> {{ word(each.state) }}</span></span></td>
           </tr>
           <tr v-if="row.report_id === picked"><td colspan="6" class="wm-detail">
             <p v-if="problem" role="alert" class="wm-error">{{ problem }}</p>
             <template v-else-if="kept">
               <p>{{ kept.summary }}</p>
               <ul v-if="kept.findings.length"><li v-for="each in kept.findings" :key="each.text"><b>{{ each.severity }}</b> {{ each.text }} <span class="wm-muted">{{ each.action }}</span></li></ul>
               <p class="wm-report-files"><a v-for="each in kept.files" :key="each.name" :href="link(each)" target="_blank" rel="noopener" :title="size(each)">{{ name(each) }}</a></p>
             </template>
             <ul v-if="row.deliveries.some(({ why }) => why) || row.why"><li v-if="row.why">{{ row.why }}</li><li v-for="each in row.deliveries.filter(({ why }) => why)" :key="each.target"><b>{{ each.target }}</b>: {{ word(each.state) }}, {{ each.why }}</li></ul>
           </td></tr>
         </tbody>
       </table>
     </div>
     <p v-if="!rows.length && !busy && !error" class="wm-empty">No report was made yet. <code>warpmeter reports send fleet-weekly --to TARGET</code> makes one now; schedules make them by themselves: docs/reports.md.</p>
     <div v-if="total > limit" class="wm-pager">
       <span>{{ page * limit + 1 }}–{{ Math.min(total, (page + 1) * limit) }} of {{ total }}</span>
       <button type="button" :disabled="page === 0" aria-label="Page before" @click="turn(page - 1)">‹</button>
       <button type="button" :disabled="(page + 1) * limit >= total" aria-label="Next page" @click="turn(page + 1)">›</button>
     </div>`,
  ),
  data: () => ({ rows: [], total: 0, page: 0, picked: "", kept: null, problem: "" }),
  created() {
    this.read();
    this.asked = () => `${this.source}?${new URLSearchParams({ limit: this.limit, offset: this.page * this.limit })}`;
  },
  mounted() {
    this.unfold();
    this.unchosen = onChosen(["id", "reports.page"], (names) => {
      this.read();
      if (names.includes("id")) this.unfold();
      if (names.includes("reports.page")) this.leave.again();
    });
  },
  beforeUnmount() {
    this.unchosen();
  },
  methods: {
    ago, instant,
    mood: (state) => MOODS[state] ?? "none",
    word: (state) => WORDS[state] ?? state,
    mark: (state) => MARK[state] ?? "",
    told: ({ state, why, attempt, last_at: at }) => [`${WORDS[state] ?? state} ${instant(Date.parse(at))}`, attempt > 1 ? `attempt ${attempt}` : "", why].filter(Boolean).join(" · "),
    period: ({ period_start: from, period_end: until }) => `${from.slice(0, 16).replace("T", " ")} – ${until.slice(0, 16).replace("T", " ")}`,
    name: ({ name }) => KNOWN[name] ?? name,
    size: ({ bytes }) => show(bytes, "B"),
    link({ name }) {
      return `${this.source}/file?${new URLSearchParams({ report_id: this.picked, name })}`;
    },
    read() {
      const given = chosen(["id", "reports.page"]);
      this.picked = given.id ?? "";
      this.page = Math.max(0, parseInt(given["reports.page"] ?? "0", 10) || 0);
    },
    async unfold() {
      const id = this.picked;
      [this.kept, this.problem] = [null, ""];
      if (!id) return;
      try {
        const found = await ask(`${this.source}/kept`, { report_id: id });
        if (id === this.picked) this.kept = found;
      } catch (error) {
        if (id === this.picked) this.problem = error.message;
      }
    },
    draw({ data, total }) {
      [this.rows, this.total] = [data, total];
    },
    pick(row) {
      choose({ id: row.report_id === this.picked ? null : row.report_id }, { push: true });
    },
    turn(page) {
      choose({ "reports.page": page || null }, { push: true });
    },
  },
};
