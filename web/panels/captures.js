import { ago, ask, choose, chosen, framed, instant, jobAddress, onChosen, show, wait, whoAmI } from "warpmeter-ui";
import { Processes, analyze, end, look, open, target, view, watch, what } from "warpmeter-ui/captures.js";

const STATES = ["requested", "running", "ended", "lost"];
const OWN = ["captures.state", "captures.search", "captures.page", "captures.job", "capture"];

export default {
  components: { Processes },
  props: { source: String, title: String, job: String, details: Boolean, limit: Number },
  template: framed(
    `<div class="wm-scroll" tabindex="0" role="region" :aria-label="title + ' (table)'">
       <table v-if="rows.length" class="wm-table wm-captures">
         <thead><tr><th scope="col">Asked for</th><th scope="col">State</th><th scope="col">Capture</th><th v-if="!job" scope="col">Job</th><th scope="col">By</th><th scope="col">What</th><th scope="col" class="wm-number">Captured</th><th scope="col" class="wm-number">Stored</th><th scope="col">What came of it</th><th scope="col"><span class="wm-skip">Actions</span></th></tr></thead>
         <tbody v-for="row in rows" :key="row.capture_id">
           <tr :class="{ 'wm-chosen': row.capture_id === picked }">
             <td class="wm-nowrap" :title="instant(Date.parse(row.requested_at))">{{ ago(Date.parse(row.requested_at)) }}</td>
             <td><span :class="'wm-tag wm-' + look(row)">{{ row.state }}</span></td>
             <td><button type="button" class="wm-id wm-cut" :aria-expanded="details ? row.capture_id === picked : undefined" :title="row.capture_id" @click="pick(row)">{{ row.name || row.capture_id }}</button></td>
             <td v-if="!job"><a v-if="row.job_id" class="wm-cut" :title="row.job_id" :href="jobAddress(row.job_id, { capture: row.capture_id })">{{ row.job_id }}</a><span v-else class="wm-cut" :title="target(row)">{{ target(row) }}</span></td>
             <td><span class="wm-cut" :title="row.requested_by">{{ row.requested_by }}</span></td>
             <td>{{ what(row) }}</td>
             <td class="wm-number">{{ row.captured }} of {{ row.processes }}</td>
             <td class="wm-number">{{ row.bytes ? show(row.bytes, "B") : '–' }}</td>
             <td class="wm-why"><code v-if="row.reason">{{ row.reason }}</code> {{ row.why }}</td>
             <td class="wm-nowrap">
               <template v-if="row.analysed"><a :href="first(row)">View</a><a :href="analyze(row)">Analyze</a></template>
               <template v-if="open(row)"><button v-if="row.mode === 'continuous'" type="button" class="wm-end" :disabled="!may" :title="may ? 'End it after the round that goes on' : why" @click="stop(row, 'detach')">Detach</button><button type="button" class="wm-end" :disabled="!may" :title="may ? 'End it at once' : why" @click="stop(row, 'cancel')">Cancel</button></template>
             </td>
           </tr>
           <tr v-if="details && row.capture_id === picked"><td :colspan="job ? 9 : 10" class="wm-detail"><Processes v-if="answer" :capture="answer.capture" :answer="answer" @all="unwatch.all()" /><span v-else class="wm-muted">Loading…</span></td></tr>
         </tbody>
       </table>
     </div>
     <p v-if="!rows.length && !busy && !error" class="wm-empty">{{ filtered ? 'Nothing matches the filter.' : job ? 'This job was not captured yet.' : 'Nothing was captured yet. Open a job and choose Launch, or: warpmeter capture JOB' }} <button v-if="filtered" type="button" class="wm-link" @click="clear">Show all</button></p>
     <div v-if="total > limit" class="wm-pager">
       <span>{{ page * limit + 1 }}–{{ Math.min(total, (page + 1) * limit) }} of {{ total }}</span>
       <button type="button" :disabled="page === 0" aria-label="Page before" @click="turn(page - 1)">‹</button>
       <button type="button" :disabled="(page + 1) * limit >= total" aria-label="Next page" @click="turn(page + 1)">›</button>
     </div>`,
    `<input v-if="!job" type="search" aria-label="Search captures by id, name, job or who asked" placeholder="id, name, job or who" :value="search" @input="seek($event.target.value)" />
     <label class="wm-muted">State <select :value="state" @change="put({ 'captures.state': $event.target.value, 'captures.page': null })"><option value="">all</option><option v-for="each in states" :key="each" :value="each">{{ each }}</option></select></label>
     <button v-if="only" type="button" :aria-label="'Captures of all jobs, not of ' + only + ' alone'" :title="only" class="wm-cut" @click="put({ 'captures.job': null })">job {{ only }} ×</button>`,
  ),
  data: () => ({
    rows: [], total: 0, busy: true, error: "", away: false, missing: false, nothing: false, unit: "", state: "", search: "", only: "", page: 0, picked: "", answer: null, who: null,
    states: STATES,
  }),
  computed: {
    filtered() {
      return Boolean(this.state || this.search || this.only);
    },
    may() {
      return this.who?.role === "operator";
    },
    why() {
      return "You are a viewer: that needs the role operator";
    },
  },
  created() {
    this.read();
    whoAmI().then((who) => (this.who = who));
  },
  mounted() {
    this.quit = onChosen(OWN, () => {
      this.read();
      this.again();
    });
    this.again();
  },
  beforeUnmount() {
    this.quit();
    wait(this.again, null);
    this.gone = true;
    clearTimeout(this.timer);
    clearTimeout(this.wait);
    this.unwatch?.();
  },
  methods: {
    ago, analyze, instant, jobAddress, look, open, show, target, view, what,
    read() {
      const given = chosen(OWN);
      this.state = STATES.includes(given["captures.state"]) ? given["captures.state"] : "";
      this.search = given["captures.search"] ?? "";
      this.only = this.job ? "" : (given["captures.job"] ?? "");
      this.page = Math.max(0, parseInt(given["captures.page"] ?? "0", 10) || 0);
      this.follow(given.capture ?? "");
    },
    put(values) {
      choose(values, { push: true });
    },
    // Ask now, and again in two seconds while something goes on, else in ten.
    async again() {
      clearTimeout(this.timer);
      const asked = { job: this.job || this.only, state: this.state, search: this.search, limit: this.limit, offset: this.page * this.limit };
      const key = JSON.stringify(asked);
      this.key = key;
      if (!document.hidden) {
        try {
          const { data, total } = await ask(this.source, asked);
          if (this.gone || this.key !== key) return;
          [this.rows, this.total, this.error, this.away] = [data, total, "", false];
          wait(this.again, null);
        } catch (error) {
          if (this.gone || this.key !== key) return;
          [this.error, this.away] = [error.message, Boolean(error.away)];
          wait(this.again, error);
        }
        this.busy = false;
      }
      clearTimeout(this.timer);
      this.timer = setTimeout(this.again, this.rows.some(open) ? 2000 : 10000);
    },
    pick(row) {
      choose({ capture: row.capture_id === this.picked ? null : row.capture_id }, { push: true });
    },
    follow(id) {
      if (id === this.picked) return;
      this.unwatch?.();
      [this.picked, this.answer] = [id, null];
      if (!id || !this.details) return;
      this.unwatch = watch(
        id,
        (answer) => {
          this.answer = answer;
          const at = this.rows.findIndex(({ capture_id }) => capture_id === id);
          if (at >= 0) this.rows[at] = answer.capture;
        },
        (message) => (this.error = message),
      );
    },
    // The timeline of its first process: which that is, is known of the chosen one; else whoever is rank 0.
    first(row) {
      const known = row.capture_id === this.picked ? this.answer?.data.find(({ state }) => state === "analysed") : null;
      return view(row.capture_id, known ?? { sequence: row.rounds, rank: 0 });
    },
    seek(text) {
      this.search = text;
      clearTimeout(this.wait);
      this.wait = setTimeout(() => choose({ "captures.search": text.trim(), "captures.page": null }), 250);
    },
    turn(page) {
      this.put({ "captures.page": page || null });
    },
    clear() {
      this.put({ "captures.state": null, "captures.search": null, "captures.job": null, "captures.page": null });
    },
    async stop(row, action) {
      try {
        await end(row.capture_id, action);
        await this.again();
      } catch (error) {
        this.error = error.message;
      }
    },
  },
};
