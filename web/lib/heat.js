// A heatmap's arithmetic: thousands of rows into the pixels there are, values into colours.

import { addressOf, failure, fetched } from "./asking.js";
import { isRatio } from "./units.js";

const DARK = ["#1d2430", "#1b3d55", "#1d6376", "#318c82", "#79b87a", "#d6da78"];
const LIGHT = ["#e9eef5", "#bcd6ea", "#7fb6db", "#3f8cc4", "#1c5fa0", "#0b2f5f"];
const STEPS = 256;

const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

// 256 colours from the least to the most, as 32-bit words of an ImageData.
export function palette(dark) {
  const stops = (dark ? DARK : LIGHT).map(rgb);
  return Uint32Array.from({ length: STEPS }, (_, at) => {
    const place = (at / (STEPS - 1)) * (stops.length - 1);
    const [low, part] = [Math.min(Math.floor(place), stops.length - 2), place - Math.min(Math.floor(place), stops.length - 2)];
    const [r, g, b] = [0, 1, 2].map((i) => Math.round(stops[low][i] * (1 - part) + stops[low + 1][i] * part));
    return (255 << 24) | (b << 16) | (g << 8) | r;
  });
}

export const gradient = (dark) => `linear-gradient(to right, ${(dark ? DARK : LIGHT).join(", ")})`;

// Asks for a heatmap as `ask` does, and has a worker read it: `{ …, columns, width, cells }`, the cells in one flat array.
let worker;
const waiting = new Map();
let count = 0;

export async function askHeat(source, parameters, { signal }) {
  worker ??= listened(new Worker(new URL("./heat-worker.js", import.meta.url), { type: "module" }));
  const reply = await fetched(`${addressOf(source, parameters)}`, { signal, priority: "low", headers: { accept: "application/json" } });
  if (!reply.ok) throw failure(reply.status, await reply.json().catch(() => ({})), reply.statusText);
  const [id, bytes] = [(count += 1), await reply.arrayBuffer()];
  return new Promise((resolve) => {
    waiting.set(id, resolve);
    worker.postMessage({ id, bytes }, [bytes]);
  });
}

function listened(made) {
  made.onmessage = ({ data: { id, answer } }) => {
    waiting.get(id)(answer);
    waiting.delete(id);
  };
  return made;
}

// Rows `order[first…last)` averaged into `count` bands of `width` values; NaN where nothing is known.
export function bands({ cells, width }, order, first, last, count) {
  const [sums, known] = [new Float64Array(count * width), new Uint16Array(count * width)];
  for (let row = first; row < last; row += 1) {
    const [band, from] = [Math.floor(((row - first) * count) / (last - first)) * width, order[row] * width];
    for (let x = 0; x < width; x += 1) {
      const value = cells[from + x];
      if (Number.isNaN(value)) continue;
      sums[band + x] += value;
      known[band + x] += 1;
    }
  }
  return Float32Array.from(sums, (sum, at) => (known[at] ? sum / known[at] : NaN));
}

// What the colours span: all of a ratio, else from the least to the most that is seen.
export function extent(cells, unit) {
  if (isRatio(unit)) return [0, 1];
  let [least, most] = [Infinity, -Infinity];
  for (const value of cells) {
    if (value < least) least = value;
    if (value > most) most = value;
  }
  if (least > most) return [0, 1];
  return least === most ? [Math.min(0, least), most || 1] : [least, most];
}

// The picture, one pixel a cell.
export function picture(cells, columns, rows, [least, most], colours) {
  const image = new ImageData(columns, rows);
  const words = new Uint32Array(image.data.buffer);
  const factor = (STEPS - 1) / (most - least);
  for (let at = 0; at < cells.length; at += 1) {
    const value = cells[at];
    if (Number.isNaN(value)) continue;
    words[at] = colours[Math.max(0, Math.min(STEPS - 1, Math.round((value - least) * factor)))];
  }
  return image;
}

function mean({ cells, width }, row) {
  let [sum, known] = [0, 0];
  for (let at = row * width; at < (row + 1) * width; at += 1) {
    if (!Number.isNaN(cells[at])) [sum, known] = [sum + cells[at], known + 1];
  }
  return known ? sum / known : -Infinity;
}

// The order of rows: as they came (by host and GPU), by mean value, or by job.
export function ordered(answer, by) {
  const { host, job_id: jobs } = answer.columns;
  const order = Array.from(host, (_, at) => at);
  if (by === "value") {
    const means = order.map((row) => mean(answer, row));
    order.sort((a, b) => means[b] - means[a]);
  } else if (by === "job" && jobs) {
    order.sort((a, b) => (jobs[a] || "\uffff").localeCompare(jobs[b] || "\uffff") || a - b);
  }
  return order;
}
