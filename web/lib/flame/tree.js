// A flame graph out of nested rows, depth first, as `stack_flame` and `stack_diff` answer them. Nothing of a page in here.

const FRAME = /^(.*?)(?: \(((?:[^()]|\([^()]*\))*?)(?::(\d+))?\))?$/s;

// What a label tells: `file` "" and `line` 0 where they are not known.
export function frame(label) {
  const [, name, file = "", line = 0] = FRAME.exec(label);
  return file ? { name, file, line: Number(line) } : { name: label, file: "", line: 0 };
}

export class Tree {
  // Columns of one value a box: level, label, value, self; of a difference also base and base_self.
  constructor(columns) {
    const { level = [], label = [], value = [], self = [], base, base_self } = columns;
    Object.assign(this, { level, label, value, self, base: base ?? null, baseSelf: base_self ?? null, length: level.length });
    this.total = value[0] ?? 0;
    this.baseTotal = base?.[0] ?? 0;
    this.depth = level.reduce((most, each) => Math.max(most, each + 1), 0);
    this.lay();
  }

  // Where each box is: its parent, the box after its last descendant, and start and width as parts of 1. Of a difference a
  // box is as wide as the mean of its two shares, so that what came and what went is there alike.
  lay() {
    const count = this.length;
    this.parent = new Int32Array(count).fill(-1);
    this.end = new Int32Array(count).fill(count);
    this.left = new Int32Array(count).fill(-1);
    this.start = new Float64Array(count);
    this.width = new Float64Array(count);
    this.key = new Uint32Array(count);
    const [free, path, last] = [new Float64Array(count), [], new Int32Array(count).fill(-1)];
    const sides = (this.total ? 1 : 0) + (this.baseTotal ? 1 : 0) || 1;
    for (let at = 0; at < count; at += 1) {
      const level = this.level[at];
      while (path.length > level) this.end[path.pop()] = at;
      const parent = path[level - 1] ?? -1;
      this.parent[at] = parent;
      if (parent >= 0) [this.left[at], last[parent]] = [last[parent], at];
      this.width[at] = (this.share(at) + this.baseShare(at)) / sides;
      this.start[at] = free[at] = parent < 0 ? 0 : free[parent];
      if (parent >= 0) free[parent] += this.width[at];
      this.key[at] = hash(this.label[at], parent < 0 ? 2166136261 : this.key[parent]);
      path.push(at);
    }
  }

  // What is written on a box: the function; with its line where its neighbour, by the order of names, is another line of it.
  title(at) {
    const { name, file, line } = frame(this.label[at]);
    if (!line) return name;
    const next = this.end[at];
    const beside = [this.left[at], next < this.length && this.parent[next] === this.parent[at] ? next : -1];
    const same = (each) => each >= 0 && this.label[each].startsWith(`${name} (${file}:`);
    return beside.some(same) ? `${name}:${line}` : name;
  }

  get compares() {
    return this.base !== null;
  }

  share(at) {
    return this.total ? this.value[at] / this.total : 0;
  }

  baseShare(at) {
    return this.baseTotal ? this.base[at] / this.baseTotal : 0;
  }

  // From -1 (all of it went) over 0 to 1 (it was not there before).
  change(at) {
    const [now, before] = [this.share(at), this.baseShare(at)];
    return now || before ? (now - before) / Math.max(now, before) : 0;
  }

  // The boxes from the outermost to this one.
  path(at) {
    const found = [];
    for (let each = at; each >= 0; each = this.parent[each]) found.unshift(each);
    return found;
  }

  children(at) {
    const found = [];
    for (let each = at + 1; each < this.end[at]; each = this.end[each]) found.push(each);
    return found;
  }

  // A name of a box that stands while its path does, for the address.
  name(at) {
    return this.key[at].toString(36);
  }

  named(name) {
    const key = parseInt(name, 36);
    return name ? this.key.indexOf(key) : -1;
  }

  // Which boxes match, and how much of all is in them, each once however they lie in each other.
  search(match) {
    const lit = new Uint8Array(this.length);
    let [count, share, until] = [0, 0, 0];
    for (let at = 1; at < this.length; at += 1) {
      if (!match(this.label[at])) continue;
      lit[at] = 1;
      count += 1;
      if (at < until) continue;
      until = this.end[at];
      share += this.share(at);
    }
    return { lit, count, share };
  }

  // Functions by their labels: in themselves, and with what they called, once however deep they call themselves. Levels
  // above `first` are no functions.
  functions(first = 1) {
    const [found, within, path] = [new Map(), new Map(), []];
    for (let at = 0; at < this.length; at += 1) {
      while (path.length > this.level[at]) leave(within, path.pop());
      const label = this.label[at];
      path.push(label);
      const depth = within.get(label) ?? 0;
      within.set(label, depth + 1);
      if (this.level[at] < first) continue;
      const row = found.get(label) ?? { label, self: 0, total: 0, baseSelf: 0, baseTotal: 0 };
      row.self += this.self[at];
      row.baseSelf += this.baseSelf?.[at] ?? 0;
      if (!depth) [row.total, row.baseTotal] = [row.total + this.value[at], row.baseTotal + (this.base?.[at] ?? 0)];
      found.set(label, row);
    }
    return [...found.values()];
  }
}

const leave = (within, label) => within.set(label, within.get(label) - 1);

function hash(text, from) {
  let found = from;
  for (let at = 0; at < text.length; at += 1) found = Math.imul(found ^ text.charCodeAt(at), 16777619);
  return Math.imul(found ^ 31, 16777619) >>> 0;
}

// The same columns with a function as one, whichever of its lines ran.
export function withoutLines(columns) {
  const sums = Object.keys(columns).filter((name) => name !== "level" && name !== "label");
  const made = Object.fromEntries(Object.keys(columns).map((name) => [name, []]));
  const [path, begun] = [[], new Map()];
  columns.level.forEach((level, at) => {
    const label = columns.label[at].replace(/:\d+\)$/, ")");
    const within = level ? path[level - 1].below : begun;
    if (!within.has(label)) within.set(label, { label, level, below: new Map(), ...Object.fromEntries(sums.map((name) => [name, 0])) });
    path[level] = within.get(label);
    for (const name of sums) path[level][name] += columns[name][at];
  });
  const put = (each) => {
    for (const name of Object.keys(made)) made[name].push(each[name]);
    each.below.forEach(put);
  };
  begun.forEach(put);
  return made;
}

// What a search looks for: a part of a label in any case, or a /regular expression/. Null for nothing; throws for none.
export function matcher(text) {
  if (!text) return null;
  const inside = /^\/(.+)\/$/.exec(text);
  if (inside) {
    const pattern = new RegExp(inside[1], "i");
    return (label) => pattern.test(label);
  }
  const lower = text.toLowerCase();
  return (label) => label.toLowerCase().includes(lower);
}
