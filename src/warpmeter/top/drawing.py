"""How it looks: lines of styled text, worked out from what is known. No terminal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.cells import cell_len, set_cell_size

from warpmeter.top import units
from warpmeter.top.asking import HISTORIES, Refresh
from warpmeter.top.lists import FACTS, LEFT, Column, Kind, Listing, Place, words
from warpmeter.top.view import Row, Table, View

Span = tuple[str, str]
"""A text and the name of its style: '', bold, dim, good, idle, bad, gone, head, chosen."""
Line = list[Span]

STATES: Final[Mapping[str, str]] = {
    "ok": "good", "busy": "good", "running": "good", "idle": "idle", "lost": "idle", "failing": "bad", "gone": "gone",
    "silent": "gone", "ended": "dim",
}  # fmt: skip
"""The style of each state."""
OLD: Final = frozenset({"gone", "silent", "lost", "ended"})
"""States in which the other values are those of some time ago."""
IDLE: Final = 0.05
HOT_CELSIUS: Final = 87
SPARK: Final = 30
ROOM: Final = 56
"""Cells that the sparks leave to names and values."""
PART: Final = 6
"""The least cells of a column of text that is worth showing."""


@dataclass(frozen=True)
class Placed:
    """A column where it stands: `width` cells without the space after it."""

    column: Column
    width: int


def clean(text: str) -> str:
    """Text that steers no terminal: what hosts and jobs are called is theirs to say."""
    return (
        text
        if text.isprintable()
        else "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
    )


def fitted(text: str, width: int, left: bool = True) -> str:
    """In just so many cells; what is cut says so."""
    long = cell_len(text)
    if long > width:
        return set_cell_size(text, max(0, width - 1)) + "…" if width > 0 else ""
    return text + " " * (width - long) if left else " " * (width - long) + text


def layout(table: Table, width: int, skipped: int = 0) -> list[Placed]:
    """The columns that fit: the first one always, then those after `skipped`; the last may be cut."""
    columns = table.listing.columns
    found: list[Placed] = []
    for column in (columns[0], *columns[1 + skipped :]):
        rest = width - sum(each.width + 1 for each in found)
        wanted = _width(column, table)
        if wanted > rest and (column.kind is not Kind.TEXT or rest < PART) and found:
            break
        found.append(Placed(column, min(wanted, max(1, rest))))
    return found


def _width(column: Column, table: Table) -> int:
    if not column.most:
        return column.cells
    return max(len(column.title) + 1, min(column.most, table.longest.get(column.name, 0)))


def heading(view: View, placed: Sequence[Placed]) -> Line:
    """The titles; the column that sorts has an arrow."""
    line: Line = []
    for each in placed:
        sorts = each.column.name == view.sort
        title = each.column.title + (("▼" if view.descending else "▲") if sorts else "")
        line.append((fitted(title, each.width, each.column.kind in LEFT) + " ", "sorts" if sorts else "head"))
    return line


def row_line(table: Table, row: Row, placed: Sequence[Placed]) -> Line:
    """A row, coloured by its state."""
    state = str(table.value(row, table.listing.state) or "") if table.listing.state else ""
    line: Line = []
    for number, each in enumerate(placed):
        value = table.value(row, each.column.name)
        text = _bar(value, each.width) if each.column.kind is Kind.BAR else clean(words(value, each.column.kind))
        style = _style(each.column, value, state, number == 0)
        line.append((fitted(text, each.width, each.column.kind in LEFT) + " ", style))
    return line


def _bar(value: Any, width: int) -> str:
    return "" if value is None else f"{units.bar(float(value), width - 5)} {units.ratio(float(value)):>4}"


def _style(column: Column, value: Any, state: str, first: bool) -> str:
    style = STATES.get(state, "")
    if column.kind is Kind.STATE:
        return style
    if first:
        return style if style in ("bad", "gone") else "bold"
    if state in OLD:
        return "dim"
    if column.name == "problems":
        return "bad" if state == "failing" else "gone"
    return _of_value(column, value)


def _of_value(column: Column, value: Any) -> str:
    """The style of a value by itself."""
    if value is None:
        return ""
    if column.kind is Kind.BAR:
        return "idle" if value < IDLE else "good"
    if column.kind is Kind.CELSIUS:
        return "bad" if value >= HOT_CELSIUS else ""
    if column.name in ("gpus_failing", "gpus_gone"):
        return "bad" if value else "dim"
    if column.name == "odd":
        return "bad"
    return "idle" if column.name in ("gpus_idle", "idle_s") and value else ""


def flowed(groups: Sequence[Line], width: int, most: int) -> list[Line]:
    """Groups side by side, three cells apart, in at most so many lines; what does not fit is left out."""
    lines: list[Line] = []
    left = 0
    for group in groups:
        long = sum(cell_len(text) for text, _ in group)
        if lines and left >= long + 3:
            lines[-1] += [("   ", ""), *group]
            left -= long + 3
        elif len(lines) < most:
            lines.append(list(group))
            left = width - long
    return lines


def totals(refresh: Refresh) -> list[Line]:
    """What is said of the fleet in numbers; nothing before it is known."""
    fleet = refresh.fleet
    if not fleet:
        return []
    hosts = _counted("Hosts", fleet, (("hosts_ok", "ok"), ("hosts_failing", "failing"), ("hosts_silent", "silent")))
    states = (("gpus_busy", "busy"), ("gpus_idle", "idle"), ("gpus_failing", "failing"), ("gpus_gone", "gone"))
    jobs = _counted("Jobs", fleet, (("jobs_running", "running"), ("jobs_lost", "lost")))
    return [hosts, _counted("GPUs", fleet, states), jobs, *_alerts(refresh.alerts)]


def _counted(title: str, fleet: Mapping[str, Any], states: Sequence[tuple[str, str]]) -> Line:
    """`GPUs 512 440 busy 68 idle`: those that there are none of are left out, but the first."""
    counts = [(int(fleet.get(name) or 0), state) for name, state in states]
    line: Line = [(f"{title} ", "dim"), (f"{sum(count for count, _ in counts):,}", "bold")]
    for number, (count, state) in enumerate(counts):
        if count or not number:
            line += [("  ", ""), (f"{count:,} {state}", STATES[state] if count else "dim")]
    return line


def _alerts(alerts: Mapping[str, int] | None) -> list[Line]:
    if alerts is None:
        return []
    styles = {"critical": "bad", "warning": "idle", "info": ""}
    line: Line = [("Alerts ", "dim"), (f"{sum(int(alerts.get(name) or 0) for name in styles):,}", "bold")]
    for name, style in styles.items():
        if alerts.get(name):
            line += [("  ", ""), (f"{alerts[name]:,} {name}", style)]
    return [line]


_SPARKS: Final = (
    ("GPU util", "gpu_util", Kind.RATIO, 1.0),
    ("SM active", "sm_active", Kind.RATIO, 1.0),
    ("Power", "power_watts", Kind.WATTS, None),
)


def sparks(refresh: Refresh, width: int) -> list[Line]:
    """The fleet's headline values now, each behind its last minutes, for a terminal of `width` cells."""
    long = min(SPARK, max(0, (width - ROOM) // len(_SPARKS)))
    found: list[Line] = []
    for title, name, kind, most in _SPARKS:
        value = refresh.fleet.get(name)
        history = refresh.history.get(name, []) if name in HISTORIES else []
        if value is not None or any(each is not None for each in history):
            line = units.spark(history, long, most)
            found.append(
                [(f"{title} ", "dim"), (line + " " if line else "", "good"), (words(value, kind) or "–", "bold")]
            )
    return found


def about(place: Place, facts: Mapping[str, Any]) -> list[Line]:
    """What a host or job is, a group a fact."""
    listing = FACTS.get(place.kind)
    if listing is None:
        return []
    if not facts:
        return [[(f"{place.kind} {clean(place.name)}: nothing is heard of it now", "idle")]]
    return [
        _fact(column, facts, listing) for column in listing.columns[1:] if words(facts.get(column.name), column.kind)
    ]


def _fact(column: Column, facts: Mapping[str, Any], listing: Listing) -> Line:
    value, state = facts[column.name], str(facts.get(listing.state, ""))
    style = STATES.get(state, "") if column.kind is Kind.STATE else _of_value(column, value) or "bold"
    if column.name == "problems":
        style = "bad"
    return [(f"{column.title} ", "dim"), (clean(words(value, column.kind)), style)]
