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
