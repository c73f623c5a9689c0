// A list of the API as a CSV file, all its pages.

import { ask } from "./asking.js";

const PAGE = 500;
const MOST = 100000;

function field(value) {
  const text = value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : `${value}`;
  const safe = /^[=+\-@\t]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text; // spreadsheets run formulas
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export const csv = (names, rows) => [names, ...rows].map((row) => row.map(field).join(",")).join("\r\n") + "\r\n";

// Every row of a list, page by page.
export async function everything(source, parameters) {
  const rows = [];
  for (let offset = 0; offset !== null && rows.length < MOST; ) {
    const { data, next } = await ask(source, { ...parameters, limit: PAGE, offset });
    rows.push(...data);
    offset = next ?? null;
  }
  return rows;
}

export function save(name, text, type = "text/csv") {
  const url = URL.createObjectURL(new Blob([text], { type }));
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
