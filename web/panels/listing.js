import { CARRIED, choose, chosen, framed, onChosen, panel } from "warpmeter-ui";
import { cell } from "warpmeter-ui/cells.js";
import { csv, everything, save } from "warpmeter-ui/csv.js";
import { grids, keyed, keyedColumns, look, oneStop } from "warpmeter-ui/grid.js";
import { asked, filters, shown } from "warpmeter-ui/listed.js";

const NUMBERS = ["number", "value", "duration"];

export default {
  mixins: [panel],
  props: { columns: Array, choices: Array, search: String, limit: Number, sort: String, empty: String, table: String, row: String },
  template: framed(
    `<div ref="grid" class="wm-grid" :style="{ minHeight: total === null && !error ? 28 * (Math.min(limit, 10) + 1) + 'px' : null }"></div>
     <p v-if="total === 0 && !busy" class="wm-empty">{{ filtered ? 'Nothing matches the filter.' : empty }} <button v-if="filtered" type="button" class="wm-link" @click="clear">Show all</button></p>
     <div v-if="total > limit" class="wm-pager">
       <span>{{ first + 1 }}–{{ Math.min(total, first + limit) }} of {{ total }}</span>
       <button type="button" :disabled="first === 0" aria-label="Page before" @click="turn(first - limit)">‹</button>
       <button type="button" :disabled="first + limit >= total" aria-label="Next page" @click="turn(first + limit)">›</button>
     </div>`,
    `<input v-if="search" type="search" :aria-label="'Search ' + title + ' by ' + search" :placeholder="search" :value="sought" @input="seek($event.target.value)" />
     <label v-for="each in choices" :key="each.parameter" class="wm-muted">{{ each.name }} <select :value="picked[each.parameter] ?? ''" @change="pick(each.parameter, $event.target.value)"><option value="">all</option><option v-for="value in each.values" :key="value" :value="value">{{ value }}</option></select></label>
     <button type="button" :aria-label="'Download ' + title + ' as CSV'" :disabled="saving" @click="download">CSV</button>`,
  ),
  data: () => ({ total: null, first: 0, sought: "", picked: {}, saving: false }),
  computed: {
    filtered() {
      return Boolean(this.sought || Object.values(this.picked).some(Boolean) || Object.keys(chosen(this.shared())).length);
    },
  },
  created() {
    this.read();
    this.asked = () => asked(this.source, this.limit, this);
  },
  mounted() {
    grids(); // comes while the answer does
    this.unstop = oneStop(this.$refs.grid);
    this.uncarried = onChosen(CARRIED, () => this.api?.refreshCells({ force: true })); // links keep the window
    this.unchosen = onChosen(this.own(), () => {
      this.read();
      this.leave.again();
    });
  },
  beforeUnmount() {
    this.unchosen();
    this.uncarried();
    this.unstop();
    clearTimeout(this.wait);
    this.api?.destroy();
  },
  methods: {
    name(part) {
      return `${this.table}.${part}`;
    },
    own() {
      return ["sort", "page", "search", ...this.choices.map((each) => each.parameter)].map(this.name);
    },
    shared() {
      return this.follows.filter((name) => !["since", "until"].includes(name));
    },
    read() {
      Object.assign(this, shown(this));
    },
    async draw({ data, total }) {
      this.total = total;
      this.nothing = total === 0 && !this.filtered;
      const AgGrid = await grids();
      if (!this.$refs.grid) return;
      if (this.api) this.api.setGridOption("rowData", data);
      else this.api = AgGrid.createGrid(this.$refs.grid, this.options(AgGrid, data));
    },
    options(AgGrid, rowData) {
      return {
        ...keyed, theme: look(AgGrid), loadThemeGoogleFonts: false, rowData, columnDefs: this.columns.map(this.definition),
        domLayout: "autoHeight", ensureDomOrder: true, enableCellTextSelection: true, animateRows: false, suppressMultiSort: true,
        suppressMovableColumns: true, suppressNoRowsOverlay: true, suppressDragLeaveHidesColumns: true, suppressColumnVirtualisation: true,
        getRowId: ({ data }) => `=${data[this.row]}`, // it is a key of an object: no name may be one of those that all have
        defaultColDef: { cellDataType: false, resizable: true, comparator: () => 0, suppressHeaderMenuButton: true, ...keyedColumns },
        onSortChanged: ({ api, source }) => source.startsWith("ui") && this.sorted(api),
      };
    },
    definition(column) {
      const by = column.sort ?? column.field;
      const numeric = NUMBERS.includes(column.kind);
      return {
        field: column.field, headerName: column.name, width: column.width, minWidth: Math.min(column.width, column.flex ? 150 : 60), flex: column.flex || undefined,
        sortable: Boolean(by), sort: this.order === by ? "asc" : this.order === `-${by}` ? "desc" : undefined,
        sortingOrder: numeric || column.kind !== "text" ? ["desc", "asc", null] : ["asc", "desc", null],
        type: numeric ? "rightAligned" : undefined,
        cellRenderer: ({ value, data }) => unstopped(cell(column, value, data)),
        equals: (a, b) => a === b || JSON.stringify(a) === JSON.stringify(b), // what has not changed keeps its focus
      };
    },
    sorted(api) {
      const state = api.getColumnState().find(({ sort }) => sort);
      const column = state && this.columns.find(({ field }) => field === state.colId);
      const by = column && (column.sort ?? column.field);
      choose({ [this.name("sort")]: by ? (state.sort === "desc" ? `-${by}` : by) : null, [this.name("page")]: null }, { push: true });
    },
    seek(text) {
      this.sought = text;
      clearTimeout(this.wait);
      this.wait = setTimeout(() => choose({ [this.name("search")]: text.trim(), [this.name("page")]: null }), 250);
    },
    pick(parameter, value) {
      choose({ [this.name(parameter)]: value, [this.name("page")]: null }, { push: true });
    },
    clear() {
      choose(Object.fromEntries([...this.own().filter((name) => name !== this.name("sort")), ...this.shared()].map((name) => [name, null])), { push: true });
    },
    turn(first) {
      choose({ [this.name("page")]: first <= 0 ? null : Math.round(first / this.limit) }, { push: true });
    },
    async download() {
      this.saving = true;
      try {
        const rows = await everything(this.source, { ...chosen(this.follows), ...filters(this) });
        const columns = this.columns.filter(({ kind }) => kind !== "spark");
        save(`${this.table}.csv`, csv(columns.map(({ field }) => field), rows.map((row) => columns.map(({ field }) => row[field]))));
      } catch (error) {
        this.error = error.message;
      }
      this.saving = false;
    },
  },
};

// The links of a cell are no stops of their own: Enter on the cell opens them.
function unstopped(content) {
  for (const link of [content, ...content.querySelectorAll("a")]) if (link.matches("a")) link.tabIndex = -1;
  return content;
}
