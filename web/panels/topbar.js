import { address, ask, choose, chosen, followTheme, missed, onChosen, theme, whoAmI } from "warpmeter-ui";

const LOOK_MS = 30e3;

export default {
  props: { links: Array, here: String },
  template: `
    <div class="wm-bar">
      <a class="wm-skip" href="#content">Skip to the content</a>
      <a class="wm-brand" :href="to('/')">warpmeter</a>
      <nav aria-label="Pages">
        <a v-for="link in links" :key="link.key" :href="to(link.path)" :aria-current="link.key === here ? 'page' : null">{{ link.name }}<span v-if="link.key === 'alerts' && firing" class="wm-badge" :class="urgent" :title="firing + ' fire, and nobody takes care of them'">{{ firing }}</span></a>
      </nav>
      <span class="wm-who" v-if="who.name" :title="'You are ' + who.name + ', a ' + who.role">{{ who.name }}<small> {{ who.role }}</small></span>
      <form v-if="who.by === 'cookie'" method="post" action="/logout"><button class="wm-quiet">Log out</button></form>
      <select class="wm-quiet" aria-label="Theme" :value="shown" @change="pick($event.target.value)">
        <option value="auto">Auto</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
      <p v-if="away" role="alert" class="wm-away-told"><b>{{ away.away === 'store' ? 'The store does not answer.' : 'warpmeter does not answer.' }}</b> It is asked again every few seconds; what is dimmed is from before. <small v-if="away.away === 'store'">{{ away.why }}</small></p>
    </div>`,
  data: () => ({ shown: theme(), who: {}, turn: 0, away: missed(), counts: {} }),
  computed: {
    firing() {
      const { critical = 0, warning = 0, info = 0 } = this.counts;
      return critical + warning + info;
    },
    urgent() {
      return this.counts.critical ? "wm-bad" : this.counts.warning ? "wm-warn" : "";
    },
  },
  mounted() {
    followTheme();
    this.leave = onChosen(null, () => {
      this.shown = theme();
      this.turn += 1;
    });
    this.miss = () => (this.away = missed());
    addEventListener("wm-away", this.miss);
    whoAmI().then((found) => (this.who = found));
    addEventListener("wm-alerts", this.count);
    this.counting = setInterval(() => document.hidden || chosen(["refresh"]).refresh === "off" || this.count(), LOOK_MS);
    this.count();
  },
  unmounted() {
    this.leave();
    removeEventListener("wm-away", this.miss);
    removeEventListener("wm-alerts", this.count);
    clearInterval(this.counting);
  },
  methods: {
    to(path) {
      return this.turn >= 0 && address(path);
    },
    // What it cannot learn now it says again when it can.
    async count() {
      this.counts = await ask("/api/v1/alerts/counts").catch(() => this.counts);
    },
    pick(name) {
      choose({ theme: name });
    },
  },
};
