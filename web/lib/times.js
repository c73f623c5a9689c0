// Times: the window that the address names, and how moments and durations are written.

import { choose, chosen } from "./address.js";

const UNITS = { s: 1e3, m: 60e3, h: 3600e3, d: 86400e3, w: 604800e3 };
export const SINCE = "-1h";
const ALIKE_MS = 2e3; // the header `Date` has whole seconds, and an answer takes its time

let ahead = 0;

// Learn of an answer by how much this browser's clock is before or behind the server's.
export function heard(headers) {
  if (/max-age/.test(headers.get("cache-control"))) return; // it may be an old one, which the browser kept
  const away = Date.now() - (Date.parse(headers.get("date")) + 500);
  if (!Number.isNaN(away)) ahead = Math.abs(away) < ALIKE_MS ? 0 : away;
}

// Milliseconds since the epoch by the server's clock: data tell of its time, and a browser's may be hours off.
export const now = () => Date.now() - ahead;

// Milliseconds since the epoch of `now`, `-6h`, or ISO 8601 (UTC where it names no zone); NaN for anything else.
export function moment(text, from = now()) {
  const trimmed = text.trim();
  if (trimmed === "now") return from;
  const relative = /^-(\d+(?:\.\d+)?)([smhdw])$/.exec(trimmed);
  if (relative) return from - relative[1] * UNITS[relative[2]];
  const zoned = /(?:Z|[+-]\d\d:?\d\d)$/i.test(trimmed);
  return Date.parse(zoned ? trimmed : `${trimmed.replace(" ", "T")}${/\d{4}-\d\d-\d\d$/.test(trimmed) ? "" : "Z"}`);
}

// The window of the page: in milliseconds, and whether it moves with the clock.
export function span() {
  const { since = SINCE, until = "now" } = chosen(["since", "until"]);
  const at = now();
  return { since: moment(since, at), until: moment(until, at), live: /^(now|-.*)$/.test(until), texts: [since, until] };
}

const iso = (ms) => new Date(ms).toISOString().replace(".000Z", "Z");

// A window, from and to in milliseconds, as the address has it; at least a few seconds.
export function stretch(since, until) {
  const least = Math.max(until, since + 10e3);
  return { since: iso(Math.floor(since / 1e3) * 1e3), until: iso(Math.ceil(least / 1e3) * 1e3) };
}

// Look at another window.
export const look = (since, until) => choose(stretch(since, until), { push: true });

const two = (number) => `${number}`.padStart(2, "0");

// A moment as short as `within` (a length in milliseconds) allows; the browser's own zone.
export function clock(ms, within = 0) {
  const at = new Date(ms);
  const day = `${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const time = `${two(at.getHours())}:${two(at.getMinutes())}`;
  if (within > 4 * UNITS.d) return `${day} ${time}`;
  if (within > 20 * UNITS.h) return `${day} ${time}`;
  return within > 20 * UNITS.m ? time : `${time}:${two(at.getSeconds())}`;
}

// A moment in full: 2026-11-30 01:02:03.
export function instant(ms) {
  const at = new Date(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

export const zone = () => new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts().find((part) => part.type === "timeZoneName").value;

// 42 s, 5 min, 2 h 10 min, 3 d 4 h.
export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1e3)} ms`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  return hours % 24 ? `${days} d ${hours % 24} h` : `${days} d`;
}

// What another clock than the server's dates ahead of it is just now.
export const ago = (ms) => (now() - ms < 2e3 ? "now" : `${duration((now() - ms) / 1e3)} ago`);
