"""What a dashboard is made of, and how Grafana writes it: panels that flow from left to right, variables, links.

    Dashboard("host", "Host", variables=(HOST,), rows=(Row("Use", (Panel("timeseries", "GPUs", sql, "percentunit"),)),))

Schema version 39 is that of Grafana 11; Grafana 12 loads it and brings it up to its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Kind = Literal["timeseries", "stat", "table", "heatmap", "status-history", "flamegraph", "barchart", "text"]
Json = dict[str, Any]

SCHEMA_VERSION: Final = 39
WIDTH: Final = 24
STORE: Final = {"type": "grafana-clickhouse-datasource", "uid": "warpmeter"}
PROMETHEUS: Final = {"type": "prometheus", "uid": "${prometheus}"}
PLUGIN: Final = "4.13.0"
"""The version of grafana-clickhouse-datasource by whose rules the queries are written and tested."""
TAG: Final = "warpmeter"


@dataclass(frozen=True)
class Column:
    """How a column of a table is shown: its unit, and where a click on it leads."""

    unit: str = ""
    link: str = ""
    width: int = 0


@dataclass(frozen=True)
class Series:
    """A PromQL expression, and what its lines are called."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """A panel; `ask` is SQL, or PromQL of one line or more. `size` is width (of 24) and height."""

    kind: Kind
    title: str
    ask: str | tuple[Series, ...] = ""
    unit: str = "none"
    help: str = ""
    size: tuple[int, int] = (8, 8)
    columns: Mapping[str, Column] = field(default_factory=dict)
    ratio: bool = False
    """From 0 to 1 on the axis, whatever the values are."""
    stacked: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True)
class Variable:
    """What people choose: by a query (`sql`), from `choices` (value to text), or by writing (neither)."""

    name: str
    label: str
    sql: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)
    many: bool = False
    hidden: bool = False
    default: str = ""
    datasource: str = ""
    """The type of the data sources to choose from, of a variable that names one."""


@dataclass(frozen=True)
class Dashboard:
    """A dashboard; its uid is `warpmeter-<name>` and stays, for links go by it."""

    name: str
    title: str
    rows: Sequence[Row]
    variables: Sequence[Variable] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    since: str = "now-6h"
    refresh: str = "1m"
    description: str = ""


def written(dashboard: Dashboard) -> Json:
    """The dashboard as Grafana's JSON."""
    return {
        "uid": f"warpmeter-{dashboard.name}",
        "title": f"warpmeter: {dashboard.title}",
        "description": dashboard.description,
        "tags": [TAG],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": dashboard.refresh,
        "timezone": "browser",
        "time": {"from": dashboard.since, "to": "now"},
        "links": [_others()],
        "annotations": {"list": [_annotation(name, sql) for name, sql in dashboard.annotations.items()]},
        "templating": {"list": [_variable(each) for each in dashboard.variables]},
        "panels": list(_placed(dashboard.rows)),
    }


def link(name: str, **variables: str) -> str:
    """Where a click leads: another of these dashboards, with the time and what is chosen there."""
    chosen = "".join(f"&var-{variable}={value}" for variable, value in variables.items())
    return f"/d/warpmeter-{name}/?${{__url_time_range}}{chosen}"


def _others() -> Json:
    return {
        "type": "dashboards", "title": "warpmeter", "tags": [TAG], "asDropdown": True, "keepTime": True,
        "includeVars": True, "targetBlank": False, "icon": "external link", "tooltip": "", "url": "",
    }  # fmt: skip


def _annotation(name: str, sql: str) -> Json:
    return {"name": name, "datasource": STORE, "enable": True, "iconColor": "red", "target": _sql("Anno", sql, False)}


def _variable(variable: Variable) -> Json:
    found: Json = {"name": variable.name, "label": variable.label, "hide": 2 if variable.hidden else 0}
    if variable.datasource:
        return found | {"type": "datasource", "query": variable.datasource, "refresh": 1, "current": {}, "options": []}
    if variable.sql:
        found |= {"type": "query", "datasource": STORE, "query": variable.sql, "definition": variable.sql}
        found |= {"refresh": 2, "sort": 0, "regex": "", "options": [], "multi": variable.many}
        found |= {"includeAll": variable.many, "current": _every() if variable.many else {}}
        return found
    if not variable.choices:
        return found | {"type": "textbox", "query": variable.default, "current": _chosen(variable.default, {})}
    listed = ",".join(f"{text} : {value}" for value, text in variable.choices.items())
    options = [_chosen(value, variable.choices, value == variable.default) for value in variable.choices]
    found |= {"type": "custom", "query": listed, "options": options, "multi": False, "includeAll": False}
    return found | {"current": _chosen(variable.default, variable.choices)}


def _every() -> Json:
    return {"selected": True, "text": ["All"], "value": ["$__all"]}


def _chosen(value: str, texts: Mapping[str, str], selected: bool = True) -> Json:
    return {"selected": selected, "text": texts.get(value, value), "value": value}


