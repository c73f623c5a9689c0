import { ago, framed, panel } from "warpmeter-ui";
import { mood } from "warpmeter-ui/cells.js";

// The same complaint about many subjects (eight GPUs without a fan) is one row.
function grouped(rows) {
  const groups = new Map();
  for (const row of rows) {
    const what = row.source === "stacks" ? row.subject : row.subject.split("/").pop(); // of a device its column
    const key = [row.source, what, row.state, row.why, row.silent].join("\u0000");
    const group = groups.get(key) ?? { ...row, what, subjects: [] };
    group.subjects.push(row.subject);
    groups.set(key, group);
  }
  return [...groups.values()].sort((a, b) => a.silent - b.silent || (a.state === "ok") - (b.state === "ok") || a.source.localeCompare(b.source));
}

export default {
  mixins: [panel],
  template: framed(`
    <p v-if="!busy && !rows.length && !error" class="wm-empty">The agent of this host has told nothing of its sources. Is it running, and of this version?</p>
    <div v-else class="wm-scroll" tabindex="0" role="region" :aria-label="title + ' (table)'"><table class="wm-table">
      <thead><tr><th scope="col">Source</th><th scope="col">What</th><th scope="col">State</th><th scope="col">Why</th><th scope="col">Told</th></tr></thead>
      <tbody><tr v-for="row in rows" :key="row.source + row.what + row.state + row.why + row.silent">
        <td>{{ row.source }}</td>
        <td><span class="wm-cut" :title="row.what">{{ row.what || 'all of it' }}</span><small v-if="row.subjects.length > 1" :title="row.subjects.join('\\n')"> {{ row.subjects.length }} times</small></td>
        <td><span class="wm-tag" :class="'wm-' + mood(row.state)">{{ row.state }}</span><small v-if="row.silent"> then, and not told again</small></td>
        <td class="wm-why">{{ row.why }}</td>
        <td class="wm-muted">{{ since(row) }}</td>
      </tr></tbody>
    </table></div>`),
  data: () => ({ rows: [] }),
  methods: {
    mood,
    since: ({ last_seen_at: at }) => (at ? ago(Date.parse(at)) : ""),
    draw(answer) {
      this.rows = grouped(answer.data ?? answer);
    },
  },
};
