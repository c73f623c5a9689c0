import { duration, framed, instant, look, now, panel } from "warpmeter-ui";

const FIRST = 12;
const AROUND_MS = 10 * 60e3;
const MOODS = { xid: "bad", lost: "bad", gone: "bad", gpu_lost: "bad", ecc: "bad", throttle: "warn", source: "none" };

export default {
  mixins: [panel],
  template: framed(`
    <p v-if="!busy && !events.length && !error" class="wm-empty">Nothing happened here in this window: no XID, no throttling, no lost GPU, no source that failed.</p>
    <div v-else class="wm-scroll"><table class="wm-table">
      <thead><tr><th scope="col">When</th><th scope="col">What</th><th scope="col">GPU</th><th scope="col">Told</th><th scope="col">For</th></tr></thead>
      <tbody><tr v-for="(each, at) in events.slice(0, shown)" :key="at">
        <td><button type="button" class="wm-link" title="Look at the minutes around it" @click="around(each)">{{ time(each.at) }}</button></td>
        <td><span class="wm-tag" :class="'wm-' + (moods[each.kind] ?? 'none')">{{ each.kind }}</span></td>
        <td>{{ each.gpu ?? '' }}</td>
        <td class="wm-why">{{ [each.what, each.why].filter(Boolean).join(': ') }}</td>
        <td class="wm-number">{{ length(each) }}</td>
      </tr></tbody>
    </table></div>
    <button v-if="events.length > shown" type="button" class="wm-link" @click="shown = events.length">All {{ events.length }}</button>`),
  data: () => ({ events: [], shown: FIRST, moods: MOODS }),
  methods: {
    draw(answer) {
      this.events = answer.data ?? answer;
    },
    time: (at) => instant(Date.parse(at)),
    length: ({ at, until }) => (until ? duration((Date.parse(until) - Date.parse(at)) / 1e3) : "lasts"),
    around({ at, until }) {
      look(Date.parse(at) - AROUND_MS, Math.min(now(), Date.parse(until ?? at) + AROUND_MS));
    },
  },
};
