// A heatmap's arithmetic: thousands of rows into the pixels there are, values into colours.

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

// Rows `order[first…last)` averaged into `bands` bands of `columns` values; NaN where nothing is known.
export function bands(values, order, first, last, count, columns) {
  const [sums, known] = [new Float64Array(count * columns), new Uint16Array(count * columns)];
  for (let row = first; row < last; row += 1) {
    const base = Math.floor(((row - first) * count) / (last - first)) * columns;
    const cells = values[order[row]];
    for (let x = 0; x < columns; x += 1) {
      const value = cells[x];
      if (value === null || value === undefined) continue;
      sums[base + x] += value;
      known[base + x] += 1;
    }
  }
  return Float32Array.from(sums, (sum, at) => (known[at] ? sum / known[at] : NaN));
}

// What the colours span: all of a ratio, else from the least to the most that is seen.
export function extent(values, unit) {
  if (isRatio(unit)) return [0, 1];
  let [least, most] = [Infinity, -Infinity];
  for (const row of values) {
    for (const value of row) {
      if (value === null) continue;
      if (value < least) least = value;
      if (value > most) most = value;
    }
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

const mean = (row) => {
  let [sum, known] = [0, 0];
  for (const value of row) if (value !== null) [sum, known] = [sum + value, known + 1];
  return known ? sum / known : -Infinity;
};

// The order of rows: as they came (by host and GPU), by mean value, or by job.
export function ordered({ values, job_id: jobs }, by) {
  const order = Array.from(values, (_, at) => at);
  if (by === "value") {
    const means = values.map(mean);
    order.sort((a, b) => means[b] - means[a]);
  } else if (by === "job" && jobs) {
    order.sort((a, b) => (jobs[a] || "\uffff").localeCompare(jobs[b] || "\uffff") || a - b);
  }
  return order;
}
