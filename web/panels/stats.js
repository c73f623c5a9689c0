import { change, panel, parts, show } from "warpmeter-ui";

export default {
  mixins: [panel],
  props: { tiles: Array },
  template: `
    <section class="wm-stats" :class="{ 'wm-away': away }" :aria-label="title" :aria-busy="busy">
      <h2 class="wm-hidden">{{ title }}</h2>
      <p v-if="error && !away" role="alert" class="wm-error">{{ error }}</p>
      <dl>
        <div v-for="each in figures" :key="each.name" class="wm-stat" :title="each.help">
          <dt>{{ each.name }}</dt>
          <dd><b>{{ each.number }}</b><span class="wm-unit">{{ each.unit }}</span></dd>
          <dd v-if="each.change" class="wm-change"><span aria-hidden="true">{{ each.up ? '▲' : each.down ? '▼' : '■' }}</span> {{ each.change }}<span class="wm-hidden"> against the window before</span></dd>
          <dd v-else class="wm-change">{{ each.note || '\\u00a0' }}</dd>
        </div>
      </dl>
    </section>`,
  data: () => ({ answer: null }),
  computed: {
    figures() {
      return this.tiles.map((tile) => this.figure(tile));
    },
  },
  methods: {
    draw(answer) {
      this.answer = answer;
    },
    figure({ field, name, unit, note, note_unit: noteUnit }) {
      const metric = this.answer?.metrics?.find((each) => each.metric === field);
      const [number, word] = parts(metric ? metric.mean : this.answer?.[field], metric?.unit ?? unit);
      const told = note && this.answer?.[note] !== null && this.answer?.[note] !== undefined ? `${show(this.answer[note], noteUnit)} ${note.split("_")[0]}` : "";
      if (!metric) return { name, number, unit: word, note: told };
      const share = metric.before && metric.mean !== null ? metric.mean / metric.before - 1 : null;
      return {
        name, number, unit: word, change: change(share), up: share >= 0.001, down: share <= -0.001,
        help: `p50 ${show(metric.p50, metric.unit)}, p95 ${show(metric.p95, metric.unit)}; before: ${show(metric.before, metric.unit)}`,
      };
    },
  },
};
