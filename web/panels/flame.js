import { ask, choose, chosen, duration, framed, onChosen, panel, span } from "warpmeter-ui";
import { FlameView } from "warpmeter-ui/flame/view.js";
import { amount } from "warpmeter-ui/flame/words.js";

const SHIFTS = { day: 86400e3, week: 604800e3 };
const FUNCTIONS = 1000; // that a search finds in the table
const VIEW = ["flame.q", "flame.zoom"];
const EMPTY = "No stacks were sampled here in this window. Agents sample Python processes of jobs where warpmeter[agent] is installed and [agent] stacks is on: `warpmeter doctor` says what stands between; `warpmeter stacks import` brings in what other profilers took.";

export default {
  mixins: [panel],
  props: { why: String, job: String },
  template: framed(
    `<p v-if="reason" class="wm-empty">{{ reason }}</p>
     <form v-if="asking" class="wm-flame-other" @submit.prevent="compare">
       <template v-if="asking === 'window'">
         <label>from <input v-model.trim="from" required size="20" placeholder="-2h, 2026-01-31 12:00" aria-label="Compare with stacks from"></label>
         <label>to <input v-model.trim="to" size="20" placeholder="as long a window" aria-label="Compare with stacks until"></label>
       </template>
       <label v-else>job <input v-model.trim="other" required size="26" aria-label="Compare with stacks of the job"></label>
       <button type="submit" class="wm-primary">Compare</button>
     </form>
     <p v-if="note" class="wm-warn wm-tight">{{ note }}</p>
     <div v-show="!reason" ref="place"></div>`,
    `<div class="wm-flame-ask">
       <label v-if="kinds.length > 1">Source <select aria-label="Source" :value="kind" @change="put({ source: $event.target.value })"><option v-for="each in kinds" :key="each" :value="each">{{ each }}</option></select></label>
       <label v-if="processes.length > 1">Process <select aria-label="Process" :value="picks.process ?? ''" @change="put({ process: $event.target.value })"><option value="">all</option><option v-for="each in processes" :key="each">{{ each }}</option></select></label>
       <label v-if="ranks.length > 1">Rank <select aria-label="Rank" :value="picks.rank ?? ''" @change="put({ rank: $event.target.value })"><option value="">all</option><option v-for="each in ranks" :key="each">{{ each }}</option></select></label>
       <label>By <select aria-label="By" :value="picks.by ?? ''" @change="put({ by: $event.target.value })"><option value="">nothing</option><option v-for="each in ['process', 'rank', 'thread', 'host']" :key="each">{{ each }}</option></select></label>
       <label><input type="checkbox" :checked="picks.lines !== '0'" @change="put({ lines: $event.target.checked ? '' : '0' })">Lines</label>
       <label>Compare with <select aria-label="Compare with" :value="with_" @change="against($event.target.value)">
         <option value="">nothing</option><option value="before">the window before</option><option value="day">a day before</option><option value="week">a week before</option>
         <option value="window">another window…</option><option value="job">another job…</option>
       </select></label>
     </div>`,
  ),
  data: () => ({ reason: "", note: "", picks: {}, kinds: [], kind: "", processes: [], ranks: [], asking: "", from: "", to: "", other: "" }),
  computed: {
    with_() {
      if (this.asking) return this.asking;
      if (this.picks.base_job) return "job";
      return ["", "before", "day", "week"].includes(this.picks.base ?? "") ? this.picks.base ?? "" : "window";
    },
  },
  by: read,
  created() {
    this.look();
  },
  mounted() {
    this.view = new FlameView(this.$refs.place, {
      changed: ({ q, zoom }) => choose({ "flame.q": q, "flame.zoom": zoom }, { push: zoom !== (chosen(VIEW)["flame.zoom"] ?? "") }),
    });
    this.view.choose(viewed());
    this.unchosen = onChosen(null, () => {
      this.look();
      this.view.choose(viewed());
    });
    this.paint = () => this.view.paint();
    addEventListener("wm-theme", this.paint);
  },
  beforeUnmount() {
    this.unchosen();
    removeEventListener("wm-theme", this.paint);
    this.view.close();
  },
  methods: {
    look() {
      this.picks = picked(chosen(this.follows));
      this.other = this.picks.base_job ?? this.other;
      const [from, to] = (this.picks.base ?? "").split("/");
      if (to !== undefined) [this.from, this.to] = [from, to];
      this.asking = this.picks.base_job ? "job" : to !== undefined ? "window" : this.asking && !this.picks.base ? this.asking : "";
    },
    put(values) {
      choose(Object.fromEntries(Object.entries(values).map(([name, value]) => [`flame.${name}`, value])), { push: true });
    },
    against(value) {
      this.asking = ["window", "job"].includes(value) ? value : "";
      this.put({ base: this.asking ? "" : value, base_job: "" });
    },
    compare() {
      if (this.asking === "job") this.put({ base: "", base_job: this.other });
      else this.put({ base: `${this.from}/${this.to}`, base_job: "" });
    },
    async draw({ seen, kind, graph, top }) {
      this.kinds = seen.map(nameOf);
      this.kind = kind ? nameOf(kind) : "";
      [this.processes, this.ranks] = [kind?.processes ?? [], kind?.ranks ?? []];
      const { columns, unit, tier, since, until, base_since, base_until } = graph;
      this.reason = columns.level.length ? "" : await this.explain(seen);
      this.unit = this.reason ? "" : [kind?.source, tier === "hour" && "whole hours", `${amount(columns.value[0], unit)} within ${duration((Date.parse(until) - Date.parse(since)) / 1e3)}`].filter(Boolean).join(", ");
      this.note = columns.base && !this.reason && !columns.base[0] ? `Nothing was sampled to compare with, from ${base_since} to ${base_until}.` : "";
      this.view.show({ columns, unit, top: top?.columns ?? null, first: this.picks.by ? 2 : 1 });
    },
    async explain(seen) {
      if (seen.length && (this.picks.process || this.picks.rank)) return "Nothing of that process and rank was sampled in this window: choose all of them again.";
      const known = this.why ? await ask(this.why).catch(() => ({})) : {};
      const found = (known.data ?? []).find(({ source, state }) => /stack|py-spy/.test(source) && state !== "ok");
      return found ? `${found.source} ${found.state}: ${found.why || "no reason given"}` : EMPTY;
    },
  },
};

