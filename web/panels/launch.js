import { ask, choose, chosen, framed, onChosen, panel, send, whoAmI } from "warpmeter-ui";
import { Processes, analyze, end, look, open, watch, what } from "warpmeter-ui/captures.js";

const OPTIONS = {
  shapes: ["Shapes", "Shapes of the inputs of operators"],
  memory: ["Memory", "Allocations; over a duration only"],
  stacks: ["Python stacks", "Python calls: the costliest, and the largest files"],
  flops: ["FLOPs", "Operations of operators"],
  modules: ["Modules", "Calls of nn.Module"],
};
const BLANK = { much: "duration", duration: "500ms", iterations: 3, count: 1, warmup: "", interval: "10m", max_count: "", max_bytes: "", max_time: "" };
const SHOWN = 6;

export default {
  mixins: [panel],
  components: { Processes },
  props: { job: String },
  template: framed(
    `<div class="wm-launch">
       <div>
         <p aria-live="polite"><span v-if="found" :class="'wm-tag wm-' + (found.ready && found.ready === found.total ? 'good' : found.ready ? 'warn' : 'none')">{{ found.why }}</span><span v-else-if="!error" class="wm-muted">Asking the agents of the job…</span>
           <button type="button" class="wm-quiet" @click="leave.again()" title="Ask the agents once more">Look again</button></p>
         <ul v-if="obstacles.length" class="wm-obstacles" aria-label="Why processes cannot be traced">
           <li v-for="each in obstacles.slice(0, more ? obstacles.length : ${SHOWN})" :key="each.key"><span class="wm-muted">{{ each.who }}</span> <code :title="each.meaning">{{ each.reason }}</code> {{ each.why }}</li>
         </ul>
         <button v-if="obstacles.length > ${SHOWN} && !more" type="button" class="wm-link" @click="more = true">Show all {{ obstacles.length }}</button>
       </div>
       <form @submit.prevent="launch" novalidate>
         <fieldset :disabled="!may || sending">
           <legend class="wm-segments"><button type="button" :aria-pressed="mode === 'trace'" @click="mode = 'trace'">Trace</button><button type="button" :aria-pressed="mode === 'continuous'" title="Trace again and again until it is detached" @click="mode = 'continuous'">Attach</button></legend>
           <div class="wm-fields">
             <label v-if="mode === 'continuous'" class="wm-field">Every<input v-model.trim="wanted.interval" :aria-invalid="field === 'interval'" autocomplete="off" /></label>
             <label class="wm-field">Trace<select v-model="wanted.much"><option value="duration">a duration</option><option value="iterations">iterations</option></select></label>
             <label v-if="wanted.much === 'duration'" class="wm-field">Duration<input v-model.trim="wanted.duration" :aria-invalid="field === 'duration'" autocomplete="off" placeholder="500ms" /></label>
             <label v-else class="wm-field">Iterations<input v-model.number="wanted.iterations" type="number" min="1" :aria-invalid="field === 'iterations'" /></label>
             <label v-if="wanted.much === 'duration'" class="wm-field">Warm-up<input v-model.trim="wanted.warmup" :aria-invalid="field === 'warmup'" autocomplete="off" placeholder="5s" /></label>
             <label v-if="mode === 'trace'" class="wm-field">Times<input v-model.number="wanted.count" type="number" min="1" :aria-invalid="field === 'count'" /></label>
             <template v-else>
               <label class="wm-field">At most rounds<input v-model.number="wanted.max_count" type="number" min="0" placeholder="no limit" :aria-invalid="field === 'max_count'" /></label>
               <label class="wm-field">At most bytes<input v-model.trim="wanted.max_bytes" autocomplete="off" placeholder="no limit" :aria-invalid="field === 'max_bytes'" /></label>
               <label class="wm-field">At most for<input v-model.trim="wanted.max_time" autocomplete="off" placeholder="14d" :aria-invalid="field === 'max_time'" /></label>
             </template>
           </div>
           <div class="wm-checks"><label v-for="([name, meaning], key) in options" :key="key" :title="meaning"><input type="checkbox" v-model="extra[key]" :disabled="key === 'memory' && wanted.much === 'iterations'" />{{ name }}</label></div>
           <div class="wm-begin"><button type="submit" class="wm-primary" :disabled="nobody" aria-describedby="wm-launch-note">{{ mode === 'trace' ? 'Trace' : 'Attach' }}</button><span id="wm-launch-note" class="wm-muted">{{ note }}</span></div>
         </fieldset>
         <p v-if="problem" role="alert" class="wm-error">{{ problem }}</p>
       </form>
     </div>
     <div v-if="capture" class="wm-going">
       <div class="wm-bar-of">
         <h3>{{ capture.name || capture.capture_id }}</h3>
         <span :class="'wm-tag wm-' + look(capture)">{{ capture.state }}</span>
         <span class="wm-grow" aria-live="polite"><code v-if="capture.reason">{{ capture.reason }}</code> {{ open(capture) ? capture.summary : capture.why }} <span class="wm-muted">{{ what(capture) }}, asked for by {{ capture.requested_by }}</span></span>
         <a v-if="capture.analysed" :href="analyze(capture)">Analyze</a>
         <button v-if="open(capture) && capture.mode === 'continuous'" type="button" :disabled="!may || ending" @click="stop('detach')" title="End it after the round that goes on">Detach</button>
         <button v-if="open(capture)" type="button" :disabled="!may || ending" @click="stop('cancel')" title="End it at once; traces that are stored stay">Cancel</button>
         <button v-else type="button" class="wm-quiet" aria-label="Show this capture no more" @click="forget">×</button>
       </div>
       <Processes :capture="capture" :answer="answer" @all="unwatch.all()" />
     </div>
     <p v-if="lost" role="alert" class="wm-error">{{ lost }}</p>`,
  ),
  data: () => ({
    found: null, who: null, mode: "trace", wanted: { ...BLANK }, extra: { shapes: false, memory: false, stacks: false, flops: false, modules: false },
    capture: null, answer: null, problem: "", field: "", sending: false, ending: false, lost: "", more: false, options: OPTIONS,
  }),
  computed: {
    may() {
      return this.who?.role === "operator";
    },
    // Whether the agents said that there is nothing to trace; while they have said nothing one may ask.
    nobody() {
      return this.found !== null && !(this.found.running && this.found.ready);
    },
    note() {
      if (this.who && !this.may) return `You are ${this.who.name ? `${this.who.name}, ` : ""}a viewer: captures need the role operator.`;
      if (this.found && !this.found.running) return "The job does not run.";
      if (this.nobody) return this.obstacles.length ? "None of its processes can be traced: do what is said of them, then Look again." : "No process of it is there to be traced: Look again once it has begun.";
      return this.mode === "trace" ? "Begins about 13 s later, on all ranks at once." : "Goes on until it is detached, 14 days at most.";
    },
    // Processes that cannot be traced, those of one cause together.
    obstacles() {
      const groups = new Map();
      for (const row of (this.found?.data ?? []).filter(({ ready }) => !ready)) {
        const key = `${row.reason} ${row.why.replaceAll(`${row.pid}`, "").replaceAll(row.host, "")}`;
        groups.set(key, [...(groups.get(key) ?? []), row]);
      }
      return [...groups.entries()].map(([key, rows]) => ({ key, ...rows[0], who: whose(rows) }));
    },
  },
  created() {
    whoAmI().then((who) => (this.who = who));
  },
  mounted() {
    this.quit = onChosen(["capture"], this.turn);
    this.turn();
  },
  beforeUnmount() {
    this.quit();
    this.unwatch?.();
  },
  methods: {
    look, open, what, analyze,
    draw(found) {
      this.found = found;
    },
    // Show the capture that the address names, else the one of this job that goes on.
    async turn() {
      let { capture } = chosen(["capture"]);
      if (!capture) {
        const before = this.following;
        const running = await ask("/api/v1/captures", { job: this.job, state: "running", limit: 1 }).catch(() => ({ data: [] }));
        if (chosen(["capture"]).capture || this.following !== before) return; // one was launched meanwhile
        capture = running.data[0]?.capture_id;
      }
      if (capture !== this.following) this.begin(capture);
    },
    begin(capture) {
      this.unwatch?.();
      [this.following, this.lost] = [capture, ""];
      if (capture !== this.capture?.capture_id) [this.capture, this.answer] = [null, null];
      if (!capture) return;
      this.unwatch = watch(
        capture,
        (answer) => {
          const row = answer.capture;
          const ended = this.capture && open(this.capture) && !open(row);
          [this.capture, this.answer, this.lost, this.ending] = [row, answer, "", this.ending && open(row)];
          if (ended) this.leave.again();
        },
        (message) => (this.lost = message),
      );
    },
    forget() {
      choose({ capture: null });
      this.begin(null);
    },
    request() {
      const { much, duration, iterations, warmup, count, interval, max_count, max_bytes, max_time } = this.wanted;
      const time = much === "duration";
      const often = this.mode === "trace" ? { count: count || 1 } : { interval, max_count: max_count || 0, max_bytes, max_time };
      const long = time ? { duration: duration || "500ms", warmup } : { iterations: iterations || 0 };
      const extra = { ...this.extra, memory: this.extra.memory && time };
      return { job_id: this.job, mode: this.mode, capture_id: this.name, ...long, ...often, ...extra };
    },
    async launch() {
      [this.problem, this.field, this.sending] = ["", "", true];
      this.name ??= named(); // asked again after an answer that was lost, it is the same capture
      try {
        const { capture_id: capture } = await send("/api/v1/captures", this.request());
        this.name = undefined;
        choose({ capture }, { push: true });
        this.begin(capture);
      } catch (error) {
        if (error.status && error.status < 500) this.name = undefined;
        const detail = error.body?.detail;
        [this.problem, this.field] = [error.message, Array.isArray(detail) ? detail[0].loc.at(-1) : ""];
      }
      this.sending = false;
    },
    async stop(action) {
      this.ending = true;
      try {
        await end(this.capture.capture_id, action);
      } catch (error) {
        [this.lost, this.ending] = [error.message, false];
      }
    },
  },
};

function named() {
  const stamp = new Date().toISOString().replace(/[-:]|\..*/g, "");
  const random = [...crypto.getRandomValues(new Uint8Array(3))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return `${stamp}-${random}`;
}

function whose(rows) {
  const names = rows.map(({ host, pid, rank }) => (rank === null ? (pid === null ? host : `${host} pid ${pid}`) : `rank ${rank}`));
  return names.slice(0, 4).join(", ") + (names.length > 4 ? ` and ${names.length - 4} more` : "") + ":";
}
