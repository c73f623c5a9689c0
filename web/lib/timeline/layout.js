// Where lanes stand: groups of streams, threads and Python calls, each of which can be folded away.

const ROW = 17;
const STREAM_ROW = 24;
const FOLDED = 18;
const GROUP = 22;
const GAP = 5;
export const GROUPS = { stream: "GPU streams", waits: "GPU waits", thread: "CPU threads", python: "Python calls" };

// Lanes of an answer, as objects with a name.
export function lanesOf(columns) {
  return columns.lane.map((lane, at) => {
    const each = Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, values[at]]));
    const thread = each.thread_name?.replace(/^thread (-?\d+) \((.*)\)$/, "$2") || "thread";
    const place = each.sort === "stream" || each.sort === "waits" ? `GPU ${each.device ?? "?"} · stream ${each.stream}` : `${thread} ${each.thread.split("/").pop()}`;
    return { ...each, lane, title: place, key: `${each.sort}:${each.sort === "stream" || each.sort === "waits" ? `${each.device}/${each.stream}` : each.thread}` };
  });
}

// Rows from top to bottom: heads of groups and lanes, with `y` and `height`; `folded` are keys of groups and lanes.
export function layout(lanes, folded) {
  const rows = [];
  let y = 0;
  for (const [sort, title] of Object.entries(GROUPS)) {
    const members = lanes.filter((each) => each.sort === sort);
    if (!members.length) continue;
    const closed = folded.has(sort);
    rows.push({ group: sort, title, count: members.length, y, height: GROUP, closed });
    y += GROUP;
    if (closed) continue;
    for (const lane of members) {
      const small = folded.has(lane.key) && lane.depths > 1;
      const row = sort === "stream" && lane.depths === 1 ? STREAM_ROW : ROW;
      const step = small ? FOLDED / lane.depths : row;
      const height = small ? FOLDED : row * lane.depths;
      rows.push({ lane, y: y + 2, height, step, small });
      y += height + GAP;
    }
  }
  return { rows, height: y + 8, byLane: new Map(rows.filter((row) => row.lane).map((row) => [row.lane.lane, row])) };
}

// What is folded before anybody chose: Python calls and waits, for they are many.
export function foldedAtFirst(lanes) {
  const many = lanes.filter(({ sort }) => sort === "thread").slice(6).map(({ key }) => key);
  return new Set([...many, ...lanes.filter(({ sort }) => sort === "python" || sort === "waits").map(({ key }) => key)]);
}
