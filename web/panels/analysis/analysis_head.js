import { address, ask, choose, chosen, follow, instant, jobAddress, show } from "warpmeter-ui";
import { CHOSEN, timelineAddress } from "warpmeter-ui/analysis.js";

const AGAIN_MS = 5000; // while it is being captured or analysed

export default {
  props: { source: String, title: String, follows: Array, capture: String, base: String, captures: String },
  template: `
    <section class="wm-panel" :class="{ 'wm-busy': busy }" :aria-busy="busy" :aria-label="title">
      <header class="wm-panel-head">
        <h2>{{ title }}</h2>
        <div class="wm-tools">
          <label v-if="rounds.length > 1" class="wm-muted">Round <select aria-label="Round" :value="sequence" @change="round($event.target.value)"><option v-for="each in rounds" :key="each" :value="each">{{ each }}</option></select></label>
          <label v-if="ranks.length > 1" class="wm-muted">Rank <select aria-label="Rank" class="wm-choice" :value="shown" @change="pick($event.target.value)"><option value="">all {{ ranks.length }}</option><option v-for="each in ranks" :key="each.process" :value="each.process">{{ named(each) }}</option></select></label>
          <label v-if="ranks.length" class="wm-muted">Compare with <select aria-label="Compare with" class="wm-choice" :value="base ?? ''" @focus="offer" @pointerdown="offer" @change="compare($event.target.value)"><option value="">nothing</option><option v-for="each in others" :key="each.capture_id" :value="each.capture_id">{{ offered(each) }}</option></select></label>
          <a v-if="ranks.length" class="wm-action" :href="view">View timeline</a>
          <details v-if="files.length" class="wm-files"><summary class="wm-action">Download</summary><ul><li v-for="each in files" :key="each.href"><a :href="each.href" download>{{ each.name }}</a> <small>{{ size(each.bytes) }}</small></li></ul></details>
        </div>
      </header>
      <p v-if="error" role="alert" class="wm-standing wm-fails">{{ error }}</p>
      <p v-else-if="answer && answer.why" role="status" class="wm-standing" :class="{ 'wm-fails': answer.state === 'failed' }">{{ answer.why }}</p>
      <dl v-if="ranks.length" class="wm-facts wm-columns">
        <div><dt>Job</dt><dd><a v-if="first.job_id" :href="job">{{ first.job_id }}</a><span v-else>not told</span></dd></div>
        <div v-if="first.workload"><dt>Workload</dt><dd>{{ first.workload }}</dd></div>
        <div><dt>Ranks</dt><dd>{{ ranks.length }}<span v-if="world > ranks.length" class="wm-warn"> of {{ world }}</span></dd></div>
        <div><dt>GPU</dt><dd>{{ models || 'not told' }}</dd></div>
        <div v-if="hosts"><dt>Hosts</dt><dd>{{ hosts }}</dd></div>
        <div><dt>Captured</dt><dd>{{ moment(first.captured_at) }}</dd></div>
        <div><dt>Events</dt><dd>{{ events.toLocaleString('en') }}</dd></div>
        <div v-if="mfu !== null"><dt>MFU</dt><dd>{{ ratio(mfu) }}</dd></div>
        <div v-if="first.step_source"><dt>Steps from</dt><dd>{{ first.step_source }}</dd></div>
      </dl>
      <details v-if="notes.length"><summary class="wm-muted">{{ notes.length }} {{ notes.length > 1 ? 'notes' : 'note' }} about the files</summary><ul><li v-for="each in notes" :key="each">{{ each }}</li></ul></details>
    </section>`,
  data: () => ({ answer: null, error: "", busy: true, files: [], others: [], place: chosen(CHOSEN), view: "" }),
  computed: {
    ranks() {
      return this.answer?.data ?? [];
    },
    first() {
      return this.ranks[0] ?? {};
    },
    rounds() {
      return this.answer?.rounds ?? [];
    },
    sequence() {
      return this.answer?.sequence ?? 1;
    },
    shown() {
      const { rank, process } = this.place;
      return process ?? this.ranks.find((each) => `${each.rank}` === rank)?.process ?? "";
    },
    world() {
      return Math.max(0, ...this.ranks.map((each) => each.world_size ?? 0));
    },
    models() {
      return [...new Set(this.ranks.map((each) => each.gpu_model).filter(Boolean))].join(", ");
    },
    hosts() {
      const names = [...new Set(this.ranks.map((each) => each.host).filter(Boolean))];
      return names.slice(0, 3).join(", ") + (names.length > 3 ? ` and ${names.length - 3} more` : "");
    },
    events() {
      return this.ranks.reduce((sum, each) => sum + each.events, 0);
    },
    mfu() {
      const known = this.ranks.filter((each) => each.mfu !== null);
      return known.length ? known.reduce((sum, each) => sum + each.mfu, 0) / known.length : null;
    },
    notes() {
      return this.ranks.flatMap((each) => each.notes.map((note) => (this.ranks.length > 1 ? `rank ${each.rank}: ${note}` : note)));
    },
    job() {
      return jobAddress(this.first.job_id);
    },
  },
  mounted() {
    this.others = this.base ? [{ capture_id: this.base, captured_at: null }] : [];
    this.leave = follow(this.source, this.follows, (answer) => this.draw(answer), (message, error) => this.fail(message, error), { begin: () => (this.busy = true) });
    this.listen = () => Object.assign(this, { place: chosen(CHOSEN), view: timelineAddress(this.rankOf()) });
    addEventListener("wm-chosen", this.listen);
  },
  beforeUnmount() {
    clearTimeout(this.timer);
    removeEventListener("wm-chosen", this.listen);
    this.leave();
  },
  methods: {
    draw(answer) {
      Object.assign(this, { answer, error: "", busy: false });
      document.body.dataset.analysis = answer.data.length ? "analysed" : answer.state;
      this.view = timelineAddress(this.rankOf());
      clearTimeout(this.timer);
      if (answer.captured && !this.files.length) this.found();
      if (["capturing", "waiting"].includes(answer.state)) this.timer = setTimeout(() => this.leave.again(), AGAIN_MS);
    },
    fail(message, { away }) {
      this.busy = false;
      if (away) return; // the page's bar says so, and what is shown stays
      this.error = message;
      document.body.dataset.analysis = "none";
    },
    async found() {
      const { data } = await ask(this.source.replace(/ranks$/, "files"), { limit: 1000 }).catch(() => ({ data: [] }));
      this.files = data;
    },
    rankOf() {
      const { rank, process } = this.place;
      return rank === undefined && !process && this.ranks.length ? { rank: this.first.rank } : {};
    },
    named(each) {
      const told = each.process === `${each.rank}`;
      return told ? `${each.rank}${each.host ? ` · ${each.host}` : ""}` : each.process;
    },
    offered: (each) => (each.captured_at ? `${each.capture_id} · ${instant(Date.parse(each.captured_at))}` : each.capture_id),
    pick(process) {
      const each = this.ranks.find((one) => one.process === process);
      const alone = each && this.ranks.filter((one) => one.rank === each.rank).length === 1;
      choose({ rank: alone ? each.rank : null, process: each && !alone ? process : null }, { push: true });
    },
    round(sequence) {
      choose({ sequence: sequence === "1" ? null : sequence, rank: null, process: null }, { push: true });
    },
    async offer() {
      if (this.others.length > 1) return;
      const { data } = await ask(this.captures, { limit: 100, sort: "-captured_at" });
      const like = (each) => (each.workload === this.first.workload ? 0 : 1);
      const found = data.filter((each) => each.capture_id !== this.capture).sort((a, b) => like(a) - like(b));
      this.others = [...this.others.filter((each) => !found.some((one) => one.capture_id === each.capture_id)), ...found];
    },
    compare(base) {
      location.assign(address("/analyze", { ...chosen(["capture", ...CHOSEN]), base }));
    },
    moment: (text) => (text ? instant(Date.parse(text)) : "not told"),
    size: (bytes) => show(bytes, "B"),
    ratio: (value) => show(value, "ratio"),
  },
};
