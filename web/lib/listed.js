// What the address says of a table, and what the table asks its list for.

import { chosen } from "./address.js";

// Its first row, search, order and filters; its parameters in the address begin with `table`.
export function shown({ table, choices, sort, limit }) {
  const given = (part) => chosen([`${table}.${part}`])[`${table}.${part}`];
  return {
    first: Math.max(0, parseInt(given("page") ?? "0", 10) || 0) * limit,
    sought: given("search") ?? "",
    order: given("sort") ?? sort,
    picked: Object.fromEntries(choices.map(({ parameter }) => [parameter, given(parameter)])),
  };
}

export function filters({ picked, sought, order }) {
  return Object.fromEntries(Object.entries({ ...picked, search: sought, sort: order }).filter(([, value]) => value));
}

export function asked(source, limit, state) {
  const parameters = new URLSearchParams({ ...filters(state), limit, offset: state.first });
  return `${source}${source.includes("?") ? "&" : "?"}${parameters}`;
}
