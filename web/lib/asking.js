// Fetching: one request for panels that need the same answer, cancelled when nobody waits for it any more.

import { chosen, onChosen } from "./address.js";
import { heard } from "./times.js";

const KEPT_MS = 800; // an answer serves whoever asks the same within this, so that a page's panels share it
const flights = new Map();

// A panel that comes into sight is content with what the others show. That lasts until the page looks again, or elsewhere.
for (const event of ["wm-refresh", "wm-chosen"]) {
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
  return answer ? answer.catch(() => fetch(url, options)) : fetch(url, options);
}

async function read(url, options) {
  const answer = await fetched(url, { ...options, headers: { ...ACCEPT, ...options.headers } });
  heard(answer.headers);
  const body = answer.status === 204 ? {} : await answer.json().catch(() => ({}));
  if (answer.ok) return body;
  throw failure(answer.status, body, answer.statusText);
}

// The error of an answer that is none. Where the session has ended, on to the login, and from there back to the view.
export function failure(status, body, otherwise = "") {
  if (status === 401) location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
  return Object.assign(new Error(reason(body) || `${status} ${otherwise}`), { status, body });
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

// Fetch now, when one of `names` changes in the address, and when the page refreshes; with `element`, only once that
// is nearly in sight. `source` may be a function of what is chosen; `by` asks in another way than `ask`. Returns how to
// stop.
export function follow(source, names, draw, fail, { element, begin, by = ask } = {}) {
  let abort = new AbortController();
  let [seen, stale] = [!element, true];
  const fetchNow = async (shown = false) => {
    stale = !seen;
    if (stale) return;
    abort.abort();
    const { signal } = (abort = new AbortController());
    begin?.();
    if (held) await held;
    if (signal.aborted) return;
    const parameters = chosen(names);
    const sources = [typeof source === "function" ? source(parameters) : source].flat();
    try {
      const answers = await Promise.all(sources.map((each) => by(each, parameters, { signal, shown })));
      if (!signal.aborted) draw(...answers);
    } catch (error) {
      if (!signal.aborted) fail(error.message, error);
    }
  };
  const watcher = element && new IntersectionObserver(([entry]) => {
    seen = entry.isIntersecting;
    if (seen && stale) fetchNow(true);
  }, { rootMargin: "300px" });
  watcher?.observe(element);
  const again = () => fetchNow();
  const quit = onChosen(names, again);
  addEventListener("wm-refresh", again);
  if (!element) fetchNow();
  const stop = () => {
    abort.abort();
    watcher?.disconnect();
    quit();
    removeEventListener("wm-refresh", again);
  };
  return Object.assign(stop, { again });
}
