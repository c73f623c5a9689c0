// Tiles of a timeline: stretches of 1,024 buckets of 2^level nanoseconds, fetched when they come into sight, kept, and
// drawn from another level until they are there.

import { SHADES } from "./names.js";

export const BUCKETS = 1024;
const LEAST = 4; // the store's shortest bucket: 16 ns
const AT_ONCE = 4;
const KEPT = 240;

export class Tiles {
  // `fetch(since, until, signal)` answers a timeline; `changed()` is told when a tile has come, `failed(why)` when not.
  constructor({ end, names, fetch, changed, failed }) {
    Object.assign(this, { end, names, fetch, changed, failed });
    this.root = LEAST;
    while (this.length(this.root) < end) this.root += 1;
    this.tiles = new Map();
    this.flights = new Map();
    this.wanted = [];
    this.need(this.root, 0);
    this.depart();
  }

  length(level) {
    return BUCKETS * 2 ** level;
  }

  // The level whose buckets are at most a pixel.
  level(nsPerPixel) {
    return Math.max(LEAST, Math.min(this.root, Math.floor(Math.log2(nsPerPixel))));
  }

  // Ask for what a view shows, then for what is beside and above it.
  look(t0, t1, nsPerPixel) {
    const level = this.level(nsPerPixel);
    const length = this.length(level);
    const last = Math.max(0, Math.ceil(this.end / length) - 1);
    const [from, to] = [Math.max(0, Math.floor(t0 / length)), Math.min(last, Math.floor(t1 / length))];
    this.wanted = [];
    for (let at = from; at <= to; at += 1) this.need(level, at);
    this.missing = this.wanted.length;
    if (from > 0) this.need(level, from - 1);
    if (to < last) this.need(level, to + 1);
    if (level < this.root) this.need(level + 1, Math.floor(((t0 + t1) / 2) / this.length(level + 1)));
    this.need(this.root, 0);
    clearTimeout(this.later);
    this.later = setTimeout(() => this.depart(), 30);
  }

  need(level, at) {
    const key = `${level}/${at}`;
    const tile = this.tiles.get(key);
    if (!tile) this.wanted.push({ key, level, at });
    else this.tiles.delete(key), this.tiles.set(key, tile); // the last to be let go
  }

  depart() {
    const keys = new Set(this.wanted.map(({ key }) => key));
    for (const [key, abort] of this.flights) {
      if (!keys.has(key)) this.flights.delete(key), abort.abort();
    }
    for (const each of this.wanted) {
      if (this.flights.size >= AT_ONCE) return;
      if (!this.flights.has(each.key) && !this.tiles.has(each.key)) this.fly(each);
    }
  }

  async fly({ key, level, at }) {
    const abort = new AbortController();
    this.flights.set(key, abort);
    const length = this.length(level);
    try {
      const answer = await this.fetch(at * length, (at + 1) * length, abort.signal);
      this.tiles.set(key, new Tile(level, at * length, (at + 1) * length, answer, this.names));
      this.wanted = this.wanted.filter((each) => each.key !== key);
      for (const old of this.tiles.keys()) {
        if (this.tiles.size <= KEPT) break;
        if (old !== `${this.root}/0`) this.tiles.delete(old);
      }
      this.changed();
    } catch (error) {
      if (!abort.signal.aborted) this.failed(error.message);
    } finally {
      if (this.flights.get(key) === abort) this.flights.delete(key);
      if (!abort.signal.aborted) this.depart();
    }
  }

  // What there is to draw of a stretch: [tile, from, to], the finest that is there of each part.
  *cover(t0, t1, nsPerPixel) {
    const level = this.level(nsPerPixel);
    const length = this.length(level);
    for (let at = Math.max(0, Math.floor(t0 / length)); at * length < Math.min(t1, this.end); at += 1) {
      yield* this.best(level, at, at * length, (at + 1) * length);
    }
  }

  *best(level, at, from, to) {
    const tile = this.tiles.get(`${level}/${at}`);
    if (tile) return void (yield [tile, from, to]);
    const half = (from + to) / 2;
    const below = [this.tiles.get(`${level - 1}/${2 * at}`), this.tiles.get(`${level - 1}/${2 * at + 1}`)];
    const above = this.above(level, at);
    for (const [child, since, until] of [[below[0], from, half], [below[1], half, to]]) {
      if (child ?? above) yield [child ?? above, since, until];
    }
  }

  above(level, at) {
    for (let up = level + 1; up <= this.root; up += 1) {
      const tile = this.tiles.get(`${up}/${Math.floor(at / 2 ** (up - level))}`);
      if (tile) return tile;
    }
    return null;
  }

  // Whether all that a view needs is there.
  whole(t0, t1, nsPerPixel) {
    const level = this.level(nsPerPixel);
    const parts = [...this.cover(t0, t1, nsPerPixel)];
    return parts.length > 0 && parts.every(([tile]) => tile.level === level);
  }
}

// Rectangles by lane, each lane's in the order of their colours: `style` is colour and shade.
class Tile {
  constructor(level, since, until, { events, bucket_ns }, names) {
    Object.assign(this, { level, since, until, bucket: bucket_ns, lanes: new Map() });
    const count = events.lane?.length ?? 0;
    const places = Uint32Array.from({ length: count }, (_, at) => at);
    const name = Uint32Array.from(events.name ?? [], (id) => names.index.get(id) ?? names.other);
    const style = Uint16Array.from(places, (at) => names.colour[name[at]] * SHADES + shade(events, at));
    const lane = events.lane ?? [];
    places.sort((a, b) => lane[a] - lane[b] || style[a] - style[b]);
    for (let first = 0; first < count; ) {
      let last = first;
      while (last < count && lane[places[last]] === lane[places[first]]) last += 1;
      this.lanes.set(lane[places[first]], taken(events, name, style, places.subarray(first, last)));
      first = last;
    }
  }
}

function shade({ duration_ns, busy_ns, count }, at) {
  if (count[at] === 1 || !duration_ns[at]) return SHADES - 1;
  return Math.min(SHADES - 1, Math.floor((busy_ns[at] / duration_ns[at]) * SHADES));
}

function taken(events, name, style, places) {
  const pick = (kind, values) => kind.from(places, (at) => values[at]);
  return {
    length: places.length,
    depth: pick(Uint16Array, events.depth),
    start: pick(Float64Array, events.start_ns),
    duration: pick(Float64Array, events.duration_ns),
    busy: pick(Float64Array, events.busy_ns),
    count: pick(Uint32Array, events.count),
    name: pick(Uint32Array, name),
    style: pick(Uint16Array, style),
  };
}
