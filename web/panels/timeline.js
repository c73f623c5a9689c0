import { address, ask, choose, chosen, failure, jobAddress, onChosen } from "warpmeter-ui";
import { foldedAtFirst, lanesOf } from "warpmeter-ui/timeline/layout.js";
import { Names } from "warpmeter-ui/timeline/names.js";
import { hand, PERFETTO } from "warpmeter-ui/timeline/perfetto.js";
import { length, moment } from "warpmeter-ui/timeline/scale.js";
import { template } from "warpmeter-ui/timeline/template.js";
import { Viewer } from "warpmeter-ui/timeline/viewer.js";

const MOTIONS = { w: "in", s: "out", a: "left", d: "right", arrowleft: "left", arrowright: "right", "+": "in", "=": "in", "-": "out" };
const GPU = ["kernel", "memcpy", "memset"];
const ARROWS = 40;
const IN_TABLE = 200;
const HITS = 1000;

export default {
  template,
  data: () => ({
    busy: true, error: "", notice: "", capture: "", rank: 0, process: "", ranks: [], rows: [], tall: 0, head: 0, span: "", tip: null,
    event: null, merged: null, range: null, ranged: null, q: "", mode: "text", hits: null, hit: null, stored: null, table: null, help: false,
  }),
  computed: {
    processes() {
      return this.ranks.map((each) => ({ ...each, value: `${each.rank}|${each.process}`, text: each.process === `${each.rank}` ? `Rank ${each.rank}` : `Rank ${each.rank} · ${each.process}`, title: `${each.host || "unknown host"}, ${each.events.toLocaleString("en")} events` }));
    },
    current() {
      const of = this.processes.filter((each) => each.rank === this.rank);
      return (of.find((each) => each.process === this.process) ?? of[0] ?? this.processes[0])?.value;
    },
    about() {
      return this.processes.find((each) => each.value === this.current)?.title ?? "";
    },
    hitText() {
      if (!this.hits) return "";
      if (!this.hits.total) return "no event has such a name";
      const [total, names] = [this.hits.total.toLocaleString("en"), this.hits.names.length];
      return `${this.hit === null ? "" : `${(this.hit + 1).toLocaleString("en")} of `}${total} in ${names} name${names === 1 ? "" : "s"}`;
    },
    facts() {
      const { event } = this.event ?? {};
      if (!event) return [];
      const facts = [["Start", moment(event.start_ns)], ["Duration", length(event.duration_ns)], ["Kind", event.kind]];
      if (event.stream !== null && event.device !== null) facts.push(["Stream", `GPU ${event.device} · ${event.stream}`]);
      if (event.thread) facts.push(["Thread", event.thread_name || event.thread]);
      for (const [name, value] of [["Correlation", event.correlation], ["External id", event.external], ["Sequence", event.sequence]]) if (value !== null) facts.push([name, value]);
      if (this.event.call) facts.push(["Launch delay", length(event.start_ns - this.event.call.start_ns - this.event.call.duration_ns)]);
      return facts;
    },
    noFile() {
      return this.stored ? "" : "The trace's file is not in the store of traces: it was loaded by hand, or has been kept its time.";
    },
    inputs() {
      const { dims = [], types = [], concrete = [], strides = [] } = this.event?.event.arguments ?? {};
      const rows = Math.max(dims.length, types.length, concrete.length);
      return Array.from({ length: rows }, (_, at) => ({ at, dims: dims[at]?.length ? `[${JSON.stringify(dims[at]).slice(1, -1).replaceAll(",", ", ")}]` : "", type: types[at] ?? "", value: concrete[at] ?? "", strides: strides[at]?.length ? `[${strides[at].join(", ")}]` : "" }));
    },
    others() {
      const known = ["dims", "types", "concrete", "strides", "collective"];
      const { collective = {}, ...rest } = this.event?.event.arguments ?? {};
      return [...Object.entries(rest).filter(([name]) => !known.includes(name)), ...Object.entries(collective)].map(([name, value]) => [name.replaceAll("_", " "), Array.isArray(value) ? value.join(", ") : typeof value === "number" ? value.toLocaleString("en") : value]);
    },
  },
  mounted() {
    this.leave = onChosen(null, (names) => !this.own && this.follow(names));
    addEventListener("wm-theme", this.paint);
    addEventListener("keydown", this.anywhere);
    this.load();
  },
  beforeUnmount() {
    this.leave();
    removeEventListener("wm-theme", this.paint);
    removeEventListener("keydown", this.anywhere);
    this.viewer?.close();
  },
  methods: {
    length,
    moment,
    address,
    jobAddress,

    // --- what the address holds ---

    async load() {
      const { capture = "", rank = "0", sequence, process } = chosen(["capture", "rank", "sequence", "process"]);
      Object.assign(this, { capture, rank: Number(rank), process: process ?? "", busy: true, error: "", event: null, merged: null, ranged: null, hits: null });
      this.viewer?.close();
      this.viewer = null;
      if (!capture) return void Object.assign(this, { busy: false, error: "No capture is named: choose one on the page Profiling, and View there." });
      this.of = { rank, sequence, process };
      this.source = `/api/v1/traces/${encodeURIComponent(capture)}/timeline`;
      try {
        this.begin(await ask(`${this.source}/lanes`, this.of));
      } catch (error) {
        this.error = error.message;
      }
      this.busy = false;
    },
    begin({ process, load, lanes, steps, ranks, names }) {
      this.ranks = rowsOf(ranks);
      this.process = process;
      this.of = { ...this.of, process, load };
      this.lanes = lanesOf(lanes).filter(({ lane }) => lane < 65535);
      if (!this.lanes.length) throw new Error(lanes.lane.length ? "This trace was loaded by a version without the timeline: load it again (warpmeter analyze FILE --load)." : "The trace has no events, or they have been kept their time (store.raw_ttl_days): load it again to see them.");
      this.names = new Names(names);
      this.steps = rowsOf(steps);
      this.end = Math.max(1, ...this.lanes.map(({ last_ns }) => last_ns), ...this.steps.map((each) => each.start_ns + each.duration_ns));
      this.viewer = new Viewer({
        canvas: this.$refs.canvas, stage: this.$refs.stage, map: this.$refs.map, scroller: this.$refs.scroller,
        lanes: this.lanes, steps: this.steps, names: this.names, end: this.end, folded: foldedAtFirst(this.lanes),
        fetch: (since_ns, until_ns, signal) => ask(this.source, { ...this.of, since_ns, until_ns, width: 1024 }, { signal }),
        told: {
          moved: () => this.moved(), selected: (event) => this.pick(event), ranged: (range) => this.mark(range),
          hovered: (event, x, y) => this.point(event, x, y), failed: (why) => (this.error = why), laid: (laid) => this.laid(laid),
        },
      });
      this.find();
      this.follow(["t0", "t1", "select", "q", "mode", "range"]);
    },
    follow(changed) {
      if (["capture", "rank", "sequence", "process"].some((name) => changed.includes(name))) return void this.load();
      if (!this.viewer) return;
      const { t0, t1, select, q = "", mode = "text", range } = chosen(["t0", "t1", "select", "q", "mode", "range"]);
      if (changed.includes("t0") || changed.includes("t1")) {
        if (Number(t1) > Number(t0 ?? 0)) this.viewer.look(Number(t0 ?? 0), Number(t1));
        else this.viewer.fit();
      }
      if (changed.includes("select")) {
        const [lane, depth, start_ns] = (select ?? "").split("-").map(Number);
        if (select) this.tell({ lane, depth, start_ns });
        else this.forget();
      }
      if (changed.includes("range")) {
        const [from, to] = (range ?? "").split("-").map(Number);
        this.mark(to > from ? [from, to] : null);
      }
      if (changed.includes("q") || changed.includes("mode")) {
        Object.assign(this, { q, mode });
        this.search(false);
      }
    },
    put(values, options) {
      this.own = true; // the page's other panels hear of it; this one knows
      choose(values, options);
      this.own = false;
    },
    moved() {
      const { t0, t1 } = this.viewer;
      this.span = `${moment(t0)} – ${moment(t1)} (${length(t1 - t0)})`;
      clearTimeout(this.later);
      this.later = setTimeout(() => {
        const whole = t0 <= 0 && t1 >= this.end;
        this.put({ t0: whole ? null : Math.round(t0), t1: whole ? null : Math.round(t1) });
        if (this.table) this.list();
      }, 150);
    },
    laid({ rows, height, head }) {
      Object.assign(this, { rows, tall: height + head, head });
    },
    fold(key) {
      this.viewer.toggle(key);
    },
    folded(row) {
      return this.viewer?.folded.has(row.group ?? row.lane.key);
    },
    switchTo(value) {
      const [rank, process] = value.split("|");
      this.put({ rank, process: process === rank ? null : process, select: null, range: null });
      this.load();
    },
    paint() {
      this.viewer?.theme();
    },

    // --- one event ---

    name(event) {
      return typeof event.name === "number" ? this.names.full[event.name] : event.name;
    },
    shortOf(event) {
      const at = this.names.full.indexOf(event.name);
      return at < 0 ? event.name : this.names.short[at];
    },
    point(event, x, y) {
      if (!event) return void (this.tip = null);
      const lane = this.lanes.find((each) => each.lane === event.lane);
      const share = event.duration_ns ? ` · busy ${Math.round((100 * event.busy_ns) / event.duration_ns)} %` : "";
      this.tip = {
        title: this.name(event), length: length(event.duration_ns), lane: lane.title,
        more: event.count > 1 ? `${event.count.toLocaleString("en")} events, mostly this${share}` : `at ${moment(event.start_ns)}`,
        style: { left: `${x}px`, top: `${y + 18 + this.viewer.scroller.scrollTop}px` }, left: x > this.$refs.canvas.clientWidth * 0.6, up: y > this.$refs.canvas.clientHeight - 110,
      };
    },
    pick(event) {
      this.tip = null;
      if (!event) return void this.put({ select: null }), this.forget();
      if (event.count > 1) {
        this.put({ select: null });
        this.forget();
        this.merged = { ...event, text: this.name(event) };
        return this.viewer.select(event);
      }
      this.put({ select: `${event.lane}-${event.depth}-${event.start_ns}` });
      this.tell(event);
    },
    forget() {
      Object.assign(this, { event: null, merged: null });
      this.viewer?.select(null);
    },
    async tell({ lane, depth, start_ns, duration_ns = 0 }) {
      this.merged = null;
      this.viewer.select({ lane, depth, start_ns, duration_ns });
      const mine = (this.asked = Symbol());
      try {
        const found = await ask(`${this.source}/event`, { ...this.of, lane, depth, start_ns });
        if (mine !== this.asked) return;
        const { event, call, launches } = found;
        this.event = found;
        this.viewer.select(event, call ? [[call, event]] : launches.first.slice(0, ARROWS).map((each) => [event, each]));
      } catch (error) {
        if (mine === this.asked) Object.assign(this, { event: null, notice: error.message });
      }
    },
    go(event, closer = false) {
      this.put({ select: `${event.lane}-${event.depth}-${event.start_ns}` });
      this.viewer.show(event, closer);
      this.tell(event);
    },

    // --- a range ---

    async mark(range) {
      const mine = (this.marked = Symbol());
      this.range = range;
      this.viewer.mark(range);
      this.put({ range: range && range.join("-") });
      if (!range || range[1] <= range[0]) return void (this.ranged = null);
      try {
        const found = rowsOf(await ask(`${this.source}/range`, { ...this.of, since_ns: range[0], until_ns: range[1], top: 2000 }));
        if (mine !== this.marked) return;
        const lanes = this.lanes.map((lane) => ({ lane, outer: sum(found.filter((row) => row.lane === lane.lane), "outer_ns"), count: sum(found.filter((row) => row.lane === lane.lane), "count") })).filter(({ count }) => count);
        const parts = [["On the GPU", found.filter(({ kind }) => GPU.includes(kind))], ["On the host", found.filter(({ kind }) => !GPU.includes(kind) && kind !== "frame")]];
        this.ranged = { lanes, tops: parts.map(([title, rows]) => ({ title, rows: totals(rows).slice(0, 10) })).filter(({ rows }) => rows.length), span: range[1] - range[0] };
      } catch (error) {
        this.notice = error.message;
      }
    },
    percent(part, whole) {
      return `${((100 * part) / whole).toFixed(1)}\u202f%`;
    },

    // --- search ---

    async search(go = true) {
      this.put({ q: this.q, mode: this.mode === "text" ? null : this.mode });
      this.notice = "";
      const mine = (this.searched = Symbol());
      if (!this.q) {
        this.hits = this.hit = null;
        this.names.light(null);
        return this.viewer.dirty();
      }
      try {
        const from_ns = Math.max(0, Math.round(this.viewer.selected?.start_ns ?? this.viewer.t0));
        const found = await ask(`${this.source}/search`, { ...this.of, q: this.q, mode: this.mode, from_ns, limit: HITS });
        if (mine !== this.searched) return;
        this.keep(found);
        this.hit = null;
        const names = new Set(found.names.name);
        this.names.light((name) => names.has(name));
        this.viewer.dirty();
        if (go && found.total) this.step(found.before >= found.total ? 0 : found.before);
      } catch (error) {
        if (mine === this.searched) Object.assign(this, { hits: null, notice: error.message });
      }
    },
    keep({ total, before, offset, hits, names }) {
      this.hits = { q: this.q, total, before, offset, rows: rowsOf(hits), names: rowsOf(names) };
    },
    async step(to) {
      if (!this.hits?.total) return;
      const place = (to + this.hits.total) % this.hits.total;
      const { offset, rows } = this.hits;
      if (place < offset || place >= offset + rows.length) {
        this.keep(await ask(`${this.source}/search`, { ...this.of, q: this.q, mode: this.mode, limit: HITS, offset: Math.floor(place / HITS) * HITS }));
      }
      this.hit = place;
      this.go(this.hits.rows[place - this.hits.offset]);
    },
    next(way) {
      this.step(this.hit === null ? this.hits?.before ?? 0 : this.hit + way);
    },

    // --- keys ---

    anywhere(event) {
      const typing = event.target.closest?.("input, select, textarea");
      if (event.ctrlKey || event.metaKey || !this.viewer) return;
      if (event.key === "/" && !typing) {
        event.preventDefault();
        this.$refs.q.focus();
      } else if (event.key === "?" && !typing) this.help = !this.help;
      else if ((event.key === "n" || event.key === "N") && !typing && this.hits) this.next(event.key === "n" ? 1 : -1);
    },
    key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const key = event.key.toLowerCase();
      const { viewer } = this;
      const ways = { j: 1, k: -1, i: "in", u: "out" };
      const others = {
        arrowup: () => (viewer.scroller.scrollTop -= 60), arrowdown: () => (viewer.scroller.scrollTop += 60),
        pageup: () => (viewer.scroller.scrollTop -= 300), pagedown: () => (viewer.scroller.scrollTop += 300),
        0: () => viewer.fit(), home: () => viewer.fit(), f: () => viewer.selected && viewer.show(viewer.selected, true),
        m: () => viewer.selected && this.mark([viewer.selected.start_ns, viewer.selected.start_ns + viewer.selected.duration_ns]),
        enter: () => this.choose(viewer.selected ?? viewer.first()), escape: () => this.clear(), l: () => this.launcher(),
        "[": () => this.neighbour(-1), "]": () => this.neighbour(1),
      };
      if (key in MOTIONS) viewer.press(MOTIONS[key]);
      else if (key in ways) this.choose(viewer.selected ? viewer.beside(viewer.selected, ways[key]) : viewer.first());
      else if (key in others) others[key]();
      else return;
      event.preventDefault();
    },
    up(event) {
      const key = event.key.toLowerCase();
      if (key in MOTIONS) this.viewer?.release(MOTIONS[key]);
    },
    choose(event) {
      if (!event) return;
      if (event === this.viewer.selected) return void (this.event && this.$refs.details?.focus());
      this.viewer.show(event);
      this.pick(event);
    },
    clear() {
      if (this.help) this.help = false;
      else if (this.range) this.mark(null);
      else this.pick(null);
    },
    launcher() {
      const { call, launches } = this.event ?? {};
      if (call ?? launches?.first[0]) this.go(call ?? launches.first[0]);
    },
    neighbour(by) {
      const at = this.processes.findIndex(({ value }) => value === this.current);
      const to = this.processes[at + by];
      if (to) this.switchTo(to.value);
    },
    zoom(factor) {
      this.viewer?.zoom(factor);
    },
    fit() {
      this.viewer?.fit();
    },

    // --- what is in view as a table ---

    list() {
      const seen = new Map();
      for (const each of this.viewer.inView()) {
        const row = this.viewer.laid.byLane.get(each.lane);
        if (row) seen.set(`${each.lane}-${each.depth}-${each.start_ns}`, { ...each, lane_name: row.lane.title, text: this.name(each) });
      }
      const all = [...seen.values()].sort((a, b) => b.duration_ns - a.duration_ns);
      this.table = { total: all.length, rows: all.slice(0, IN_TABLE).sort((a, b) => a.start_ns - b.start_ns) };
    },
    flip() {
      if (this.table) this.table = null;
      else this.list();
    },

    // --- the file ---

    async find() {
      const round = Number(this.of.sequence ?? 1);
      try {
        const known = await ask("/api/v1/captures", { search: this.capture.slice(0, 200), limit: 1000 });
        if (!known.data.some(({ capture_id }) => capture_id === this.capture)) return void (this.stored = null);
        const { data } = await ask(`/api/v1/traces/${encodeURIComponent(this.capture)}/files`);
        const [host, pid] = this.process.split("/");
        this.stored = data.find((each) => each.sequence === round && (each.rank === this.rank || (each.host === host && `${each.pid}` === pid))) ?? null;
      } catch {
        this.stored = null; // a capture that was loaded by hand is none that the store of traces knows
      }
    },
    async fetched() {
      const answer = await fetch(this.stored.href);
      if (!answer.ok) throw failure(answer.status, await answer.json().catch(() => ({})), answer.statusText);
      return { buffer: await answer.arrayBuffer(), name: this.stored.name };
    },
    async perfetto() {
      this.notice = "";
      const there = window.open(PERFETTO); // by the click itself, or the browser would keep it from opening
      if (!there) return void (this.notice = "The browser did not let a tab open: allow it for this page.");
      try {
        await hand(there, this.fetched(), `${this.capture} rank ${this.rank}`);
      } catch (error) {
        there.close();
        this.notice = error.message;
      }
    },
  },
};

function rowsOf(columns) {
  const names = Object.keys(columns);
  return (columns[names[0]] ?? []).map((_, at) => Object.fromEntries(names.map((name) => [name, columns[name][at]])));
}

const sum = (rows, name) => rows.reduce((total, row) => total + row[name], 0);

// By name, over lanes.
function totals(rows) {
  const found = new Map();
  for (const { name, kind, count, total_ns } of rows) {
    const row = found.get(name) ?? { name, kind, count: 0, total_ns: 0 };
    found.set(name, { ...row, count: row.count + count, total_ns: row.total_ns + total_ns });
  }
  return [...found.values()].sort((a, b) => b.total_ns - a.total_ns);
}
