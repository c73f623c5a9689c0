// What panels share. The address holds everything that is chosen; panels fetch again when what they follow changes.

export function chosen(names) {
  const address = new URLSearchParams(location.search);
  return Object.fromEntries(names.filter((name) => address.has(name)).map((name) => [name, address.get(name)]));
}

export function choose(values) {
  const address = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === "") address.delete(name);
    else address.set(name, value);
  }
  history.replaceState(history.state, "", `${location.pathname}?${address}${location.hash}`);
  dispatchEvent(new CustomEvent("wm-chosen", { detail: Object.keys(values) }));
}

export async function ask(source, parameters = {}) {
  const url = new URL(source, location.origin);
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  const answer = await fetch(url, { headers: { accept: "application/json" } });
  const body = await answer.json().catch(() => ({}));
  if (answer.ok) return body;
  const detail = Array.isArray(body.detail) ? body.detail.map((each) => each.msg).join("; ") : body.detail;
  throw new Error(detail || `${answer.status} ${answer.statusText}`);
}

// Fetch now, when one of `names` changes in the address, and when the page refreshes. Returns how to stop.
export function follow(source, names, draw, fail) {
  let latest = 0;
  const fetchNow = async () => {
    const mine = ++latest;
    try {
      const answer = await ask(source, chosen(names));
      if (mine === latest) draw(answer);
    } catch (error) {
      if (mine === latest) fail(error.message);
    }
  };
  const onChosen = (event) => event.detail.some((name) => names.includes(name)) && fetchNow();
  addEventListener("wm-chosen", onChosen);
  addEventListener("wm-refresh", fetchNow);
  fetchNow();
  return () => {
    latest = -1;
    removeEventListener("wm-chosen", onChosen);
    removeEventListener("wm-refresh", fetchNow);
  };
}
