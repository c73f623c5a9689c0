// What the panels of an analysed capture share: the parts of time and their colours, and links to the timeline.

import { address, chosen } from "./address.js";
import { show } from "./units.js";

export const CHOSEN = ["rank", "process", "sequence"];

// Parts of a span that add up to it: field, name, colour.
export const PARTS = [
  ["compute", "computation", "--wm-1"],
  ["exposed_comm", "communication alone", "--wm-2"],
  ["exposed_mem", "copies alone", "--wm-4"],
  ["idle", "idle", "--wm-idle"],
];

export const seconds = (value) => show(value, "s");
export const share = (part, whole) => (whole && part !== null && part !== undefined ? show(part / whole, "ratio") : "–");

// Segments of a bar of which `whole` is the full width: { name, value, colour, title, width }.
export function segments(parts, whole) {
  return parts
    .filter(({ value }) => value > 0)
    .map((part) => ({ ...part, title: `${part.name}: ${seconds(part.value)} (${share(part.value, whole)})`, width: `${Math.min(100, (100 * part.value) / (whole || 1))}%` }));
}

// A bar's template; `parts` is the name of what holds its segments, `label` says it in words.
export const bar = (parts, label = "''") => `
  <div class="wm-parts" role="img" :aria-label="${label} || ${parts}.map(({ title }) => title).join(', ')">
    <i v-for="part in ${parts}" :key="part.name" :title="part.title" :style="{ width: part.width, background: 'var(' + part.colour + ')' }"></i>
  </div>`;

export const legend = (parts) => `
  <ul class="wm-legend"><li v-for="part in ${parts}" :key="part.name"><i class="wm-swatch" :style="{ background: 'var(' + part.colour + ')' }"></i>{{ part.name }}</li></ul>`;

// The timeline of a rank of this page's capture.
export function timelineAddress(more = {}) {
  const { capture, rank, process, sequence } = chosen(["capture", ...CHOSEN]);
  return address("/timeline", { capture, rank, process, sequence, ...more });
}
