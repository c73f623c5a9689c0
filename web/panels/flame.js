import { ask, choose, chosen, duration, framed, instant, onChosen, panel, span } from "warpmeter-ui";
import { FlameView } from "warpmeter-ui/flame/view.js";
import { amount, percent } from "warpmeter-ui/flame/words.js";

const SHIFTS = { day: 86400e3, week: 604800e3 };
const FUNCTIONS = 1000; // that a search finds in the table
const VIEW = ["flame.q", "flame.zoom"];
const TYPED_MS = 400; // after the last key of a search
const HIGH = 100; // of the course of a share, which is as wide
const WORST = ["denied", "failed", "timeout", "gone", "unsupported", "paused"];
const NOTHING = { level: [], label: [], value: [], self: [] };
const EMPTY = "No stacks were sampled here in this window. Agents sample Python processes of jobs where warpmeter[agent] is installed and [agent] stacks is on, but for those with WARPMETER_STACKS=off in their environment: `warpmeter doctor` says what stands between; `warpmeter stacks import` brings in what other profilers took.";

export default {
  mixins: [panel],
  props: { why: String },
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
     <div v-show="!reason" ref="place"></div>
     <figure v-if="course && !reason" class="wm-flame-course">
       <figcaption>{{ course.said }}</figcaption>
       <svg viewBox="0 0 ${HIGH} ${HIGH}" preserveAspectRatio="none" role="img" :aria-label="course.said"><path :d="course.path" vector-effect="non-scaling-stroke"></path></svg>
     </figure>`,
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
  data: () => ({ reason: "", note: "", picks: {}, kinds: [], kind: "", processes: [], ranks: [], asking: "", from: "", to: "", other: "", course: null }),
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
      changed: ({ q, zoom }) => {
        choose({ "flame.q": q, "flame.zoom": zoom }, { push: zoom !== (chosen(VIEW)["flame.zoom"] ?? "") });
        this.follow(q);
      },
    });
    this.view.choose(viewed());
    this.unchosen = onChosen(null, () => {
      this.look();
      this.view.choose(viewed());
      this.follow(viewed().q);
    });
    this.paint = () => this.view.paint();
    addEventListener("wm-theme", this.paint);
  },
  beforeUnmount() {
    clearTimeout(this.typed);
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
      this.note = columns.base && !this.reason ? lacking(columns, base_since, base_until) : "";
      this.view.show({ columns, unit, top: top?.columns ?? null, first: this.picks.by ? 2 : 1 });
      Object.assign(this, { graph, of: { source: kind?.source, unit: kind?.unit }, followed: "" });
      this.follow(viewed().q);
    },
    // What is searched for, over time: the share of functions with that in their names, with what they called.
    follow(q) {
      clearTimeout(this.typed);
      this.typed = setTimeout(() => this.trace((q ?? "").trim()), TYPED_MS);
    },
    async trace(q) {
      const { graph, picks } = this;
      const wanted = graph && !graph.columns.base ? spelled(q, graph.columns, picks) : "";
      if (this.followed === wanted) return;
      [this.followed, this.course] = [wanted, null];
      if (!wanted) return;
      const { since, until } = graph;
      const asked = { since, until, function: wanted, process: picks.process, rank: picks.rank, ...this.of };
      const answer = await ask(below(this.source, "share"), asked).catch(() => null);
      if (answer && this.followed === wanted && this.graph === graph) this.course = courseOf(wanted, answer);
    },
    async explain(seen) {
      if (seen.length && (this.picks.process || this.picks.rank)) return "Nothing of that process and rank was sampled in this window: choose all of them again.";
      const found = this.why ? worst(await told(this.why), this.kind || this.picks.source || "") : undefined;
      return found ? `Sampling is ${found.state}: ${found.why || "no reason given"}` : EMPTY;
    },
  },
};

// What a difference has one side of is no difference.
function lacking({ value, base }, since, until) {
  if (!base[0]) return `Nothing was sampled to compare with, from ${since} to ${until}.`;
  return value[0] ? "" : "Nothing was sampled in this window: all that is shown was seen before.";
}

// What the host's agent says of its samplers, as other panels have asked already.
async function told(address) {
  const { data } = await ask(address, {}, { shown: true }).catch(() => ({ data: [] }));
  return data.filter(({ source, silent }) => source === "stacks" && !silent);
}

// What explains the most: one that may not look matters more than one that rests. perf is there on few hosts, so it
// explains nothing but its own.
function worst(rows, kind) {
  const of = rows.filter(({ subject, state }) => WORST.includes(state) && subject !== "native" && subject.startsWith("perf") === kind.startsWith("perf"));
  return of.sort((a, b) => WORST.indexOf(a.state) - WORST.indexOf(b.state))[0];
}

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
  if (!kind && !base && !base_job) return { seen, graph: { columns: NOTHING, since, until } };
  const of = { process, rank, source: kind?.source, unit: kind?.unit, lines: lines === "0" ? "false" : null };
  if (base || base_job) return { seen, kind, graph: await get("diff", { ...of, by, ...before(base), base_job }) };
  const [graph, top] = await Promise.all([get("flame", { ...of, by }), get("top", { ...of, top: FUNCTIONS })]);
  return { seen, kind, graph, top };
}

// A search as the frames have it, which are told apart by case; "" where no function has it, or it is an expression.
function spelled(q, { level, label }, { by, lines }) {
  if (!q || /^\/.+\/$/.test(q)) return "";
  const [lower, first] = [q.toLowerCase(), by ? 2 : 1];
  const found = label.find((each, at) => level[at] >= first && each.toLowerCase().includes(lower));
  if (!found) return "";
  const from = found.toLowerCase().indexOf(lower);
  const text = found.slice(from, from + q.length);
  return lines === "0" ? text.replace(/\)$/, "") : text; // without its line, which the frames have
}

// A line over the window, with gaps where nothing was sampled; and what it shows, in words.
function courseOf(wanted, { since, until, step_s, columns }) {
  const { start, share } = columns;
  if (!share.length) return null;
  const [from, to] = [Date.parse(since), Date.parse(until)];
  const most = Math.max(...share);
  const at = start.map(Date.parse);
  const path = at.map((ms, each) => {
    const begins = !each || ms - at[each - 1] > 1500 * step_s;
    const point = `${(((ms - from) / (to - from)) * HIGH).toFixed(2)} ${(HIGH - (share[each] / (most || 1)) * (HIGH - 4) - 2).toFixed(2)}`;
    return begins ? `M${point}h0.01` : `L${point}`;
  });
  const peak = instant(at[share.indexOf(most)]);
  const said = `Share of ${wanted} over time, with what it called: ${percent(Math.min(...share))} to ${percent(most)} (${peak}), in steps of ${duration(step_s)}`;
  return { said, path: path.join("") };
}

function below(source, name) {
  const url = new URL(source, location.origin);
  return `${url.pathname}/${name}${url.search}`;
}

// The window to compare with, as the API takes it; left out, that is the one before.
function before(base = "") {
  const [base_since, base_until] = base.split("/");
  if (base_until !== undefined) return { base_since, base_until };
  if (!base || base === "before") return {};
  if (!SHIFTS[base]) return { base_since: base }; // the API says what is wrong with it
  const window = span();
  return { base_since: iso(window.since - SHIFTS[base]), base_until: iso(window.until - SHIFTS[base]) };
}

const iso = (ms) => new Date(Math.floor(ms / 1e3) * 1e3).toISOString();
