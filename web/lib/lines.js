// The lines of charts of `/api/v1/series`: their names, and why there are none.

export function labelled(charts, names) {
  return charts.flatMap(({ series, unit }, at) => {
    const oneHost = new Set(series.map((each) => each.host)).size <= 1;
    const sorted = oneHost ? [...series].sort((a, b) => (a.gpu ?? 0) - (b.gpu ?? 0)) : series;
    return sorted.map((each) => {
      const own = label(each, oneHost);
      const name = [names[at], charts.length > 1 && series.length === 1 ? "" : own].filter(Boolean).join(" ") || own;
      const short = oneHost && series.length > 1 && each.gpu !== null && charts.length === 1 ? `${each.gpu}` : undefined;
      return { name, short, bold: names[at] === "fleet", host: each.host, job: each.job_id, gpu: each.gpu, values: each.values, unit };
    });
  });
}

function label({ key, host, gpu, device, kind }, oneHost) {
  if (device) return oneHost ? device : `${host}/${kind}/${device}`;
  if (gpu !== null && gpu !== undefined) return oneHost ? `GPU ${gpu}` : `${host}/${gpu}`;
  return key || host || "all";
}

// Which of the moments `times` (ascending) is nearest to `ms`.
export function nearest(times, ms) {
  let [low, high] = [0, times.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (times[middle] <= ms) low = middle;
    else high = middle;
  }
  return Math.abs(times[low] - ms) <= Math.abs(times[high] - ms) ? low : high;
}

// The last value that is known, of the last few: the newest step is still being filled.
export const latest = (values) => values.slice(-4).findLast((value) => value !== null);

export function range(lines) {
  let [least, most] = [Infinity, -Infinity];
  for (const { values } of lines) {
    for (const value of values) {
      if (value === null) continue;
      least = Math.min(least, value);
      most = Math.max(most, value);
    }
  }
  return [least, most];
}

const root = (metric) => metric.replace(/_(bytes_per_s|per_s|bytes|watts|celsius|hertz|joules)$/, "");

// Why nothing is known of what was asked, from the host's sources ({ source, subject, state, why }).
export function reasons(charts, sources, hint) {
  const roots = charts.map(({ metric }) => root(metric));
  const troubled = sources.filter(({ state }) => state !== "ok");
  const found = troubled.find(({ subject }) => roots.some((name) => subject.split("/").pop().startsWith(name)));
  if (found) return `${found.state}: ${found.why || `${found.source} gives no reason`}`;
  // A source that fails as a whole is the reason of its own metrics alone: the CPU's counters say nothing of a GPU.
  const ofGpus = charts.some(({ topic }) => topic === "gpu-samples");
  const whole = troubled.find(({ source, subject }) => !subject && (ofGpus ? source === "gpu" : !source.startsWith("gpu")));
  if (whole) return `${whole.source} ${whole.state}: ${whole.why || "no reason given"}`;
  return `Not measured in this window. ${hint}`.trim();
}
