// What panels of alerts share: how one is written, what can be said of it, and its details.

import { hostAddress, jobAddress, address } from "./address.js";
import { ask, send } from "./asking.js";
import { mood } from "./cells.js";
import { ago, instant } from "./times.js";
import { show } from "./units.js";

const ALERTS = "/api/v1/alerts";
const NARROW = ["host", "job_id", "gpu", "uuid", "device", "source"]; // labels that a silence of one alert keeps
export const LENGTHS = { "30m": "30 minutes", "2h": "2 hours", "8h": "8 hours", "1d": "a day", "3d": "3 days", "7d": "a week" };

export const api = (id, rest = "") => `${ALERTS}/${encodeURIComponent(id)}${rest}`;
export const value = (row, unit = row.unit) => (row.value === null ? "" : show(row.value, unit));
export const since = (row) => Date.parse(row.fired_at ?? row.started_at);
export const open = (row) => row.state === "firing" || row.state === "pending";
export const addressOfAlert = (id) => address("/alerts", { alert: id });

// Everybody who shows alerts looks again: something was said of them here.
export const changed = () => dispatchEvent(new Event("wm-alerts"));

export async function care(row, action) {
  await send(api(row.alert_id, `/${action}`), {});
  changed();
}

export async function endSilence(id) {
  await send(`${ALERTS}/silences/${encodeURIComponent(id)}`, undefined, "DELETE");
  changed();
}

// What an alert is about, where that has a page of its own: [text, address].
export const about = ({ host, job_id: job }) => [[host, host && hostAddress(host)], [job, job && jobAddress(job)]].filter(([name]) => name);

// An alert in full: what to do, what it is about, what became of it. It asks for the history itself.
export const Detail = {
  props: { id: String, may: Boolean, why: String },
  emits: ["silence", "gone"],
  template: `
    <div class="wm-alert">
      <p v-if="error" role="alert" class="wm-error">{{ error }}</p>
      <p v-else-if="!row" class="wm-muted">Loading…</p>
      <template v-else>
        <p v-if="row.description" class="wm-todo"><b>What to do</b> {{ row.description }}</p>
        <div class="wm-alert-parts">
          <dl class="wm-facts">
            <template v-for="[name, text, href] in facts" :key="name"><dt>{{ name }}</dt><dd><a v-if="href" :href="href">{{ text }}</a><template v-else>{{ text }}</template></dd></template>
          </dl>
          <div>
            <ul v-if="row.findings.length" class="wm-found" aria-label="What the analysis of its capture found"><li v-for="each in row.findings" :key="each">{{ each }}</li></ul>
            <div class="wm-scroll" tabindex="0" role="region" aria-label="What became of it"><table class="wm-table">
              <thead><tr><th scope="col">When</th><th scope="col">What</th><th scope="col">By</th><th scope="col" class="wm-number">Value</th><th scope="col">Said</th></tr></thead>
              <tbody><tr v-for="(each, at) in history" :key="at">
                <td class="wm-nowrap" :title="ago(Date.parse(each.at))">{{ instant(Date.parse(each.at)) }}</td>
                <td><span :class="'wm-tag wm-' + mood(each.what)">{{ said(each) }}</span></td>
                <td>{{ each.by }}</td>
                <td class="wm-number">{{ value(each, row.unit) }}</td>
                <td class="wm-why">{{ each.comment }}</td>
              </tr></tbody>
            </table></div>
          </div>
        </div>
        <p class="wm-begin">
          <button v-if="acknowledgeable" type="button" :disabled="!may" :title="may ? 'Receivers are not told of it again, but of its end' : why" @click="say('acknowledge')">Acknowledge</button>
          <button v-if="row.acknowledged_by" type="button" :disabled="!may" :title="may ? 'Take care of it no more' : why" @click="say('unacknowledge')">Release</button>
          <button type="button" :disabled="!may" :title="may ? 'Tell receivers of no such alerts for a while' : why" @click="$emit('silence', proposed)">Silence…</button>
        </p>
      </template>
    </div>`,
  data: () => ({ row: null, history: [], error: "" }),
  computed: {
    facts() {
      const { row } = this;
      const links = { host: row.host && hostAddress(row.host), job_id: row.job_id && jobAddress(row.job_id) };
      const labels = Object.entries(row.labels).sort().map(([name, text]) => [name, text, links[name]]);
      const times = [["began", row.started_at], ["fired", row.fired_at], ["resolved", row.resolved_at]].filter(([, at]) => at);
      const more = [
        ["capture", row.capture_id, row.capture_id && address("/analyze", { capture: row.capture_id })],
        ["taken care of by", row.acknowledged_by],
        ["silenced by", row.silenced_by],
        ["rule", row.rule],
        ["id", row.alert_id],
      ].filter(([, text]) => text);
      return [["value", value(row) || "–"], ...labels, ...times.map(([name, at]) => [name, instant(Date.parse(at))]), ...more];
    },
    acknowledgeable() {
      return open(this.row) && !this.row.acknowledged_by;
    },
    // What a silence of this alert would say: its rule, and what tells its subject.
    proposed() {
      const kept = Object.entries(this.row.labels).filter(([name]) => NARROW.includes(name));
      return { rule: this.row.rule, ...Object.fromEntries(kept) };
    },
  },
  watch: {
    id() {
      this.row = null;
      this.look();
    },
  },
  mounted() {
    for (const event of ["wm-alerts", "wm-refresh"]) addEventListener(event, this.look);
    this.look();
  },
  beforeUnmount() {
    for (const event of ["wm-alerts", "wm-refresh"]) removeEventListener(event, this.look);
  },
  methods: {
    ago, instant, mood, value,
    said: ({ what, silenced_by: silence, flapping }) => [what, silence ? "silenced" : "", flapping ? "flapping" : ""].filter(Boolean).join(", "),
    async look() {
      const asked = this.id;
      try {
        const found = await ask(api(asked));
        if (asked === this.id) [this.row, this.history, this.error] = [found.alert, found.history, ""];
      } catch (error) {
        if (asked === this.id && error.name !== "AbortError" && !(error.away && this.row)) this.error = error.message;
      }
    },
    async say(action) {
      try {
        await care(this.row, action);
      } catch (error) {
        this.error = error.message;
      }
    },
  },
};

