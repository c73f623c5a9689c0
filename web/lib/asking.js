// Fetching: one request for panels that need the same answer, cancelled when nobody waits for it any more.

import { chosen, onChosen } from "./address.js";
import { wait } from "./away.js";
import { heard } from "./times.js";

const KEPT_MS = 800; // an answer serves whoever asks the same within this, so that a page's panels share it
const flights = new Map();

// A panel that comes into sight is content with what the others show. That lasts until the page looks again, or elsewhere.
for (const event of ["wm-refresh", "wm-chosen", "wm-alerts"]) {
  addEventListener(event, () => flights.forEach(({ landed }, key) => landed && flights.delete(key)));
}

export function addressOf(source, parameters = {}) {
  const url = new URL(source, location.origin);
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

// What the API answers, as JSON; `shown`: what it answered when the page last looked will do. Rejects with an Error that
// says why, or with an AbortError once `signal` is.
export function ask(source, parameters = {}, { signal, shown = false } = {}) {
  const key = `${addressOf(source, parameters)}`;
  const known = flights.get(key);
  const flight = known && (shown || !known.old) ? known : depart(key);
  flight.waiting += 1;
  return new Promise((resolve, reject) => {
    flight.answer.then(resolve, reject);
    signal?.addEventListener("abort", () => leave(key, flight, reject), { once: true });
  });
}

// A page asks for dozens of things at once over the six connections that browsers keep: the libraries that are to draw the
// answers go first.
function depart(key) {
  const abort = new AbortController();
  const flight = { waiting: 0, landed: false, old: false, abort, answer: read(key, { signal: abort.signal, priority: "low" }) };
  const forget = () => flights.get(key) === flight && flights.delete(key);
  flight.answer.then(() => setTimeout(() => (flight.old = true), KEPT_MS), forget).finally(() => (flight.landed = true));
  flights.set(key, flight);
  return flight;
}

function leave(key, flight, reject) {
  flight.waiting -= 1;
  if (flight.waiting === 0 && !flight.landed) {
    flights.delete(key);
    flight.abort.abort();
  }
  reject(new DOMException("nobody waits for it", "AbortError"));
}

const ACCEPT = { accept: "application/json" };
const AHEAD_MS = 10e3;
export const ahead = new Map(); // by address

// Ask before there is a panel: the first one that asks the same within a while is given that answer.
export function sendAhead(url) {
  if (ahead.has(url)) return;
  const answer = fetch(url, { priority: "low", headers: ACCEPT });
  answer.catch(() => {});
  ahead.set(url, answer);
  setTimeout(() => ahead.delete(url), AHEAD_MS);
}

// As `fetch`, of what was asked for ahead that answer.
export function fetched(url, options) {
  const answer = options.method ? undefined : ahead.get(url);
  if (answer) ahead.delete(url);
  return answer ? answer.catch(() => reached(url, options)) : reached(url, options);
}

const reached = (url, options) => fetch(url, options).catch((error) => {
  throw error.name === "AbortError" ? error : Object.assign(new Error("warpmeter does not answer"), { away: "warpmeter" });
});

async function read(url, options) {
  const answer = await fetched(url, { ...options, headers: { ...ACCEPT, ...options.headers } });
  heard(answer.headers);
  const body = answer.status === 204 ? {} : await answer.json().catch(() => ({}));
  if (answer.ok) return body;
  throw failure(answer.status, body, answer.statusText);
}

// The error of an answer that is none; `away` is who did not answer, "store" or "warpmeter". Where the session has ended, on to the login, and from there back to the view.
export function failure(status, body, otherwise = "") {
  if (status === 401) location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
  const before = [502, 504].includes(status) || (status === 503 && !body.detail); // something before us, or too many at once
  return Object.assign(new Error(reason(body) || `${status} ${otherwise}`), { status, body, away: body.away ?? (before ? "warpmeter" : undefined) });
}

// What an error's body says, as one sentence.
function reason({ detail }) {
  if (!Array.isArray(detail)) return detail;
  return detail.map(({ loc = [], msg }) => [loc.slice(1).join("."), msg].filter(Boolean).join(": ")).join("; ");
}

let session;
export const whoAmI = () => (session ??= ask("/api/v1/session").catch(() => (session = undefined) ?? {}));

// Ask for a change. The session's token goes along, which is how the API knows that one of its own pages asks.
export async function send(source, body, method = "POST") {
  const { csrf } = await whoAmI();
  const headers = { "content-type": "application/json", ...(csrf ? { "x-csrf-token": csrf } : {}) };
  return read(`${addressOf(source)}`, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
}

let held = null;

// What panels wait for before they first ask, as for a window that has yet to be found out.
export function hold(promise) {
  held = Promise.resolve(promise).finally(() => (held = null));
}

// Fetch now, when one of `names` changes in the address, when the page refreshes, and when who did not answer does again;
// with `element`, only once that is nearly in sight. `source` may be a function of what is chosen; `by` asks in another way than `ask`. Returns how to
// stop.
export function follow(source, names, draw, fail, { element, begin, by = ask } = {}) {
  let abort = new AbortController();
  let [seen, stale, flying, missing] = [!element, true, false, false];
  const told = (error) => {
    flying = false;
    missing = Boolean(error?.away);
    wait(draw, error);
  };
  const fetchNow = async (shown = false) => {
    stale = !seen && !missing; // one that tells nobody answers, out of sight too, must learn when they do
    if (stale) return;
    abort.abort();
    const { signal } = (abort = new AbortController());
    flying = true;
    begin?.();
    if (held) await held;
    if (signal.aborted) return;
    const parameters = chosen(names);
    const sources = [typeof source === "function" ? source(parameters) : source].flat();
    try {
      const answers = await Promise.all(sources.map((each) => by(each, parameters, { signal, shown })));
      if (signal.aborted) return;
      told(null);
      draw(...answers);
    } catch (error) {
      if (signal.aborted) return;
      told(error);
      fail(error.message, error);
    }
  };
  const watcher = element && new IntersectionObserver(([entry]) => {
    seen = entry.isIntersecting;
    if (seen && stale) fetchNow(true);
  }, { rootMargin: "300px" });
  watcher?.observe(element);
  const again = () => fetchNow();
  const refresh = () => flying || fetchNow(); // one that takes longer than the page's pace would never come
  const back = () => missing && refresh();
  const quit = onChosen(names, again);
  addEventListener("wm-refresh", refresh);
  addEventListener("wm-back", back);
  if (!element) fetchNow();
  const stop = () => {
    abort.abort();
    watcher?.disconnect();
    quit();
    removeEventListener("wm-refresh", refresh);
    removeEventListener("wm-back", back);
    wait(draw, null);
  };
  return Object.assign(stop, { again });
}
