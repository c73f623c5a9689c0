// What stands in a table's cells: DOM nodes, never markup, for names of jobs and hosts are what somebody typed.

import { hostAddress, jobAddress, address, chosen } from "./address.js";
import { timelineAddress } from "./analysis.js";
import { ago, duration, instant } from "./times.js";
import { show } from "./units.js";

const GOOD = ["ok", "running", "busy", "captured", "analysed", "ready", "resolved", "holds"];
const BAD = ["failed", "failing", "lost", "gone", "silent", "broken", "denied", "error", "firing", "critical"];
const WARN = ["idle", "throttled", "requested", "accepted", "started", "unsupported", "stuck", "late", "pending", "warning", "ahead"];

export const mood = (state) => (GOOD.includes(state) ? "good" : BAD.includes(state) ? "bad" : WARN.includes(state) ? "warn" : "none");

function node(tag, text, properties = {}) {
  return Object.assign(document.createElement(tag), { textContent: text, ...properties });
}

export function tag(state, title = "") {
  return node("span", state, { className: `wm-tag wm-${mood(state)}`, title });
}

// A line of a few dozen values, from 0 to 1 or to its own most.
export function spark(values, width = 96, height = 20) {
  const name = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(name, "svg");
  const known = (values ?? []).filter((value) => value !== null);
  const most = Math.max(1, ...known);
  for (const [key, value] of Object.entries({ width, height, class: "wm-spark", role: "img", "aria-label": known.length ? `from ${show(known[0], "ratio")} to ${show(known.at(-1), "ratio")}` : "no values" })) svg.setAttribute(key, value);
  const path = svg.appendChild(document.createElementNS(name, "path"));
  let [d, pen] = ["", "M"];
  (values ?? []).forEach((value, at) => {
    if (value === null) return (pen = "M");
    d += `${pen}${((at / Math.max(1, values.length - 1)) * width).toFixed(1)} ${(height - 1.5 - (value / most) * (height - 3)).toFixed(1)}`;
    return (pen = "L");
  });
  path.setAttribute("d", d);
  return svg;
}

function list(values, limit = 3) {
  const texts = (values ?? []).map((value) => `${value}`);
  return node("span", texts.slice(0, limit).join(", ") + (texts.length > limit ? ` and ${texts.length - limit} more` : ""), { title: texts.join("\n") });
}

function hosts(value) {
  if (!Array.isArray(value)) return value ? node("a", value, { href: hostAddress(value), title: value }) : node("span", "–");
  const box = document.createElement("span");
  value.slice(0, 2).forEach((host, at) => box.append(at ? ", " : "", node("a", host, { href: hostAddress(host) })));
  if (value.length > 2) box.append(node("span", ` and ${value.length - 2} more`, { title: value.join("\n") }));
  return box;
}

function job(value) {
  if (Array.isArray(value)) {
    const box = document.createElement("span");
    value.slice(0, 2).forEach((id, at) => box.append(at ? ", " : "", node("a", id, { href: jobAddress(id) })));
    if (value.length > 2) box.append(` and ${value.length - 2} more`);
    return box;
  }
  return value ? node("a", value, { href: jobAddress(value), title: value }) : node("span", "–");
}

const KINDS = {
  text: (value) => node("span", value ?? "–", { title: value ?? "" }),
  number: (value) => node("span", value ?? "–"),
  value: (value, { unit }) => node("span", show(value, unit)),
  time: (value) => node("span", value ? instant(Date.parse(value)) : "–"),
  ago: (value) => node("span", value ? ago(Date.parse(value)) : "–", { title: value ? instant(Date.parse(value)) : "" }),
  duration: (value) => node("span", duration(value)),
  state: (value, _, row) => tag(value ?? "–", row.why || (row.problems ?? []).join("\n")),
  spark: (value) => spark(value),
  host: hosts,
  job,
  list: (value) => list(value),
  // A kernel, by its short name: where it ran, on the timeline.
  kernel: (value, _, row) => node("a", value, { href: timelineAddress({ rank: chosen(["rank"]).rank ?? row.slowest_rank, q: row.name }), title: row.name }),
  capture: (value) => node("a", value, { href: address("/analyze", { capture: value }) }),
};

// The node of a value, by the kind of its column.
export const cell = (column, value, row) => KINDS[column.kind](value, column, row);
