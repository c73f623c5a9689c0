// Dark, light, or as the system has it: in the address, and remembered for the addresses that do not say.

import { chosen, onChosen } from "./address.js";

const YEAR_S = 31536000;

export function theme() {
  return chosen(["theme"]).theme ?? /(?:^|; )wm-theme=(\w+)/.exec(document.cookie)?.[1] ?? "auto";
}

export function isDark() {
  const name = theme();
  return name === "dark" || (name !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
}

// Show it and remember it: the server reads the cookie, so that the next page comes in its colours at once.
function show() {
  const name = theme();
  document.documentElement.style.colorScheme = name === "auto" ? "light dark" : name;
  document.cookie = `wm-theme=${encodeURIComponent(name)}; path=/; max-age=${YEAR_S}; samesite=lax`;
  globalThis.Quasar?.Dark?.set(isDark());
  dispatchEvent(new CustomEvent("wm-theme", { detail: name }));
}

// Keep the page in its theme, and tell (`wm-theme`) what draws in colours of its own.
export function follow() {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  onChosen(["theme"], show);
  show();
}

// A colour of the style sheet as canvases need it: `--wm-accent` and the like.
export function colour(name, element = document.body) {
  const probe = element.appendChild(document.createElement("i"));
  probe.style.color = `var(${name})`;
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
