// What panels share: a frame with a heading, a place for an error, and following the address.

import { follow } from "./asking.js";

// Around a panel's own template. `tools` stands at the right of the heading.
export const framed = (body, tools = "") => `
  <section class="wm-panel" :class="{ 'wm-busy': busy, 'wm-missing': missing, 'wm-nothing': nothing, 'wm-away': away }" :aria-busy="busy" :aria-label="title">
    <header class="wm-panel-head">
      <h2>{{ title }}<small v-if="unit"> {{ unit }}</small></h2>
      <div class="wm-tools">${tools}</div>
    </header>
    <p v-if="error && !away" role="alert" class="wm-error">{{ error }}</p>
    ${body}
  </section>`;

// While nobody answers a panel keeps what it showed, dimmed; the page's bar says so for all.
// Of an `essential` panel nothing else of the page is shown where the API knows nothing of what it is about.
// A mixin: `draw(answer, …)` of the component gets what `source` (an address, or several) answers.
export const panel = {
  props: { source: [String, Array], title: String, follows: Array },
  data: () => ({ error: "", away: false, busy: true, missing: false, nothing: false, unit: "" }),
  mounted() {
    this.leave = follow(
      this.asked ?? this.source,
      this.follows,
      (...answers) => {
        this.error = "";
        this.away = this.missing = false;
        this.busy = false;
        this.draw(...answers);
      },
      (message, error) => {
        this.error = message;
        this.away = Boolean(error.away);
        this.missing = Boolean(this.$options.essential) && error.status === 404;
        this.busy = false;
      },
      { element: this.$el, begin: () => (this.busy = true), by: this.$options.by },
    );
  },
  beforeUnmount() {
    this.leave?.();
  },
};
