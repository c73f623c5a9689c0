import { framed, hostAddress, panel, show } from "warpmeter-ui";

const METRICS = [
  ["gpu_util", "GPU", "ratio"], ["sm_active", "SM", "ratio"], ["tensor_active", "Tensor", "ratio"], ["dram_active", "Memory", "ratio"],
  ["fb_used_bytes", "Memory used", "B"], ["power_watts", "Power", "W"], ["temperature_celsius", "Temperature", "°C"], ["sm_clock_hertz", "SM clock", "Hz"],
];
const FIRST = 16;

export default {
  mixins: [panel],
  template: framed(
    `<p v-if="!busy && !rows.length && !error" class="wm-empty">No rank of this job held a GPU in this window.</p>
     <div v-else class="wm-scroll wm-ranks"><table class="wm-table">
       <thead><tr><th scope="col" class="wm-number">Rank</th><th scope="col">Host</th><th scope="col" class="wm-number">GPU</th><th v-for="[key, name] in metrics" :key="key" scope="col" class="wm-number">{{ name }}</th><th scope="col"><span class="wm-hidden">Unlike the others</span></th></tr></thead>
       <tbody><tr v-for="row in rows.slice(0, shown)" :key="row.host + row.uuid" :class="{ 'wm-odd': row.odd.length }">
         <td class="wm-number">{{ row.rank ?? '–' }}</td>
         <td><a class="wm-cut" :title="row.host" :href="to(row.host)">{{ row.host }}</a></td>
         <td class="wm-number">{{ row.gpu ?? '–' }}</td>
         <td v-for="[key, name, unit] in metrics" :key="key" class="wm-number wm-barred" :class="{ 'wm-mark': row.odd.includes(key) }" :style="{ '--wm-part': part(row[key], key) }">{{ show(row[key], unit) }}</td>
         <td><span v-if="row.odd.length" class="wm-tag wm-warn">odd</span></td>
       </tr></tbody>
     </table></div>
     <button v-if="rows.length > shown" type="button" class="wm-link" @click="shown = rows.length">All {{ rows.length }}</button>`,
    `<span class="wm-muted">{{ verdict }}</span>`,
  ),
  data: () => ({ rows: [], shown: FIRST, metrics: METRICS, most: {} }),
  computed: {
    verdict() {
      const odd = this.rows.filter((row) => row.odd.length).length;
      if (!this.rows.length) return "";
      if (this.rows.length === 1) return "1 GPU";
      return odd ? `${odd} of ${this.rows.length} GPUs unlike the others` : `${this.rows.length} GPUs, all alike`;
    },
  },
  methods: {
    show,
    to: hostAddress,
    draw({ data }) {
      this.rows = [...data].sort((a, b) => (b.odd.length > 0) - (a.odd.length > 0));
      this.most = Object.fromEntries(METRICS.map(([key, , unit]) => [key, unit === "ratio" ? 1 : Math.max(...data.map((row) => row[key] ?? 0))]));
    },
    part(value, key) {
      return value && this.most[key] ? `${(100 * value) / this.most[key]}%` : "0%";
    },
  },
};
