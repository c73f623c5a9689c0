import { framed, panel } from "warpmeter-ui";
import { cell } from "warpmeter-ui/cells.js";

const known = (value) => value !== null && value !== undefined && value !== "" && !(Array.isArray(value) && !value.length);

export default {
  mixins: [panel],
  essential: true,
  props: { columns: Array },
  template: framed(`
    <dl class="wm-facts wm-columns" :style="{ minHeight: busy && !row ? '64px' : null }">
      <div v-for="each in shown" :key="each.field" :class="{ 'wm-wide': each.flex }"><dt>{{ each.name }}</dt><dd :ref="(place) => fill(place, each)"></dd></div>
    </dl>`),
  data: () => ({ row: null }),
  computed: {
    shown() {
      return this.row ? this.columns.filter(({ field }) => known(this.row[field])) : [];
    },
  },
  methods: {
    draw(row) {
      this.row = row;
      this.nothing = row.gpus === 0; // what is of GPUs is not shown then
    },
    fill(place, column) {
      place?.replaceChildren(cell(column, this.row[column.field], this.row));
    },
  },
};