const viewed = () => {
  const { "flame.q": q, "flame.zoom": zoom } = chosen(VIEW);
  return { q, zoom };
};
const nameOf = ({ source, unit }) => (unit === "microseconds" ? source : `${source}, ${unit}`);
const picked = (values) => Object.fromEntries(Object.entries(values).filter(([name]) => name.startsWith("flame.")).map(([name, value]) => [name.slice(6), value]));

// What there is to choose from, and of what is chosen (the source with the most, for several would count a moment twice) the
// graph, and its functions as the store adds them up.
async function read(source, values, options) {
  const { since, until } = values;
  const { by, lines, process, rank, source: wanted, base, base_job } = picked(values);
  const get = (name, parameters) => ask(below(source, name), { since, until, ...parameters }, options);
  const { columns } = await get("seen");
  const seen = columns.source.map((name, at) => Object.fromEntries(Object.keys(columns).map((key) => [key, columns[key][at]])));
  const kind = seen.find((each) => nameOf(each) === wanted) ?? seen[0];
  const of = { process, rank, source: kind?.source, unit: kind?.unit, lines: lines === "0" ? "false" : null };
  if (base || base_job) return { seen, kind, graph: await get("diff", { ...of, by, ...before(base), base_job }) };
  const [graph, top] = await Promise.all([get("flame", { ...of, by }), get("top", { ...of, top: FUNCTIONS })]);
  return { seen, kind, graph, top };
}

function below(source, name) {
  const url = new URL(source, location.origin);
  return `${url.pathname}/${name}${url.search}`;
}

// The window to compare with, as the API takes it; left out, that is the one before.
function before(base = "") {
  const [base_since, base_until] = base.split("/");
  if (base_until !== undefined) return { base_since, base_until };
  if (!SHIFTS[base]) return {};
  const window = span();
  return { base_since: iso(window.since - SHIFTS[base]), base_until: iso(window.until - SHIFTS[base]) };
}

const iso = (ms) => new Date(Math.floor(ms / 1e3) * 1e3).toISOString();
