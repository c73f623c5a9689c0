import { choose, chosen, onChosen, panel } from "warpmeter-ui";

const STATES = [["busy", "good"], ["idle", "warn"], ["failing", "bad"], ["gone", "none"]];

export default {
  mixins: [panel],
  template: `
    <section class="wm-states" :class="{ 'wm-away': away }" :aria-label="title" :aria-busy="busy">
      <h2 class="wm-hidden">{{ title }}</h2>
      <p v-if="error && !away" role="alert" class="wm-error">{{ error }}</p>
      <div class="wm-share" aria-hidden="true"><i v-for="[name, mood] in states" v-show="counts[name]" :key="name" :class="'wm-' + mood" :style="{ flexGrow: counts[name] || 0 }"></i></div>
      <div class="wm-state-buttons" role="group" aria-label="Show only hosts and jobs with GPUs that are…">
        <button v-for="[name, mood] in states" :key="name" type="button" :aria-pressed="state === name" @click="pick(name)"><span class="wm-tag" :class="'wm-' + mood"></span><b>{{ counts[name] ?? '–' }}</b> {{ name }}</button>
        <span class="wm-muted">of {{ counts.total ?? '–' }} {{ counts.total === 1 ? 'GPU' : 'GPUs' }}</span>
      </div>
    </section>`,
  data: () => ({ states: STATES, counts: {}, state: chosen(["gpus"]).gpus }),
  mounted() {
    this.unchosen = onChosen(["gpus"], () => (this.state = chosen(["gpus"]).gpus));
  },
  beforeUnmount() {
    this.unchosen();
  },
  methods: {
    draw(answer) {
      this.counts = answer;
    },
    pick(name) {
      choose({ gpus: this.state === name ? null : name, "hosts.page": null, "jobs.page": null }, { push: true });
    },
  },
};
