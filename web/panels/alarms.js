import { address, choose, chosen, onChosen, panel } from "warpmeter-ui";
import { mood } from "warpmeter-ui/cells.js";

const SEVERITIES = ["critical", "warning", "info"];
const HERE = "/alerts";

export default {
  mixins: [panel],
  template: `
    <section class="wm-alarms" :class="{ 'wm-away': away }" :aria-label="title" :aria-busy="busy">
      <h2 class="wm-hidden">{{ title }}</h2>
      <p v-if="error && !away" role="alert" class="wm-error">{{ error }}</p>
      <button v-for="name in severities" :key="name" type="button" :aria-pressed="severity === name" :title="'Alerts of severity ' + name + ' that fire'" @click="pick(name)"><span class="wm-tag" :class="'wm-' + (counts[name] ? mood(name) : 'none')"></span><b>{{ counts[name] ?? '–' }}</b> {{ name }}</button>
      <span class="wm-muted">{{ rest }}</span>
    </section>`,
  data: () => ({ severities: SEVERITIES, counts: {}, severity: chosen(["alerts.severity"])["alerts.severity"] }),
  computed: {
    rest() {
      const { handled, pending } = this.counts;
      const said = [handled ? `${handled} taken care of or silenced` : "", pending ? `${pending} pending` : ""].filter(Boolean);
      return said.length ? `and ${said.join(", ")}` : "alerts that fire";
    },
  },
  mounted() {
    this.look = () => this.leave.again();
    addEventListener("wm-alerts", this.look);
    this.unchosen = onChosen(["alerts.severity"], () => (this.severity = chosen(["alerts.severity"])["alerts.severity"]));
  },
  beforeUnmount() {
    removeEventListener("wm-alerts", this.look);
    this.unchosen();
  },
  methods: {
    mood,
    draw(answer) {
      this.counts = answer;
    },
    pick(name) {
      if (location.pathname === HERE) choose({ "alerts.severity": this.severity === name ? null : name, "alerts.page": null }, { push: true });
      else location.assign(address(HERE, { "alerts.severity": name, "alerts.state": "firing" }));
    },
  },
};
