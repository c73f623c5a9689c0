import { address, ago, choose, chosen, framed, instant, onChosen, panel, whoAmI } from "warpmeter-ui";
import { Detail, Silencing, about, addressOfAlert, since, value } from "warpmeter-ui/alerts.js";
import { mood } from "warpmeter-ui/cells.js";

const STATES = ["open", "firing", "pending", "resolved", "dropped"];
const SEVERITIES = ["critical", "warning", "info"];
const FILTERS = ["state", "severity", "rule", "host", "job", "search"];
const OWN = [...FILTERS.map((name) => `alerts.${name}`), "alerts.page", "alert"];

export default {
  mixins: [panel],
  components: { Detail, Silencing },
  props: { about: Object, details: Boolean, limit: Number },
  template: framed(
    `<Detail v-if="details && picked && !listed && drawn" :id="picked" :may="may" :why="why" @silence="$refs.silencing.show($event)" />
     <div v-if="rows.length" class="wm-scroll" tabindex="0" role="region" :aria-label="title + ' (table)'">
       <table class="wm-table wm-alerts" :class="{ 'wm-few': !details }">
         <thead><tr><th scope="col">Severity</th><th scope="col">State</th><th scope="col">Since</th><th scope="col">What</th><th v-if="details" scope="col">About</th><th scope="col" class="wm-number">Value</th><th scope="col">Taken care of</th></tr></thead>
         <tbody v-for="row in rows" :key="row.alert_id">
           <tr :class="{ 'wm-chosen': details && row.alert_id === picked, 'wm-handled': row.acknowledged_by || row.silenced_by || row.state === 'resolved' }">
             <td><span :class="'wm-tag wm-' + (row.state === 'resolved' ? 'none' : mood(row.severity))">{{ row.severity }}</span></td>
             <td class="wm-nowrap"><span :class="'wm-tag wm-' + mood(row.state)">{{ row.state }}</span><small v-if="row.flapping" title="It comes and goes, and is held so that nobody is told each time">flapping</small></td>
             <td class="wm-nowrap" :title="instant(since(row))">{{ ago(since(row)) }}</td>
             <td class="wm-why"><button v-if="details" type="button" class="wm-id" :aria-expanded="row.alert_id === picked" @click="pick(row)">{{ row.summary }}</button><a v-else :href="link(row)">{{ row.summary }}</a></td>
             <td v-if="details"><template v-for="[name, href] in subjects(row)" :key="href"><a class="wm-cut" :href="href" :title="name">{{ name }}</a> </template></td>
             <td class="wm-number">{{ value(row) }}</td>
             <td>{{ row.acknowledged_by }}<small v-if="row.silenced_by" :title="row.silenced_by">silenced</small></td>
           </tr>
           <tr v-if="details && row.alert_id === picked"><td colspan="7" class="wm-detail"><Detail :id="row.alert_id" :may="may" :why="why" @silence="$refs.silencing.show($event)" /></td></tr>
         </tbody>
       </table>
     </div>
     <p v-if="!rows.length && !busy && !error" class="wm-empty">{{ filtered ? 'Nothing matches the filter.' : 'Nothing is the matter, and nothing was in this window.' }} <button v-if="filtered" type="button" class="wm-link" @click="clear">Show all</button></p>
     <div v-if="total > limit && details" class="wm-pager">
       <span>{{ page * limit + 1 }}–{{ Math.min(total, (page + 1) * limit) }} of {{ total }}</span>
       <button type="button" :disabled="page === 0" aria-label="Page before" @click="turn(page - 1)">‹</button>
       <button type="button" :disabled="(page + 1) * limit >= total" aria-label="Next page" @click="turn(page + 1)">›</button>
     </div>
     <p v-else-if="total > limit"><a :href="all">All {{ total }}</a></p>
     <Silencing v-if="details" ref="silencing" />`,
    `<template v-if="details">
       <input type="search" aria-label="Search alerts by rule, summary or label" placeholder="rule, what or label" :value="search" @input="seek($event.target.value)" />
       <label class="wm-muted">State <select :value="picks.state" @change="put('state', $event.target.value)"><option value="">all</option><option v-for="each in states" :key="each" :value="each">{{ each }}</option></select></label>
       <label class="wm-muted">Severity <select :value="picks.severity" @change="put('severity', $event.target.value)"><option value="">all</option><option v-for="each in severities" :key="each" :value="each">{{ each }}</option></select></label>
       <template v-for="name in ['rule', 'host', 'job']" :key="name"><button v-if="picks[name]" type="button" class="wm-cut" :aria-label="'Alerts of every ' + name + ', not of ' + picks[name] + ' alone'" :title="picks[name]" @click="put(name, null)">{{ name }} {{ picks[name] }} ×</button></template>
       <button type="button" :disabled="!may" :title="may ? 'Tell receivers of no such alerts for a while' : why" @click="$refs.silencing.show()">Silence…</button>
     </template>
     <a v-else :href="all">All alerts</a>`,
  ),
  data: () => ({ rows: [], total: 0, drawn: false, picks: {}, search: "", page: 0, picked: "", who: null, states: STATES, severities: SEVERITIES }),
  computed: {
    filtered() {
      return this.details && Object.values(this.picks).some(Boolean);
    },
    may() {
      return this.who?.role === "operator";
    },
    why() {
      return "You are a viewer: that needs the role operator";
    },
    listed() {
      return this.rows.some(({ alert_id: id }) => id === this.picked);
    },
    all() {
      return this.total >= 0 && address("/alerts", { "alerts.host": this.about.host, "alerts.job": this.about.job });
    },
  },
  created() {
    this.read();
    this.asked = () => `${this.source}?${new URLSearchParams(this.question())}`;
    whoAmI().then((who) => (this.who = who));
  },
  mounted() {
    this.look = () => this.leave.again();
    addEventListener("wm-alerts", this.look);
    this.unchosen = onChosen(OWN, (names) => {
      this.read();
      if (names.some((name) => name !== "alert")) this.leave.again();
    });
  },
  beforeUnmount() {
    removeEventListener("wm-alerts", this.look);
    this.unchosen();
    clearTimeout(this.wait);
  },
  methods: {
    ago, instant, mood, since, value,
    subjects: about,
    link: (row) => addressOfAlert(row.alert_id),
    read() {
      if (!this.details) return;
      const given = chosen(OWN);
      this.picks = Object.fromEntries(FILTERS.map((name) => [name, given[`alerts.${name}`] ?? ""]));
      this.search = this.picks.search;
      this.page = Math.max(0, parseInt(given["alerts.page"] ?? "0", 10) || 0);
      this.picked = given.alert ?? "";
    },
    question() {
      const asked = this.details ? { ...this.picks, offset: this.page * this.limit } : { ...this.about };
      return Object.entries({ ...asked, limit: this.limit }).filter(([, text]) => text);
    },
    draw({ data, total }) {
      [this.rows, this.total, this.drawn, this.nothing] = [data, total, true, total === 0 && !this.details];
    },
    pick(row) {
      choose({ alert: row.alert_id === this.picked ? null : row.alert_id }, { push: true });
    },
    put(name, text) {
      choose({ [`alerts.${name}`]: text, "alerts.page": null }, { push: true });
    },
    seek(text) {
      this.search = text;
      clearTimeout(this.wait);
      this.wait = setTimeout(() => choose({ "alerts.search": text.trim(), "alerts.page": null }), 250);
    },
    turn(page) {
      choose({ "alerts.page": page || null }, { push: true });
    },
    clear() {
      choose(Object.fromEntries([...FILTERS.map((name) => [`alerts.${name}`, null]), ["alerts.page", null]]), { push: true });
    },
  },
};
