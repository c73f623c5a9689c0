import { framed, panel, show } from "warpmeter-ui";
import { seconds } from "warpmeter-ui/analysis.js";

export default {
  mixins: [panel],
  template: framed(`
    <p v-if="rows && !rows.length" class="wm-empty">Nothing was copied or set while it was captured.</p>
    <div v-else-if="rows" class="wm-scroll" tabindex="0" role="region" :aria-label="title + ' (table)'"><table class="wm-table">
      <thead><tr><th scope="col">Operation</th><th scope="col" class="wm-number">Count</th><th scope="col" class="wm-number">Total</th><th scope="col" class="wm-number">Mean</th><th scope="col" class="wm-number">Longest</th><th scope="col" class="wm-number">Bytes</th><th scope="col" class="wm-number">Speed</th></tr></thead>
      <tbody><tr v-for="row in rows" :key="row.operation">
        <td>{{ row.operation }}<small v-if="row.paths.length">&ensp;{{ row.paths.join(', ') }}</small></td>
        <td class="wm-number">{{ row.count.toLocaleString('en') }}</td><td class="wm-number">{{ time(row.total_seconds) }}</td><td class="wm-number">{{ time(row.mean_seconds) }}</td><td class="wm-number">{{ time(row.max_seconds) }}</td>
        <td class="wm-number">{{ bytes(row.bytes) }}</td><td class="wm-number">{{ speed(row.bytes_per_s) }}</td>
      </tr></tbody>
    </table></div>`),
  data: () => ({ rows: null }),
  methods: {
    draw({ copies }) {
      this.rows = copies;
    },
    time: seconds,
    bytes: (value) => show(value, "B"),
    speed: (value) => show(value, "B/s"),
  },
};
