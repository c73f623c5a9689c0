// Who does not answer: said once a page, in its bar, however many of its panels wait; and asked once, until they do.

const AGAIN_MS = 5e3;
const waiting = new Map(); // of who waits, for whom and why
let timer;

// `who` has an error of an answer that did not come (`away` is "store" or "warpmeter"), or, with null, no more.
export function wait(who, error) {
  if (error?.away) waiting.set(who, { away: error.away, why: error.message });
  else if (!waiting.delete(who)) return;
  dispatchEvent(new CustomEvent("wm-away", { detail: missed() }));
  if (waiting.size) timer ??= setTimeout(probe, AGAIN_MS);
}

// For whom the page waits: `{ away, why }`; null where it waits for nobody.
export function missed() {
  const all = [...waiting.values()];
  return all.find(({ away }) => away === "warpmeter") ?? all[0] ?? null;
}

// Once they answer, who waits asks again.
async function probe() {
  const up = waiting.size && !document.hidden && (await fetch("/api/v1/health").then(({ ok }) => ok, () => false));
  if (up) dispatchEvent(new Event("wm-back"));
  timer = waiting.size ? setTimeout(probe, AGAIN_MS) : undefined;
}
