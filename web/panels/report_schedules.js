import { framed, instant, panel } from "warpmeter-ui";

export default {
  mixins: [panel],
  template: framed(
    `<div v-if="rows.length" class="wm-scroll" tabindex="0" role="region" aria-label="Schedules of reports (table)">
       <table class="wm-table">
         <thead><tr><th scope="col">Name</th><th scope="col">Report</th><th scope="col">Of</th><th scope="col">When</th><th scope="col">Next</th><th scope="col">To</th></tr></thead>
         <tbody><tr v-for="row in rows" :key="row.name">
           <td>{{ row.name }}</td>
           <td>{{ row.report }}</td>
           <td>{{ row.period ? 'the last ' + row.period : 'each job' }}</td>
           <td class="wm-nowrap"><template v-if="row.cron"><code>{{ row.cron }}</code> {{ row.timezone }}</template><template v-else>when it has ended</template></td>
           <td><span v-if="row.why" class="wm-tag wm-bad">{{ row.why }}</span><template v-else-if="row.next_at">{{ time(row.next_at) }}</template></td>
           <td>{{ row.targets.join(', ') }}</td>
         </tr></tbody>
       </table>
     </div>
     <p v-else-if="!busy && !error" class="wm-empty">This server's settings have no [[reports.schedules]]: docs/reports.md says how to set them.</p>`,
  ),
  data: () => ({ rows: [] }),
  methods: {
    time: (at) => instant(Date.parse(at)),
    draw({ data }) {
      this.rows = data;
    },
  },
};
