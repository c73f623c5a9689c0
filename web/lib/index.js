// What panels share: `import { … } from "warpmeter-ui"`.

export { CARRIED, address, choose, chosen, hostAddress, jobAddress, onChosen } from "./address.js";
export { addressOf, ask, failure, follow, hold, send, whoAmI } from "./asking.js";
export { missed, wait } from "./away.js";
export { framed, panel } from "./panel.js";
export { colour, follow as followTheme, isDark, theme } from "./theme.js";
export { ago, clock, duration, instant, look, moment, now, span, stretch, zone } from "./times.js";
export { change, isRatio, parts, show, unitName } from "./units.js";
