"use strict";
for (const box of document.querySelectorAll(".table")) {
  const body = box.querySelector("tbody"), rows = [...body.rows], shown = +box.dataset.shown;
  const heads = [...box.querySelectorAll("th")];
  const mark = () => [...body.rows].forEach((row, i) => row.classList.toggle("over", i >= shown));
  const value = (row, i) => row.cells[i].dataset.v ?? row.cells[i].textContent;
  heads.forEach((head, i) => head.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") !== "descending";
    heads.forEach(each => each.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const number = rows.some(row => row.cells[i].dataset.v !== undefined);
    rows.sort((a, b) => {
      const x = value(a, i), y = value(b, i);
      if (number && (x === "") !== (y === "")) return x === "" ? 1 : -1;
      const order = number ? x - y : String(x).localeCompare(y);
      return down ? -order : order;
    });
    body.append(...rows);
    mark();
  }));
  mark();
  if (rows.length > shown) {
    const more = document.createElement("button");
    more.className = "more";
    const say = () => { more.textContent = box.classList.contains("all") ? "fewer" : `all ${rows.length}`; };
    more.addEventListener("click", () => { box.classList.toggle("all"); say(); });
    say();
    box.append(more);
  }
  if ("filter" in box.dataset && rows.length > shown) {
    const find = document.createElement("input");
    find.type = "search"; find.className = "find"; find.placeholder = "find";
    find.addEventListener("input", () => {
      const word = find.value.toLowerCase();
      rows.forEach(row => {
        row.hidden = word !== "" && ![...row.cells].some(cell => (cell.textContent + cell.title).toLowerCase().includes(word));
      });
      box.classList.toggle("all", word !== "");
    });
    box.prepend(find);
  }
}

const COLORS = ["#c9d1dc", "#8fd0b5", "#f6d186", "#f3b562", "#9fc3ea", "#7fd1c8", "#f2a07b", "#d4d9e0"];
for (const box of document.querySelectorAll(".flame")) {
  const data = JSON.parse(document.getElementById(box.dataset.of).textContent), count = data.n.length;
  const rows = box.querySelector(".rows"), out = box.querySelector("[data-out]"), said = box.querySelector("output");
  const find = box.querySelector("input"), buttons = [...box.querySelectorAll("[data-weight]")];
  const below = { g: data.g.slice(), c: data.c.slice() };
  const children = Array.from({ length: count }, () => []), roots = [];
  for (let i = count - 1; i >= 0; i--) {
    const up = data.p[i];
    if (up < 0) { roots.push(i); continue; }
    children[up].push(i);
    below.g[up] += below.g[i];
    below.c[up] += below.c[i];
  }
  let weight = below.g.some(ns => ns > 0) ? "g" : "c", top = -1;
  const time = ns => ns >= 1e9 ? `${(ns / 1e9).toPrecision(3)} s` : ns >= 1e6 ? `${(ns / 1e6).toPrecision(3)} ms` : ns >= 1e3 ? `${(ns / 1e3).toPrecision(3)} µs` : `${ns} ns`;
  const draw = () => {
    const sums = below[weight], word = find.value.toLowerCase();
    const whole = roots.reduce((sum, i) => sum + sums[i], 0), shown = top < 0 ? whole : sums[top];
    const parts = document.createDocumentFragment();
    let deepest = 0, matched = 0;
    const put = (i, left, width, depth, up) => {
      const div = document.createElement("div"), name = data.t[data.n[i]];
      div.style.cssText = `left:${left}%;width:${width}%;top:${depth * 17}px;background:${COLORS[data.k[i]]}`;
      if (width > 1.2) div.textContent = name;
      const own = data[weight][i];
      div.title = `${name}\n${time(sums[i])}, ${(100 * sums[i] / (whole || 1)).toFixed(1)} % of all${own && own !== sums[i] ? `; its own ${time(own)}` : ""}`;
      if (up) div.classList.add("up");
      if (word && name.toLowerCase().includes(word)) div.classList.add("found");
      div.addEventListener("click", () => { top = up ? i : top === i ? data.p[i] : i; draw(); });
      parts.append(div);
      deepest = Math.max(deepest, depth);
    };
    const path = [];
    for (let i = top; i >= 0; i = data.p[i]) path.unshift(i);
    path.slice(0, -1).forEach((i, depth) => put(i, 0, 100, depth, true));
    const work = [[top < 0 ? roots : [top], 0, Math.max(0, path.length - 1)]];
    while (work.length) {
      const [nodes, from, depth] = work.pop();
      let left = from;
      for (const i of nodes.slice().sort((a, b) => sums[b] - sums[a])) {
        const width = shown ? 100 * sums[i] / shown : 0;
        if (width < 0.05) break;
        put(i, left, width, depth, false);
        if (children[i].length) work.push([children[i], left, depth + 1]);
        left += width;
      }
    }
    if (word) {
      const all = [[roots, false]];
      while (all.length) {
        const [nodes] = all.pop();
        for (const i of nodes) {
          if (data.t[data.n[i]].toLowerCase().includes(word)) matched += sums[i]; else all.push([children[i]]);
        }
      }
    }
    said.textContent = word ? `${time(matched)}, ${(100 * matched / (whole || 1)).toFixed(1)} % in what was found` : time(shown);
    rows.replaceChildren(parts);
    rows.style.height = `${(deepest + 1) * 17}px`;
    out.hidden = top < 0;
    buttons.forEach(button => button.classList.toggle("on", button.dataset.weight === weight));
  };
  buttons.forEach(button => {
    button.hidden = !below[button.dataset.weight].some(ns => ns > 0);
    button.addEventListener("click", () => { weight = button.dataset.weight; top = -1; draw(); });
  });
  out.addEventListener("click", () => { top = -1; draw(); });
  find.addEventListener("input", draw);
  draw();
}

const ranks = document.getElementById("ranks");
if (ranks) {
  const sections = [...document.querySelectorAll(".rank")], asked = location.hash.replace("#show=", "");
  const show = () => sections.forEach(section => { section.hidden = section.id !== ranks.value; });
  if (sections.some(section => section.id === asked)) ranks.value = asked;
  ranks.addEventListener("change", () => { history.replaceState(null, "", `#show=${ranks.value}`); show(); });
  show();
}
