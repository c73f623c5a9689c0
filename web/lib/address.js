// The page's address: it holds everything that is chosen, so that a link shows what its sender saw.

export const CARRIED = ["since", "until", "refresh", "theme"]; // what a link to another page keeps
let last = new URLSearchParams(location.search);

export function chosen(names) {
  const address = new URLSearchParams(location.search);
  return Object.fromEntries(names.filter((name) => address.has(name)).map((name) => [name, address.get(name)]));
}

// Put values into the address; null or "" takes one out. `push` for a choice that Back should undo: a window, a filter.
export function choose(values, { push = false } = {}) {
  const address = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === undefined || value === "") address.delete(name);
    else address.set(name, value);
  }
  if (`${address}` === `${new URLSearchParams(location.search)}`) return;
  const url = `${location.pathname}${address.size ? `?${address}` : ""}${location.hash}`;
  history[push ? "pushState" : "replaceState"](history.state, "", url);
  tell();
}

// The address of another page, with the window, the theme and the refresh of this one.
export function address(path, extra = {}) {
  const url = new URL(path, location.origin);
  for (const [name, value] of Object.entries({ ...chosen(CARRIED), ...extra })) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  return `${url.pathname}${url.search}`;
}

export const hostAddress = (host, extra) => address(`/host/${encodeURIComponent(host)}`, extra);
// A job's page begins with the job's own time, whatever window one comes from.
export const jobAddress = (job, extra) => address("/job", { id: job, since: null, until: null, ...extra });

// Call `then` with the names that changed when one of `names` (all: null) does. Returns how to stop.
export function onChosen(names, then) {
  const listen = ({ detail }) => (!names || detail.some((name) => names.includes(name))) && then(detail);
  addEventListener("wm-chosen", listen);
  return () => removeEventListener("wm-chosen", listen);
}

function tell() {
  const now = new URLSearchParams(location.search);
  const names = [...new Set([...last.keys(), ...now.keys()])].filter((name) => last.get(name) !== now.get(name));
  last = now;
  if (names.length) dispatchEvent(new CustomEvent("wm-chosen", { detail: names }));
}

addEventListener("popstate", tell);
