// Times of a timeline: whole nanoseconds from the first event, written as people read them.

const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
const SPACE = "\u202f";

// A length: 1.234 ms, 12 ns.
export function length(ns) {
  const [size, unit] = UNITS.find(([size]) => Math.abs(ns) >= size) ?? UNITS[3];
  const value = ns / size;
  return `${unit === "ns" ? Math.round(value) : value.toFixed(Math.abs(value) >= 100 ? 1 : Math.abs(value) >= 10 ? 2 : 3)}${SPACE}${unit}`;
}

// A moment, to the nanosecond where it is short: 1.234567 s.
export function moment(ns) {
  const [size, unit] = UNITS.find(([size]) => Math.abs(ns) >= size) ?? UNITS[3];
  return `${(ns / size).toFixed(unit === "s" ? 6 : unit === "ms" ? 4 : unit === "µs" ? 3 : 0)}${SPACE}${unit}`;
}

// Where lines of the ruler stand, about `gap` pixels apart. Deep in a long trace they count from the line before the
// left edge, which is written in full.
export function ruler(t0, t1, width, gap = 110) {
  const rough = ((t1 - t0) / width) * gap;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough) ?? rough;
  const first = Math.ceil(t0 / step) * step;
  const base = step * 1e4 < t0 ? Math.floor(t0 / (step * 100)) * step * 100 : 0;
  const [size, unit] = UNITS.find(([size]) => Math.max(step * 10, base ? step * 10 : t1 / 20) >= size) ?? UNITS[3];
  const digits = Math.max(0, Math.ceil(Math.log10(size / step) - 1e-9));
  const lines = [];
  for (let at = first; at <= t1; at += step) {
    lines.push({ at, text: `${base ? "+" : ""}${((at - base) / size).toFixed(Math.min(digits, 9))}${SPACE}${unit}` });
  }
  return { step, base, lines };
}
