import { echarts } from "nicegui-echart";
import { follow } from "warpmeter-ui";

export default {
  props: { source: String, title: String, follows: Array },
  template: `<section class="wm-panel"><h2>{{ title }}</h2><p v-if="error" role="alert">{{ error }}</p><div ref="chart" class="wm-chart"></div></section>`,
  data: () => ({ error: "" }),
  mounted() {
    this.chart = echarts.init(this.$refs.chart);
    this.leave = follow(this.source, this.follows, (answer) => this.draw(answer), (error) => (this.error = error));
  },
  unmounted() {
    this.leave();
    this.chart.dispose();
  },
  methods: {
    draw({ host, gpu, values }) {
      this.error = "";
      const cells = values.flatMap((row, y) => row.map((value, x) => [x, y, value]));
      this.chart.setOption({
        xAxis: { type: "category" },
        yAxis: { type: "category", data: host.map((name, i) => `${name}/${gpu[i]}`) },
        visualMap: { min: 0, max: 1, show: false },
        series: [{ type: "heatmap", data: cells, progressive: 0 }],
      });
    },
  },
};
