import { clock, framed, instant, jobAddress, panel, span } from "warpmeter-ui";
import { onCross } from "warpmeter-ui/plot.js";

export default {
  mixins: [panel],
  props: { of: String },
  template: framed(`
    <p v-if="!busy && !bars.length && !error" class="wm-muted wm-tight">{{ of === 'jobs' ? 'No job ran here in this window.' : 'No GPU was throttled in this window.' }}</p>
    <div v-show="bars.length || busy" ref="band" class="wm-band" :style="{ height: Math.max(lanes, 1) * 22 + 'px' }">
      <component :is="bar.href ? 'a' : 'span'" v-for="bar in bars" :key="bar.key" :href="bar.href" :title="bar.title" :style="bar.style">{{ bar.name }}</component>
      <div ref="line" class="wm-cross" hidden></div>
    </div>
    <div v-show="bars.length || busy" class="wm-axis"><span v-for="tick in ticks" :key="tick">{{ tick }}</span></div>`),
  data: () => ({ bars: [], lanes: 1, ticks: [] }),
  mounted() {
    this.uncross = onCross((ms) => this.stand(ms));
  },
  beforeUnmount() {
    this.uncross();
  },
  methods: {
    draw(answer) {
      const { since, until } = span();
      [this.since, this.until] = [since, until];
      this.ticks = [0, 1, 2, 3, 4].map((at) => clock(since + ((until - since) * at) / 4, until - since));
      const ends = [];
      const jobs = (this.of === "jobs" ? answer.data : throttled(answer.data)).map((each) => ({ ...each, begin: Math.max(since, Date.parse(each.from)), end: Math.min(until, each.until ? Date.parse(each.until) : until) }));
      this.bars = jobs.filter(({ begin, end }) => end > begin).sort((a, b) => a.begin - b.begin).map((each, at) => this.bar(each, at, ends));
      this.lanes = ends.length;
    },
    bar(job, at, ends) {
      const free = job.lane ?? ends.findIndex((end) => end <= job.begin);
      const lane = free < 0 ? ends.length : free;
      ends[lane] = job.end;
      const share = (ms) => ((ms - this.since) / (this.until - this.since)) * 100;
      const name = job.name || job.job_id;
      return {
        key: at, name, href: job.job_id && jobAddress(job.job_id), title: `${job.told ?? `${name}, job ${job.job_id}`}\n${instant(Date.parse(job.from))} – ${job.until ? instant(Date.parse(job.until)) : "now"}`,
        style: { left: `${share(job.begin)}%`, width: `max(3px, ${share(job.end) - share(job.begin)}%)`, top: `${lane * 22}px`, "--wm-hue": job.job_id ? `var(--wm-${(hash(job.job_id) % 8) + 1})` : "var(--wm-warn)" },
      };
    },
    stand(ms) {
      const { line, band } = this.$refs;
      line.hidden = ms === null || ms < this.since || ms > this.until;
      if (!line.hidden) line.style.transform = `translateX(${((ms - this.since) / (this.until - this.since)) * band.clientWidth}px)`;
    },
  },
};

// Events of throttling as bars, a lane a GPU.
function throttled(events) {
  const found = events.filter(({ kind }) => kind === "throttle");
  const gpus = [...new Set(found.map(({ gpu }) => gpu))].sort((a, b) => a - b);
  return found.map(({ at, until, gpu, what, why }) => ({
    from: at, until, name: `GPU ${gpu} ${why || what}`, told: `GPU ${gpu}: ${[what, why].filter(Boolean).join(", ")}`, lane: gpus.indexOf(gpu),
  }));
}

const hash = (text) => [...text].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) >>> 0, 7);
