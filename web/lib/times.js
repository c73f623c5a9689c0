// Times: the window that the address names, and how moments and durations are written.

import { choose, chosen } from "./address.js";

const UNITS = { s: 1e3, m: 60e3, h: 3600e3, d: 86400e3, w: 604800e3 };
export const SINCE = "-1h";

// Milliseconds since the epoch of `now`, `-6h`, or ISO 8601 (UTC where it names no zone); NaN for anything else.
export function moment(text, now = Date.now()) {
  const trimmed = text.trim();
  if (trimmed === "now") return now;
  const relative = /^-(\d+(?:\.\d+)?)([smhdw])$/.exec(trimmed);
  if (relative) return now - relative[1] * UNITS[relative[2]];
  const zoned = /(?:Z|[+-]\d\d:?\d\d)$/i.test(trimmed);
  return Date.parse(zoned ? trimmed : `${trimmed.replace(" ", "T")}${/\d{4}-\d\d-\d\d$/.test(trimmed) ? "" : "Z"}`);
}

// The window of the page: in milliseconds, and whether it moves with the clock.
export function span() {
  const { since = SINCE, until = "now" } = chosen(["since", "until"]);
  const now = Date.now();
  return { since: moment(since, now), until: moment(until, now), live: /^(now|-.*)$/.test(until), texts: [since, until] };
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

export const ago = (ms) => (Math.abs(Date.now() - ms) < 2e3 ? "now" : `${duration((Date.now() - ms) / 1e3)} ago`);
