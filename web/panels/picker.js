import { ask, choose, chosen, duration, hold, instant, look, moment, now, onChosen, span, wait, zone } from "warpmeter-ui";

const PRESETS = { "15m": "15 minutes", "1h": "hour", "6h": "6 hours", "24h": "24 hours", "7d": "7 days", "30d": "30 days" };
const EVERY_S = 30; // what a page does that nobody told otherwise

const MARGIN_MS = 60e3;

export default {
  props: { run: String },
  template: `
    <div class="wm-picker" role="group" aria-label="Window of time">
      <div class="wm-segments">
        <button v-if="run" type="button" aria-label="The run time of the job" @click="whole(true)">run</button>
        <button v-for="(name, key) in presets" :key="key" type="button" :aria-pressed="key === preset" :aria-label="'The last ' + name" @click="last(key)">{{ key }}</button>
      </div>
      <div class="wm-moves">
        <button type="button" aria-label="Earlier" title="Earlier" @click="shift(-1)">‹</button>
        <button type="button" class="wm-range" :aria-expanded="open" aria-controls="wm-range" @click="toggle">{{ words }}</button>
        <button type="button" aria-label="Later" title="Later" @click="shift(1)">›</button>
        <button type="button" aria-label="Zoom out" title="Zoom out" @click="wider">−</button>
      </div>
      <form v-if="open" id="wm-range" class="wm-pop" @submit.prevent="apply" @keydown.esc="open = false">
        <label>From <input ref="from" v-model="from" spellcheck="false" autocomplete="off" /></label>
        <label>To <input v-model="to" spellcheck="false" autocomplete="off" /></label>
        <p class="wm-muted">As 2026-11-30 14:00 (UTC), -6h or now.</p>
        <p v-if="problem" role="alert" class="wm-error">{{ problem }}</p>
        <button type="submit" class="wm-primary">Show</button>
      </form>
      <select aria-label="Refresh" class="wm-quiet" :value="refresh" @change="pace($event.target.value)" :disabled="!live" :title="live ? 'Look again every…' : 'A window that has ended does not change'">
        <option value="5">Live, 5 s</option>
        <option value="30">Every 30 s</option>
        <option value="off">Off</option>
      </select>
    </div>`,
  data: () => ({ open: false, from: "", to: "", problem: "", presets: PRESETS, ...shown() }),
  mounted() {
    this.leave = onChosen(["since", "until", "refresh"], this.read);
    this.seen = () => document.hidden || this.again();
    document.addEventListener("visibilitychange", this.seen);
    this.begin();
    addEventListener("wm-back", this.find);
    this.find();
  },
  unmounted() {
    this.leave();
    clearInterval(this.timer);
    document.removeEventListener("visibilitychange", this.seen);
    removeEventListener("wm-back", this.find);
    wait(this.find, null);
  },
  methods: {
    read() {
      Object.assign(this, shown());
      this.begin();
    },
    begin() {
      clearInterval(this.timer);
      if (this.live && this.refresh !== "off") this.timer = setInterval(this.again, this.refresh * 1e3);
    },
    again() {
      if (document.hidden || !this.live || this.refresh === "off") return;
      this.find();
      dispatchEvent(new Event("wm-refresh"));
    },
    // The run time of a job, while the address names no window; asked for again until somebody tells.
    find() {
      if (!this.run || this.finding || named()) return;
      this.finding = true;
      hold(this.whole(false).finally(() => (this.finding = false)));
    },
    // Look at all of the job's time; before that is known, panels wait and ask but once.
    async whole(push) {
      const job = await ask(this.run).catch((error) => error);
      wait(this.find, job);
      const { started_at: began, ended_at: ended } = job;
      if (!began || (!push && named())) return;
      const iso = (ms) => new Date(ms).toISOString().replace(/\.\d+Z/, "Z");
      choose({ since: iso(Date.parse(began) - MARGIN_MS), until: ended ? iso(Date.parse(ended) + MARGIN_MS) : null }, { push });
    },
    last(key) {
      choose({ since: `-${key}`, until: null }, { push: true });
    },
    shift(way) {
      const { since, until } = span();
      const step = ((until - since) / 2) * way;
      look(since + step, until + step);
    },
    wider() {
      const { since, until, live } = span();
      if (live) return choose({ since: `-${Math.round((until - since) / 500)}s`, until: null }, { push: true });
      const half = (until - since) / 2;
      return look(since - half, Math.min(until + half, now()));
    },
    pace(value) {
      choose({ refresh: value === `${EVERY_S}` ? null : value });
    },
    async toggle() {
      [this.from, this.to] = span().texts;
      [this.open, this.problem] = [!this.open, ""];
      await this.$nextTick();
      this.$refs.from?.focus();
    },
    apply() {
      const [since, until] = [moment(this.from), moment(this.to)];
      if (Number.isNaN(since)) this.problem = `“${this.from}” is no time`;
      else if (Number.isNaN(until)) this.problem = `“${this.to}” is no time`;
      else if (until <= since) this.problem = "The end is not after the beginning";
      else {
        this.open = false;
        choose({ since: this.from.trim(), until: this.to.trim() === "now" ? null : this.to.trim() }, { push: true });
      }
    },
  },
};

const named = () => Object.keys(chosen(["since", "until"])).length > 0;

function shown() {
  const { since, until, live, texts } = span();
  const ends = live && texts[1] === "now";
  const preset = ends ? Object.keys(PRESETS).find((key) => texts[0] === `-${key}`) : undefined;
  const { refresh = `${EVERY_S}` } = chosen(["refresh"]);
  const words = ends ? `Last ${PRESETS[preset] ?? duration((until - since) / 1e3)}` : `${instant(since).slice(0, 16)} – ${instant(until).slice(instant(since).slice(0, 10) === instant(until).slice(0, 10) ? 11 : 0, -3)} ${zone()}`;
  return { live, preset, refresh, words };
}
