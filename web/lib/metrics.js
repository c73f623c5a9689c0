// The metric table, asked for once a page: what can be chosen, and each metric's unit and meaning.

import { ask } from "./asking.js";

const COMMON = ["gpu_util", "sm_active", "tensor_active", "dram_active", "fb_used_bytes", "power_watts", "temperature_celsius", "sm_clock_hertz"];
let table;

const all = () => (table ??= ask("/api/v1/metrics").then(({ data }) => data));

// Metrics of `topic` that are kept for long and have a mean, as a set of bits has none; the common ones first.
export async function metrics(topic) {
  const found = await all().catch(() => COMMON.map((name) => ({ name, topic: "gpu-samples", rolled_up: true })));
  const place = ({ name }) => (COMMON.includes(name) ? COMMON.indexOf(name) : COMMON.length);
  return found.filter((each) => each.topic === topic && each.rolled_up && each.kind !== "bits").sort((a, b) => place(a) - place(b));
}
