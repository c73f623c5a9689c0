import { framed, panel } from "warpmeter-ui";
import { seconds, timelineAddress } from "warpmeter-ui/analysis.js";

export default {
  mixins: [panel],
  template: framed(`
    <p v-if="found && !found.length" class="wm-empty">Nothing stands out. What the trace does not hold (events of a GPU, shapes, memory events, stacks) cannot stand out either; capture with them to look closer.</p>
    <ol v-if="found && found.length" class="wm-findings">
      <li v-for="each in found" :key="each.id + each.text">
        <span class="wm-cost">{{ cost(each) }}</span>
        <b>{{ each.text }}<small v-if="each.ranks > 1 && each.worst_rank !== null"> · on {{ each.ranks }} ranks, most on <a :href="view(each)">rank {{ each.worst_rank }}</a></small></b>
        <p>{{ each.advice }}</p>
      </li>
    </ol>`),
  data: () => ({ found: null }),
  methods: {
    draw({ data }) {
      this.found = data;
    },
    cost: (each) => (each.cost_seconds > 0 ? seconds(each.cost_seconds) : ""),
    view: (each) => timelineAddress({ rank: each.worst_rank }),
  },
};