// A dialog that makes a silence. `show(matchers)` opens it.
export const Silencing = {
  template: `
    <dialog ref="dialog" class="wm-dialog" aria-labelledby="wm-silencing">
      <form method="dialog" novalidate @submit.prevent="make">
        <h3 id="wm-silencing">Silence alerts</h3>
        <p class="wm-muted">Receivers are told of none that fits all of these. They are evaluated and shown all the same.</p>
        <div v-for="(each, at) in rows" :key="at" class="wm-matcher">
          <input v-model.trim="each.name" :aria-label="'Label ' + (at + 1)" placeholder="rule, severity or a label" autocomplete="off" spellcheck="false" />
          <span aria-hidden="true">=</span>
          <input v-model="each.value" :aria-label="'Value of ' + (each.name || 'label ' + (at + 1))" placeholder="value, or ~expression" autocomplete="off" spellcheck="false" />
          <button type="button" class="wm-quiet" :aria-label="'Leave out ' + (each.name || 'label ' + (at + 1))" @click="rows.splice(at, 1)">×</button>
        </div>
        <button type="button" class="wm-link" @click="rows.push({ name: '', value: '' })">One more label</button>
        <div class="wm-fields">
          <label class="wm-field">For<select v-model="length"><option v-for="(name, key) in lengths" :key="key" :value="key">{{ name }}</option></select></label>
          <label class="wm-field wm-wide-field">Why<input v-model.trim="comment" autocomplete="off" /></label>
        </div>
        <p v-if="problem" role="alert" class="wm-error">{{ problem }}</p>
        <p class="wm-begin"><button type="submit" class="wm-primary" :disabled="sending">Silence</button><button type="button" @click="$refs.dialog.close()">Cancel</button></p>
      </form>
    </dialog>`,
  data: () => ({ rows: [], length: "2h", comment: "", problem: "", sending: false, lengths: LENGTHS }),
  methods: {
    show(matchers = { rule: "" }) {
      this.rows = Object.entries(matchers).map(([name, text]) => ({ name, value: text }));
      [this.length, this.comment, this.problem] = ["2h", "", ""];
      this.$refs.dialog.showModal();
    },
    async make() {
      [this.problem, this.sending] = ["", true];
      try {
        const matchers = Object.fromEntries(this.rows.filter(({ name }) => name).map(({ name, value: text }) => [name, text]));
        await send(`${ALERTS}/silences`, { matchers, duration: this.length, comment: this.comment });
        this.$refs.dialog.close();
        changed();
      } catch (error) {
        this.problem = error.message;
      }
      this.sending = false;
    },
  },
};