def _placed(rows: Sequence[Row]) -> Iterator[Json]:
    """Panels with their places: from left to right, the next line below the highest of a line."""
    number, y = 1, 0
    for row in rows:
        place = {"x": 0, "y": y, "w": WIDTH, "h": 1}
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": place, "panels": []}
        number, y, x, high = number + 1, y + 1, 0, 0
        for panel in row.panels:
            width, height = panel.size
            if x + width > WIDTH:
                x, y, high = 0, y + high, 0
            yield _panel(panel, number, {"x": x, "y": y, "w": width, "h": height})
            number, x, high = number + 1, x + width, max(high, height)
        y += high


def _panel(panel: Panel, number: int, place: Json) -> Json:
    found: Json = {"id": number, "type": panel.kind, "title": panel.title, "gridPos": place}
    if panel.help:
        found["description"] = panel.help
    found["options"] = _OPTIONS.get(panel.kind, {}) | dict(panel.options)
    if panel.kind == "text":
        return found
    source = STORE if isinstance(panel.ask, str) else PROMETHEUS
    found |= {"datasource": source, "interval": "1m" if isinstance(panel.ask, str) else "15s"}
    return found | {"fieldConfig": _fields(panel), "targets": _targets(panel)}


def _targets(panel: Panel) -> list[Json]:
    if isinstance(panel.ask, str):
        return [_sql("A", panel.ask, panel.kind in _OVER_TIME)]
    return [
        {
            "refId": chr(ord("A") + place), "datasource": PROMETHEUS, "editorMode": "code", "expr": series.expr,
            "legendFormat": series.legend, "range": panel.kind != "table", "instant": panel.kind == "table",
            "format": "table" if panel.kind == "table" else "time_series",
        }
        for place, series in enumerate(panel.ask)
    ]  # fmt: skip


def _sql(reference: str, sql: str, over_time: bool) -> Json:
    kind, shape = ("timeseries", 0) if over_time else ("table", 1)
    return {
        "refId": reference, "datasource": STORE, "pluginVersion": PLUGIN, "editorType": "sql", "queryType": kind,
        "format": shape, "rawSql": sql.strip(),
    }  # fmt: skip


def _fields(panel: Panel) -> Json:
    custom = _CUSTOM.get(panel.kind, {})
    defaults: Json = {"unit": panel.unit, "custom": dict(custom)}
    if panel.ratio:
        defaults |= {"min": 0, "max": 1}
    if panel.stacked:
        defaults["custom"] |= {"stacking": {"mode": "normal", "group": "A"}, "fillOpacity": 30}
    if panel.kind == "status-history":
        defaults["color"] = {"mode": "continuous-BlYlRd"}
    if isinstance(panel.ask, str) and panel.kind in ("timeseries", "status-history") and " AS name" in panel.ask:
        defaults["displayName"] = "${__field.labels.name}"
    return {"defaults": defaults, "overrides": [_override(name, column) for name, column in panel.columns.items()]}


def _override(name: str, column: Column) -> Json:
    properties: list[Json] = []
    if column.unit:
        properties.append({"id": "unit", "value": column.unit})
    if column.link:
        properties.append({"id": "links", "value": [{"title": "Look closer", "url": column.link}]})
    if column.width:
        properties.append({"id": "custom.width", "value": column.width})
    return {"matcher": {"id": "byName", "options": name}, "properties": properties}


_OVER_TIME: Final = ("timeseries", "status-history", "heatmap")
_LEGEND: Final = {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []}
_OPTIONS: Final[Mapping[str, Json]] = {
    "timeseries": {"legend": _LEGEND, "tooltip": {"mode": "multi", "sort": "desc"}},
    "stat": {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "graphMode": "none",
        "colorMode": "value", "textMode": "value_and_name", "justifyMode": "auto", "orientation": "auto",
    },
    "table": {"showHeader": True, "cellHeight": "sm", "footer": {"show": False}},
    "heatmap": {
        "calculate": False, "cellGap": 1, "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64},
        "rowsFrame": {"layout": "auto"}, "yAxis": {"axisPlacement": "left"}, "tooltip": {"mode": "single"},
        "legend": {"show": True},
    },
    "status-history": {"showValue": "never", "rowHeight": 0.9, "legend": _LEGEND | {"showLegend": False}},
    "barchart": {"orientation": "horizontal", "stacking": "normal", "legend": _LEGEND, "xTickLabelMaxLength": 40},
    "text": {"mode": "markdown"},
}  # fmt: skip
_CUSTOM: Final[Mapping[str, Json]] = {
    "timeseries": {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 5, "showPoints": "auto", "spanNulls": False},
    "table": {"align": "auto", "filterable": True, "cellOptions": {"type": "auto"}},
    "status-history": {"fillOpacity": 80, "lineWidth": 0},
    "barchart": {"lineWidth": 1, "fillOpacity": 80},
}
