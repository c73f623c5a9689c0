// How much, as people read it.

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const TIMES = [[3600e6, "h"], [60e6, "min"], [1e6, "s"], [1e3, "ms"], [1, "µs"]];

const digits = (value) => (value >= 100 || Number.isInteger(value) ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2));

export function amount(value, unit) {
  if (unit === "bytes") {
    const power = Math.min(BINARY.length - 1, Math.max(0, Math.floor(Math.log2(value || 1) / 10)));
    return `${digits(value / 1024 ** power)}\u202f${BINARY[power]}`;
  }
  if (unit !== "microseconds") return value.toLocaleString("en");
  if (!value) return "0\u202fs";
  const [least, name] = TIMES.find(([size]) => value >= (size === 60e6 ? 2 * size : size)) ?? TIMES.at(-1);
  return `${digits(value / least)}\u202f${name}`;
}

export function percent(share) {
  const found = share * 100;
  if (found && found < 0.01) return "<0.01\u202f%";
  return `${found === 0 || found >= 99.95 ? found.toFixed(0) : found >= 10 ? found.toFixed(1) : found.toFixed(2)}\u202f%`;
}

// A change of a share, in points of percent.
export function points(change) {
  const found = Math.abs(change * 100);
  if (found < 0.005) return "±0";
  return `${change < 0 ? "−" : "+"}${found >= 10 ? found.toFixed(1) : found.toFixed(2)}`;
}
