import { clock, framed, instant, jobAddress, panel, span } from "warpmeter-ui";
import { onCross } from "warpmeter-ui/plot.js";

export default {
  mixins: [panel],
  template: framed(`
    <p v-if="!busy && !bars.length && !error" class="wm-empty">No job ran here in this window.</p>
    <div ref="band" class="wm-band" :style="{ height: Math.max(lanes, 1) * 22 + 'px' }">
      <a v-for="bar in bars" :key="bar.key" :href="bar.href" :title="bar.title" :style="bar.style"><span>{{ bar.name }}</span></a>
      <div ref="line" class="wm-cross" hidden></div>
    </div>
    <div class="wm-axis"><span v-for="tick in ticks" :key="tick">{{ tick }}</span></div>`),
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
      const jobs = (answer.data ?? answer).map((each) => ({ ...each, begin: Math.max(since, Date.parse(each.from)), end: Math.min(until, each.until ? Date.parse(each.until) : until) }));
      this.bars = jobs.filter(({ begin, end }) => end > begin).sort((a, b) => a.begin - b.begin).map((each, at) => this.bar(each, at, ends));
      this.lanes = ends.length;
    },
    bar(job, at, ends) {
      const free = ends.findIndex((end) => end <= job.begin);
      const lane = free < 0 ? ends.length : free;
      ends[lane] = job.end;
      const share = (ms) => ((ms - this.since) / (this.until - this.since)) * 100;
      const name = job.name || job.job_id;
      return {
        key: at, name, href: jobAddress(job.job_id), title: `${name}, job ${job.job_id}\n${instant(Date.parse(job.from))} – ${job.until ? instant(Date.parse(job.until)) : "runs"}`,
        style: { left: `${share(job.begin)}%`, width: `max(3px, ${share(job.end) - share(job.begin)}%)`, top: `${lane * 22}px`, "--wm-hue": `var(--wm-${(hash(job.job_id) % 8) + 1})` },
      };
    },
    stand(ms) {
      const { line, band } = this.$refs;
      line.hidden = ms === null || ms < this.since || ms > this.until;
      if (!line.hidden) line.style.transform = `translateX(${((ms - this.since) / (this.until - this.since)) * band.clientWidth}px)`;
    },
  },
};

const hash = (text) => [...text].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) >>> 0, 7);
