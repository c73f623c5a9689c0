// Names of events: a readable short form, and the colour that each has everywhere.

export const HUES = 14;
const KINDS = { comm: HUES, copy: HUES + 1, call: HUES + 2, wait: HUES + 3, annotation: HUES + 4 };
export const COLOURS = HUES + 5;
export const SHADES = 4; // of a colour: how much of a merged rectangle's time something ran
const COMM = /nccl|rccl|cross_device_reduce/i;

// A kernel without its template arguments and parameters: what stands before them says what it is.
export function short(name) {
  let [text, depth] = ["", 0];
  for (const letter of name.replace(/^void /, "").replace(/\(anonymous namespace\)::/g, "")) {
    if (letter === "<" && text) depth += 1;
    else if (letter === ">" && depth) depth -= 1;
    else if (letter === "(" && !depth && text && /[\w>]$/.test(text) && !/^\S+\.py$/.test(text)) break;
    else if (!depth) text += letter;
  }
  const parts = text.split("::");
  return (parts.length > 2 && !name.startsWith("aten::") ? parts.slice(-2).join("::") : text) || name;
}

function hash(text) {
  let value = 2166136261;
  for (let at = 0; at < text.length; at += 1) value = Math.imul(value ^ text.charCodeAt(at), 16777619);
  return value >>> 0;
}

function colourOf(name, shortened, kind) {
  if (kind === "kernel" && COMM.test(name)) return KINDS.comm;
  if (kind === "memcpy" || kind === "memset") return KINDS.copy;
  return KINDS[kind] ?? hash(shortened) % HUES;
}

// All names of a trace by the number that stands for each: `index.get(id)` is a place in the lists.
export class Names {
  constructor({ id, name, kind }) {
    this.index = new Map(id.map((each, at) => [each, at]));
    [this.full, this.kind] = [[...name, "(one of very many names)"], [...kind, ""]];
    this.other = name.length;
    [name, kind] = [this.full, this.kind];
    this.short = name.map((each, at) => (kind[at] === "frame" ? each : short(each)));
    this.colour = Uint8Array.from(name, (each, at) => colourOf(each, this.short[at], kind[at]));
    this.dimmed = null;
  }

  // Let only names that `found` contains stay bright; null: all.
  light(found) {
    this.dimmed = found && Uint8Array.from(this.full, (name) => (found(name) ? 0 : 1));
  }
}

// Fill and text of each colour and shade, for dark pages or light ones.
export function palette(dark) {
  const hues = [210, 150, 28, 265, 185, 95, 340, 48, 235, 120, 10, 200, 290, 72];
  const special = [[315, 62], [42, 80], [215, 14], [0, 55], [250, 40]];
  const colours = [...hues.map((hue) => [hue, 48]), ...special];
  const back = dark ? [22, 26, 32] : [255, 255, 255];
  return colours.flatMap(([hue, saturation], at) => {
    const lightness = dark ? (at % 2 ? 40 : 45) : at % 2 ? 74 : 80;
    const full = rgb(hue, saturation, lightness);
    return [0.35, 0.55, 0.78, 1].map((share) => `rgb(${full.map((each, i) => Math.round(each * share + back[i] * (1 - share))).join(" ")})`);
  });
}

function rgb(hue, saturation, lightness) {
  const [s, l] = [saturation / 100, lightness / 100];
  const part = (n) => {
    const k = (n + hue / 30) % 12;
    return 255 * (l - s * Math.min(l, 1 - l) * Math.max(-1, Math.min(k - 3, 9 - k, 1)));
  };
  return [part(0), part(8), part(4)];
}
