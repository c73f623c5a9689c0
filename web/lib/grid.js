// AG Grid, fetched when the first table is seen, in the colours of the page.

let library;

export const grids = () =>
  (library ??= import("nicegui-aggrid").then((AgGrid) => {
    AgGrid.ModuleRegistry.registerModules([AgGrid.AllCommunityModule]);
    return AgGrid;
  }));

// One theme for all tables: each theme that is made costs a style sheet, and the page's styles to be worked out anew.
let theme;

export function look(AgGrid) {
  theme ??= AgGrid.themeQuartz.withParams({
    fontFamily: "inherit", fontSize: 13, headerFontSize: 12, headerFontWeight: 500, rowHeight: 28, headerHeight: 28, spacing: 4,
    cellHorizontalPadding: 8, wrapperBorder: false, wrapperBorderRadius: 0, backgroundColor: "var(--wm-panel)", foregroundColor: "var(--wm-text)",
    headerBackgroundColor: "var(--wm-panel)", headerTextColor: "var(--wm-muted)", borderColor: "var(--wm-line)", accentColor: "var(--wm-accent)",
    rowHoverColor: "var(--wm-raised)", browserColorScheme: "inherit", iconSize: 12,
  });
  return theme;
}

const tab = ({ event }) => event.key === "Tab";

// Options of every table: keys within are the grid's, Tab leaves it, and Enter opens the link of the cell, else of its row.
export const keyed = {
  tabIndex: -1, // the grid's own stops; `oneStop` gives it the one that it has
  onCellKeyDown({ event: { key, target } }) {
    if (key !== "Enter" || !target.matches(".ag-cell")) return; // a link with the focus is followed by the browser
    (target.querySelector("a") ?? target.closest(".ag-row").querySelector("a"))?.click();
  },
};
export const keyedColumns = { suppressKeyboardEvent: tab, suppressHeaderKeyboardEvent: tab };

// Tab stops once in the table below `element`: at the cell, of a row or a head, that had the focus last, else at the first.
// Returns how to end that.
export function oneStop(element) {
  let stop = null;
  const put = (cell) => {
    if (stop) stop.tabIndex = -1;
    stop = cell;
    if (stop) stop.tabIndex = 0;
  };
  const focused = ({ target }) => {
    const cell = target.closest(".ag-cell, .ag-header-cell");
    if (cell && cell !== stop) put(cell);
  };
  const drawn = () => {
    const stays = element.contains(stop) && (stop.matches(".ag-cell") || stop.contains(document.activeElement));
    if (!stays) put(element.querySelector(".ag-cell") ?? element.querySelector(".ag-header-cell"));
  };
  const observer = new MutationObserver(drawn);
  observer.observe(element, { childList: true, subtree: true });
  element.addEventListener("focusin", focused);
  return () => {
    observer.disconnect();
    element.removeEventListener("focusin", focused);
  };
}
