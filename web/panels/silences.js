import { framed, instant, panel, whoAmI } from "warpmeter-ui";
import { endSilence } from "warpmeter-ui/alerts.js";
import { mood } from "warpmeter-ui/cells.js";

export default {
  mixins: [panel],
  template: framed(
    `<div v-if="rows.length" class="wm-scroll" tabindex="0" role="region" aria-label="Silences (table)">
       <table class="wm-table">
         <thead><tr><th scope="col">State</th><th scope="col">Of</th><th scope="col">From</th><th scope="col">Until</th><th scope="col">By</th><th scope="col">Why</th><th scope="col"><span class="wm-skip">Actions</span></th></tr></thead>
         <tbody><tr v-for="row in rows" :key="row.silence_id">
           <td><span :class="'wm-tag wm-' + mood(row.state)">{{ row.state }}</span></td>
           <td class="wm-why"><code v-for="(text, name) in row.matchers" :key="name">{{ name }}={{ text }} </code></td>
           <td class="wm-nowrap">{{ time(row.starts_at) }}</td>
           <td class="wm-nowrap">{{ time(row.ends_at) }}</td>
           <td>{{ row.said_by }}</td>
           <td class="wm-why">{{ row.comment }}</td>
           <td><button v-if="row.state !== 'ended'" type="button" class="wm-end" :disabled="!may" :title="may ? 'End it now' : 'You are a viewer: that needs the role operator'" :aria-label="'End silence ' + row.silence_id" @click="end(row)">End</button></td>
         </tr></tbody>
       </table>
     </div>
     <p v-else-if="!busy && !error" class="wm-empty">Nothing is silenced.</p>`,
    `<label v-if="ended" class="wm-muted"><input type="checkbox" v-model="all" /> also the {{ ended }} that ended</label>`,
  ),
  data: () => ({ every: [], all: false, who: null }),
  computed: {
    rows() {
      return this.all ? this.every : this.every.filter(({ state }) => state !== "ended");
    },
    ended() {
      return this.every.filter(({ state }) => state === "ended").length;
    },
    may() {
      return this.who?.role === "operator";
    },
  },
  created() {
    whoAmI().then((who) => (this.who = who));
  },
  mounted() {
    this.look = () => this.leave.again();
    addEventListener("wm-alerts", this.look);
  },
  beforeUnmount() {
    removeEventListener("wm-alerts", this.look);
  },
  methods: {
    mood,
    time: (at) => instant(Date.parse(at)),
    draw({ data }) {
      this.every = data;
    },
    async end(row) {
      try {
        await endSilence(row.silence_id);
      } catch (error) {
        this.error = error.message;
      }
    },
  },
};
