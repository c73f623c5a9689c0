// Values as people read them: humanised by the unit that the metric table gives.

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const PREFIXES = ["", "k", "M", "G", "T", "P"];

export const isRatio = (unit) => unit === "%" || `${unit}`.startsWith("ratio");

function digits(value) {
  const size = Math.abs(value);
  if (size >= 100 || Number.isInteger(value)) return value.toFixed(0);
  return size >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function scaled(value, unit) {
  if (unit === "B") {
    const power = Math.min(BINARY.length - 1, Math.max(0, Math.floor(Math.log2(Math.abs(value) || 1) / 10)));
    return [value / 1024 ** power, BINARY[power]];
  }
  if (unit === "s") return seconds(value);
  if (!["W", "Hz", "J", "B/s", "bit/s", "FLOP", "FLOP/s", "1/s", "1", "ns", ""].includes(unit)) return [value, unit];
  const power = Math.min(PREFIXES.length - 1, Math.max(0, Math.floor(Math.log10(Math.abs(value) || 1) / 3)));
  const base = unit === "1" ? "" : unit === "1/s" ? "/s" : unit;
  return [value / 1000 ** power, `${PREFIXES[power]}${base}`];
}

function seconds(value) {
  const size = Math.abs(value);
  if (size === 0 || size >= 1) return size >= 7200 ? [value / 3600, "h"] : [value, "s"];
  if (size >= 1e-3) return [value * 1e3, "ms"];
  return size >= 1e-6 ? [value * 1e6, "µs"] : [value * 1e9, "ns"];
}

// A value in two parts, number and unit; an en dash for what is not known.
export function parts(value, unit = "1") {
  if (value === null || value === undefined || Number.isNaN(value)) return ["–", ""];
  if (isRatio(unit)) return [value === 0 ? "0" : digits(Math.round(value * 1000) / 10), "%"];
  const [number, name] = scaled(value, unit);
  return [digits(Math.round(number * 1000) / 1000), name];
}

export function show(value, unit) {
  const [number, name] = parts(value, unit);
  return name ? `${number}${name === "%" || name === "k" || name === "M" || name === "/s" ? "" : "\u202f"}${name}` : number;
}

// The unit as a title says it.
export function unitName(unit) {
  return isRatio(unit) ? "%" : unit === "1" || !unit ? "" : unit;
}

// A change as a share of what was: +12 %, −3 %.
export function change(share) {
  if (share === null || share === undefined || !Number.isFinite(share)) return "";
  const percent = Math.round(Math.abs(share) * 1000) / 10;
  if (!percent) return "±0\u202f%";
  return `${share < 0 ? "−" : "+"}${percent >= 10 ? Math.round(percent) : percent}\u202f%`;
}
