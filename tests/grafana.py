"""The queries of a Grafana dashboard as the ClickHouse plugin 4.13 sends them: variables and macros filled in.

By its sources: `CHDatasource.ts` (`applyConditionalAll`, then Grafana's own variables) and `pkg/macros/macros.go`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Json = dict[str, Any]
Chosen = Mapping[str, str | Sequence[str]]
ALL: Final = "$__all"


@dataclass(frozen=True)
class Range:
    """What is looked at: seconds since the epoch, and the interval between points that Grafana works out."""

    begin: int
    end: int
    interval_s: int


def arguments(text: str, at: int) -> tuple[list[str], int]:
    """The arguments of a call whose parenthesis opens at `at`, and where it ends."""
    depth, found, begin = 0, [], at + 1
    for place in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0 or (depth == 1 and text[place] == ","):
            found.append(text[begin:place].strip())
            begin = place + 1
        if depth == 0:
            return found, place + 1
    raise AssertionError(f"no end: {text[at:]}")


def sent(sql: str, chosen: Chosen, within: Range) -> str:
    """What the store gets. Raises KeyError for a variable that is not chosen, or a macro that the plugin lacks."""
    return _macros(_variables(_conditions(sql, chosen), chosen), within)


def uses(text: str) -> set[str]:
    """Names of variables that a text uses."""
    return {name for name in re.findall(r"\$\{?(\w+)", text) if not name.startswith("__")}


def queries(board: Json) -> Iterator[tuple[str, Json]]:
    """Title and target of every query of a dashboard: panels, annotations."""
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target
    for annotation in board["annotations"]["list"]:
        yield annotation["name"], annotation["target"]


def _conditions(sql: str, chosen: Chosen) -> str:
    while (at := sql.rfind("$__conditionalAll(")) >= 0:
        (condition, variable), end = arguments(sql, at + len("$__conditionalAll"))
        value = chosen[variable.removeprefix("$")]
        sql = f"{sql[:at]}{'1=1' if value in ('', ALL) else condition}{sql[end:]}"
    return sql


def _variables(sql: str, chosen: Chosen) -> str:
    def put(use: re.Match[str]) -> str:
        name, form = use[1] or use[3], use[2]
        if name.startswith("__"):
            return use[0]
        value = chosen[name]
        assert value != ALL, f"{name} would be a list of all"
        if form == "singlequote":
            values = [value] if isinstance(value, str) else value
            return ",".join("'" + each.replace("'", r"\'") + "'" for each in values)
        assert form is None, use[0]
        assert isinstance(value, str), f"{name} has several values and no quotes"
        return value

    return re.sub(r"\$\{(\w+)(?::(\w+))?\}|\$(\w+)", put, sql)


def _macros(sql: str, within: Range) -> str:
    begin, end = f"toDateTime({within.begin})", f"toDateTime({within.end})"
    seconds = max(within.interval_s, 1)
    plain = {"fromTime": begin, "toTime": end, "interval_s": str(seconds)}
    called: Mapping[str, Callable[[str], str]] = {
        "timeFilter": lambda column: f"{column} >= {begin} AND {column} <= {end}",
        "timeInterval": lambda column: f"toStartOfInterval(toDateTime({column}), INTERVAL {seconds} second)",
    }

    def put(use: re.Match[str]) -> str:
        name, argument = use[1], use[2]
        if argument is None:
            return plain[name]
        assert re.fullmatch(r"[\w.]+", argument), f"not a mere column: {use[0]}"
        return called[name](argument)

    return re.sub(r"\$__(\w+)\b(?:\(([^()]*)\))?", put, sql)
