import { address, change, chosen, framed, panel } from "warpmeter-ui";
import { CHOSEN, PARTS, bar, legend, seconds, segments } from "warpmeter-ui/analysis.js";

export default {
  mixins: [panel],
  template: framed(
    `<template v-if="answer">
      <div class="wm-scroll" tabindex="0" role="region" :aria-label="title + ' (table)'"><table class="wm-table">
        <thead><tr><th scope="col">{{ answer.unit === 'step' ? 'A step of a rank' : 'The whole capture' }}</th><th scope="col" class="wm-hide-small"></th><th scope="col" class="wm-number">Whole</th><th v-for="part in parts" :key="part.name" scope="col" class="wm-number">{{ part.name }}</th></tr></thead>
        <tbody>
          <tr v-for="side in sides" :key="side.side">
            <td class="wm-wide-text"><a class="wm-cut" :title="side.capture_id" :href="side.href">{{ side.capture_id }}</a><small>&ensp;{{ side.words }}</small></td>
            <td class="wm-grow wm-hide-small">${bar("side.parts")}</td>
            <td class="wm-number">{{ side.whole }}</td>
            <td v-for="part in side.figures" :key="part.name" class="wm-number">{{ part.text }}</td>
          </tr>
          <tr><td>Change</td><td class="wm-hide-small"></td><td v-for="each in changes" :key="each.name" class="wm-number" :class="each.mood">{{ each.text }}<small v-if="each.share">&ensp;{{ each.share }}</small></td></tr>
        </tbody>
      </table></div>
      ${legend("parts")}
      <p v-if="answer.unit === 'capture'" class="wm-muted">Not both captures have steps: times are of the whole captures, whatever their length.</p>
    </template>`,
    `<a class="wm-action" :href="alone">Compare with nothing</a>`,
  ),
  data: () => ({ answer: null, parts: PARTS.map(([, name, colour]) => ({ name, colour })) }),
  computed: {
    alone() {
      return address("/analyze", chosen(["capture", ...CHOSEN]));
    },
    sides() {
      const most = Math.max(this.answer.before.span_seconds ?? 0, this.answer.after.span_seconds ?? 0);
      return [this.answer.before, this.answer.after].map((side) => ({
        ...side,
        href: address("/analyze", { capture: side.capture_id }),
        words: `${side.ranks} rank${side.ranks > 1 ? "s" : ""}${side.steps ? `, ${side.steps} steps in all` : ""}`,
        whole: seconds(side.span_seconds),
        figures: PARTS.map(([name, text]) => ({ name: text, text: seconds(side[`${name}_seconds`]) })),
        parts: segments(PARTS.map(([name, text, colour]) => ({ name: text, value: side[`${name}_seconds`] ?? 0, colour })), most),
      }));
    },
    changes() {
      return [["span", "whole"], ...PARTS].map(([name]) => {
        const [before, after] = [this.answer.before[`${name}_seconds`], this.answer.after[`${name}_seconds`]];
        if (before === null || after === null) return { name, text: "–" };
        const by = after - before;
        if (Math.abs(by) < 0.5e-9) return { name, text: "none" };
        const mood = Math.abs(by) <= 0.02 * before ? "" : by > 0 ? "wm-up" : "wm-down";
        return { name, mood, text: `${by < 0 ? "−" : "+"}${seconds(Math.abs(by))}`, share: before ? change(by / before) : "" };
      });
    },
  },
  methods: {
    draw(answer) {
      this.answer = answer;
    },
  },
};
