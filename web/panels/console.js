import { send, whoAmI } from "warpmeter-ui";
import { csv, save } from "warpmeter-ui/csv.js";
import { grids, keyed, keyedColumns, look, oneStop } from "warpmeter-ui/grid.js";

const TABLES = `SELECT table, groupArray((name, type)) AS columns
FROM (SELECT table, name, type, position FROM system.columns WHERE database = currentDatabase() ORDER BY table, position)
WHERE table NOT LIKE '.%' AND NOT match(table, '_(judge|mv|local)$') GROUP BY table ORDER BY table`;
const NUMBER = /^(Nullable\()?(U?Int|Float|Decimal)/;
const plain = (value) => (value !== null && typeof value === "object" ? JSON.stringify(value) : value);

// The statement stands behind the # of the address, which no server and no proxy ever sees.
const linked = () => new URLSearchParams(location.hash.slice(1)).get("sql");

export default {
  props: { source: String, title: String, follows: Array, first: String },
  template: `
    <section class="wm-panel" :class="{ 'wm-busy': busy }" :aria-busy="busy" :aria-label="title">
      <header class="wm-panel-head">
        <h2><label for="wm-sql">{{ title }}</label></h2>
        <div class="wm-tools">
          <span class="wm-muted" role="status">{{ told }}</span>
          <button type="button" @click="download" :disabled="!columns.length">CSV</button>
          <button type="button" class="wm-primary" @click="run" :disabled="busy || !allowed" title="Ctrl+Enter">Run</button>
        </div>
      </header>
      <textarea id="wm-sql" ref="text" class="wm-mono wm-sql" rows="8" spellcheck="false" autocomplete="off" autocapitalize="off"
        v-model="sql" @keydown.ctrl.enter.prevent="run" @keydown.meta.enter.prevent="run" :aria-invalid="Boolean(error)" aria-describedby="wm-sql-error"></textarea>
      <p id="wm-sql-error" role="alert" class="wm-error">{{ error }} <button v-if="place" type="button" class="wm-link" @click="goThere">Show where</button></p>
      <p v-if="!allowed" class="wm-empty">{{ why }}</p>
      <details v-if="allowed" class="wm-tables" @toggle="$event.target.open && list()">
        <summary>Tables and views</summary>
        <p v-if="tables === null" class="wm-muted">Loading…</p>
        <ul>
          <li v-for="table in tables ?? []" :key="table.name">
            <button type="button" class="wm-link wm-mono" @click="begin(table)">{{ table.name }}</button>
            <small>{{ table.columns }}</small>
          </li>
        </ul>
      </details>
      <div ref="grid" class="wm-grid wm-rows" v-show="columns.length"></div>
      <p v-if="ran && !rows.length && !error && !busy" class="wm-empty">It has no rows.</p>
    </section>`,
  data() {
    return { sql: linked() ?? this.first, error: "", place: null, told: "", busy: false, allowed: true, why: "", ran: false, columns: [], rows: [], tables: null };
  },
  async mounted() {
    this.onHash = () => (this.sql = linked() ?? this.sql);
    addEventListener("hashchange", this.onHash);
    this.unstop = oneStop(this.$refs.grid);
    const { role, sql } = await whoAmI();
    this.allowed = sql !== false;
    this.why = role === "operator" ? "The SQL console is switched off here (web.sql)." : `Your role is ${role}: the SQL console needs the role operator.`;
  },
  beforeUnmount() {
    removeEventListener("hashchange", this.onHash);
    this.unstop();
    this.api?.destroy();
  },
  methods: {
    async run() {
      if (this.busy || !this.allowed) return;
      history.replaceState(history.state, "", `${location.pathname}${location.search}#${new URLSearchParams({ sql: this.sql })}`);
      [this.busy, this.error, this.place, this.told] = [true, "", null, ""];
      const began = performance.now();
      try {
        const { columns, rows, truncated } = await send(this.source, { sql: this.sql, exact: true });
        const seconds = ((performance.now() - began) / 1000).toFixed(2);
        this.told = `${truncated ? "The first " : ""}${rows.length.toLocaleString("en")} ${rows.length === 1 ? "row" : "rows"}, ${seconds} s`;
        await this.show(columns, rows);
        this.ran = true;
      } catch ({ message, body }) {
        this.error = message;
        this.place = body?.line ? body : null;
      }
      this.busy = false;
    },
    async show(columns, rows) {
      [this.columns, this.rows] = [columns, rows];
      const AgGrid = await grids();
      this.api?.destroy();
      const definitions = columns.map(({ name, type }, at) => {
        const number = NUMBER.test(type);
        const by = number ? { comparator: (a, b) => (a === null) - (b === null) || Number(a) - Number(b) } : {};
        return { colId: `${at}`, headerName: name, headerTooltip: type, valueGetter: ({ data }) => plain(data[at]), type: number ? "rightAligned" : undefined, ...by };
      });
      this.api = AgGrid.createGrid(this.$refs.grid, {
        theme: look(AgGrid), loadThemeGoogleFonts: false, rowData: rows, columnDefs: definitions, enableCellTextSelection: true, ensureDomOrder: true,
        animateRows: false, suppressNoRowsOverlay: true, domLayout: rows.length > 15 ? "normal" : "autoHeight",
        autoSizeStrategy: { type: "fitCellContents" }, ...keyed, defaultColDef: { ...keyedColumns, cellDataType: false, resizable: true, sortable: true, maxWidth: 600, suppressHeaderMenuButton: true },
      });
      this.$refs.grid.style.height = rows.length > 15 ? "480px" : "";
    },
    download() {
      save("rows.csv", csv(this.columns.map(({ name }) => name), this.rows.map((row) => row.map(plain))));
    },
    goThere() {
      const { line, column } = this.place;
      const at = this.sql.split("\n").slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0) + column - 1;
      this.$refs.text.focus();
      this.$refs.text.setSelectionRange(at, at + (/^\w+/.exec(this.sql.slice(at))?.[0].length ?? 1));
    },
    async list() {
      if (this.tables) return;
      try {
        const { rows } = await send(this.source, { sql: TABLES });
        this.tables = rows.map(([name, columns]) => ({ name, columns: columns.map(([column]) => column).join(", ") }));
      } catch ({ message }) {
        this.error = message;
      }
    },
    begin({ name }) {
      this.sql = `SELECT *\nFROM ${name}\nLIMIT 100`;
      this.$refs.text.focus();
    },
  },
};
