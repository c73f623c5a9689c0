// What panels of captures share: how one is written, its actions, and the table of its processes.

import { address } from "./address.js";
import { addressOf, ask, send } from "./asking.js";
import { mood } from "./cells.js";
import { clock, duration, now } from "./times.js";
import { show } from "./units.js";

const OPTIONS = { shapes: "shapes", memory: "memory", stacks: "stacks", flops: "FLOPs", modules: "modules" };
const SHOWN = 100;
const ALL = 10000;
const BEFORE = ["seen", "requested", "accepted", "started", "captured", "analysed", "cancelled", "failed"];

export const api = (id, rest = "") => `/api/v1/captures/${encodeURIComponent(id)}${rest}`;

const length = (ms) => (ms % 1000 ? `${ms} ms` : duration(ms / 1000));

// What is traced, and how often: "2 s, shapes, every 10 min".
export function what(row) {
  const much = row.iterations ? `${row.iterations} iterations` : length(row.duration_ms);
  const often = row.mode === "continuous" ? `every ${duration(row.interval_s)}` : row.count > 1 ? `${row.count} times` : "";
  return [much, often, ...Object.keys(OPTIONS).filter((name) => row[name]).map((name) => OPTIONS[name])].filter(Boolean).join(", ");
}

// Whom it means, where that is no job.
export const target = (row) => [row.asked_hosts.join(", "), row.pids.length ? `pid ${row.pids.join(", ")}` : "", row.condition].filter(Boolean).join("; ");

// How a capture's state is coloured: by what came of it, once it has ended.
export function look({ state, processes, captured, hosts_failed: lost }) {
  if (state !== "ended") return mood(state);
  return captured && captured === processes && !lost.length ? "good" : captured ? "warn" : "bad";
}

export const open = (row) => row.state === "requested" || row.state === "running";

// Its analysis: of the latest round.
export const analyze = (row) => address("/analyze", { capture: row.capture_id, sequence: row.rounds > 1 ? row.rounds : null });
export const view = (id, { sequence, rank, host, pid }) =>
  address("/timeline", { capture: id, sequence: sequence > 1 ? sequence : null, rank: rank ?? 0, process: rank === null && host ? `${host}/${pid}` : null });
export const file = (id, { host, pid, sequence }) => addressOf(`/api/v1/traces/${encodeURIComponent(id)}/file`, { host, pid, sequence }).href;

// End it: "cancel" at once, "detach" after the round that goes on.
export const end = (id, action) => send(api(id, `/${action}`), {});

// Follow one capture each second until nothing more comes of it. Returns how to stop, with `all` to ask for every process.
export function watch(id, draw, fail) {
  let [stopped, timer, limit] = [false, 0, SHOWN];
  const turn = async () => {
    let wait = 1000;
    try {
      const answer = document.hidden ? null : await ask(api(id, "/ranks"), { limit });
      if (stopped) return;
      if (answer) {
        draw(answer);
        if (!open(answer.capture)) wait = settled(answer) ? 0 : 3000;
      }
    } catch (error) {
      if (stopped) return;
      fail(error.message);
      wait = 3000; // also where it is not known: what was asked for elsewhere is in the store within seconds
    }
    if (wait) timer = setTimeout(turn, wait);
  };
  turn();
  const stop = () => {
    stopped = true;
    clearTimeout(timer);
  };
  const all = () => {
    limit = ALL;
    clearTimeout(timer);
    turn();
  };
  return Object.assign(stop, { all });
}

// Analyses may come for a moment after the end.
const settled = ({ capture, states }) => now() - Date.parse(capture.ended_at ?? 0) > 20e3 || !states.captured;

// The processes of a capture, as a component of a panel's.
export const Processes = {
  props: { capture: Object, answer: Object },
  emits: ["all"],
  template: `
    <div>
      <p class="wm-counts"><span v-for="[state, count] in counts" :key="state" :class="'wm-tag wm-' + mood(state)">{{ count }} {{ state }}</span><span v-if="starts" class="wm-muted">{{ starts }}</span></p>
      <div class="wm-scroll" tabindex="0" role="region" aria-label="Processes">
        <table class="wm-table wm-processes">
          <thead><tr><th v-if="several" scope="col" class="wm-number">Round</th><th scope="col" class="wm-number">Rank</th><th scope="col">Host</th><th scope="col" class="wm-number">PID</th><th scope="col">State</th><th scope="col">What happened, and what to do</th><th scope="col">Trace</th></tr></thead>
          <tbody>
            <tr v-for="row in rows" :key="row.sequence + row.host + row.pid">
              <td v-if="several" class="wm-number">{{ row.sequence }}</td>
              <td class="wm-number">{{ row.rank ?? '–' }}</td>
              <td><span class="wm-cut" :title="row.host">{{ row.host }}</span></td>
              <td class="wm-number">{{ row.pid ?? '–' }}</td>
              <td><span :class="'wm-tag wm-' + mood(row.state)">{{ row.state }}</span></td>
              <td class="wm-why"><span v-if="row.reason" :title="row.meaning"><code>{{ row.reason }}</code> {{ row.why }}</span><span v-else>{{ row.why }}</span><span v-if="row.clock" class="wm-warn"> {{ row.clock }}</span></td>
              <td class="wm-nowrap"><template v-if="row.stored"><a v-if="row.state === 'analysed'" :href="view(row)">View</a> <a :href="file(row)" download :aria-label="'Download the trace of process ' + row.pid + ' on ' + row.host">{{ size(row.bytes) }}</a></template></td>
            </tr>
          </tbody>
        </table>
      </div>
      <p v-if="!rows.length" class="wm-empty">{{ empty }}</p>
      <button v-if="answer.total > rows.length" type="button" class="wm-link" @click="$emit('all')">Show all {{ answer.total }}</button>
    </div>`,
  computed: {
    rows() {
      return this.answer.data;
    },
    several() {
      return this.rows.some(({ sequence }) => sequence > 1);
    },
    counts() {
      return BEFORE.map((state) => [state, this.answer.states[state]]).filter(([, count]) => count);
    },
    starts() {
      const first = Math.min(...this.rows.filter(({ state, start_at }) => state === "accepted" && start_at).map(({ start_at }) => Date.parse(start_at)));
      return Number.isFinite(first) ? `${first > now() ? "begins" : "began"} at ${clock(first)}` : "";
    },
    empty() {
      if (this.capture.state === "requested") return "No scheduler has taken it yet: one runs in `warpmeter up`, or as `warpmeter schedule`.";
      return open(this.capture) ? "Agents are asked who is there." : this.capture.why;
    },
  },
  methods: {
    mood,
    size: (bytes) => show(bytes, "B"),
    view(row) {
      return view(this.capture.capture_id, row);
    },
    file(row) {
      return file(this.capture.capture_id, row);
    },
  },
};
