// Asks what a page's panels will ask while the libraries that draw the answers are still on their way.

import { chosen } from "./address.js";
import { addressOf, sendAhead } from "./asking.js";
import { asked, shown } from "./listed.js";

const ROOM = 900; // pixels that a window must be wide for all of them to be in sight
const FEW = 3;

const known = Object.keys(chosen(["since", "until"])).length > 0;
const told = JSON.parse(document.getElementById("wm-early").textContent).filter(({ waits }) => known || !waits);
const seen = innerWidth < ROOM ? told.slice(0, FEW) : told;
for (const { source, follows, table, choices, sort, limit } of seen) {
  const sources = table ? [asked(source, limit, shown({ table, choices, sort, limit }))] : [source].flat();
  for (const each of new Set(sources)) sendAhead(`${addressOf(each, chosen(follows))}`);
}
