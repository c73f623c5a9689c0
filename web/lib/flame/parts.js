// What is around the graph: the bar over it, the table beside it, the tip, and a tree for who does not see the canvas.

import { frame } from "./tree.js";
import { amount, percent, points } from "./words.js";

export const TOP = 100;

export function element(tag, properties = {}, ...children) {
  const { attributes = {}, ...rest } = properties;
  const made = Object.assign(document.createElement(tag), rest);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const button = (text, title, click) => element("button", { type: "button", textContent: text, title, onclick: click });

// The bar: search and what it found, whole, copy; for a difference what the colours mean.
export function bar(doing) {
  const search = element("input", {
    type: "search", placeholder: "Search, or /expression/", title: "A part of function, file or line, or a /regular expression/  (/)",
    oninput: () => doing.search(search.value), attributes: { "aria-label": "Search functions, files, lines" },
  });
  const hits = element("span", { className: "wm-flame-hits wm-muted", attributes: { role: "status" } });
  const whole = button("Whole", "All of it (0 or Esc)", doing.whole);
  const copy = button("Copy stack", "The stack of the box that is chosen or looked at (C, or Ctrl and a click on a box)", doing.copy);
  const legend = element("span", { className: "wm-flame-legend", hidden: true }, ...["shrank", "same", "grew"].map((way) => element("span", {}, element("i", { className: `wm-flame-${way}` }), { shrank: "▼ smaller share", same: "as before", grew: "▲ larger share" }[way])));
  return { whole, copy, hits, search, legend, all: element("div", { className: "wm-flame-bar" }, search, whole, copy, hits, legend) };
}

// Rows of the table: as the store has added them up, else out of the graph; those with the most first.
export function rows(tree, top, first) {
  if (tree.compares) {
    const found = tree.functions(first).map((row) => ({
      ...row, now: part(row.self, tree.total), before: part(row.baseSelf, tree.baseTotal),
    }));
    return found.map((row) => ({ ...row, change: row.now - row.before }));
  }
  if (!top) return tree.functions(first);
  return top.function.map((label, at) => ({ label, self: top.self[at], total: top.total[at] }));
}

const part = (value, whole) => (whole ? value / whole : 0);
const COLUMNS = { plain: [["self", "Self"], ["total", "Total"]], compared: [["now", "Self now"], ["before", "Before"], ["change", "Change"]] };

// The table of functions. `doing.sort(column)` and `doing.pick(label)` are what one can do with it.
export function table({ tree, found, sort, match, unit }, doing) {
  const columns = COLUMNS[tree.compares ? "compared" : "plain"];
  const order = (row) => (sort === "change" ? Math.abs(row.change) : row[sort]);
  const shown = found.filter(({ label }) => !match || match(label)).sort((a, b) => order(b) - order(a)).slice(0, TOP);
  const heads = columns.map(([key, name]) => {
    const chosen = key === sort;
    return element("th", { scope: "col", className: "wm-number", attributes: { "aria-sort": chosen ? "descending" : "none" } }, element("button", { type: "button", className: "wm-link", textContent: `${name}${chosen ? " ▾" : ""}`, onclick: () => doing.sort(key) }));
  });
  const body = shown.map((row) => {
    const { name, file, line } = frame(row.label);
    const link = element("button", { type: "button", className: "wm-link wm-flame-name", textContent: name, title: `Mark ${row.label}`, onclick: () => doing.pick(row.label) });
    const where = element("small", { textContent: file && `${file}${line ? `:${line}` : ""}` });
    return element("tr", {}, element("td", {}, link, where), ...columns.map(([key]) => cell(row, key, tree, unit)));
  });
  const head = element("tr", {}, element("th", { scope: "col", textContent: "Function" }), ...heads);
  return element("table", { className: "wm-table" }, element("thead", {}, head), element("tbody", {}, ...body));
}

function cell(row, key, tree, unit) {
  if (key === "change") return element("td", { className: "wm-number", textContent: points(row.change) });
  const share = tree.compares ? row[key] : part(row[key], tree.total);
  const made = element("td", { className: "wm-number wm-barred", textContent: percent(share), title: tree.compares ? "" : amount(row[key], unit) });
  made.style.setProperty("--wm-part", `${Math.min(100, share * 100)}%`);
  return made;
}

// A box in words, line by line: what it is, how much, and against before.
export function words(tree, at, unit) {
  const { name, file, line } = frame(tree.label[at]);
  const lines = [name];
  if (file) lines.push(`${file}${line ? `, line ${line}` : ""}`);
  if (!tree.compares) {
    lines.push(`total ${amount(tree.value[at], unit)}, ${percent(tree.share(at))} of all`);
    lines.push(`self ${amount(tree.self[at], unit)}, ${percent(part(tree.self[at], tree.total))} of all`);
    return lines;
  }
  lines.push(`now ${percent(tree.share(at))} of all, ${amount(tree.value[at], unit)}; self ${percent(part(tree.self[at], tree.total))}`);
  lines.push(`before ${percent(tree.baseShare(at))} of all, ${amount(tree.base[at], unit)}; self ${percent(part(tree.baseSelf[at], tree.baseTotal))}`);
  lines.push(`${points(tree.share(at) - tree.baseShare(at))} points`);
  return lines;
}

export function tip(tree, at, unit) {
  const [name, ...lines] = words(tree, at, unit);
  return [element("b", { textContent: name }), ...lines.map((text) => element("span", { textContent: text }))];
}

let made = 0;

// The box that keys stand at, as an item of a tree.
export function item(tree, at, unit) {
  const siblings = tree.parent[at] < 0 ? [at] : tree.children(tree.parent[at]);
  const attributes = { role: "treeitem", "aria-level": tree.level[at] + 1, "aria-setsize": siblings.length, "aria-posinset": siblings.indexOf(at) + 1, "aria-selected": "true" };
  if (tree.end[at] > at + 1) attributes["aria-expanded"] = "true";
  made += 1;
  return element("div", { id: `wm-flame-item-${made}`, className: "wm-hidden", textContent: words(tree, at, unit).join("; "), attributes });
}
