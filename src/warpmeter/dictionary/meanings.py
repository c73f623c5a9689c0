"""What a column means, and its unit: `sql/meanings.toml`, the migrations' comments, the metric table, in this order."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Final

from warpmeter.schemas.metrics import PLAIN, SCALES, Metric, of_topic
from warpmeter.schemas.topics import TOPICS

Comments = Mapping[tuple[str, str], str]
"""The comments that migrations gave, by table and column."""

_NUMBERS: Final = ("1", "ratio 0-1")
_UNITS: Final[Mapping[str, str]] = {
    **{
        suffix: f"{scale.factor:.10g}" + ("" if scale.unit in _NUMBERS else f" {scale.unit}")
        for suffix, scale in SCALES.items()
    },
    "_bytes_per_s": "B/s", "_bits_per_s": "bit/s", **PLAIN, "_watts": "W", "_hertz": "Hz", "_hours": "h",
    "_seconds": "s", "_ms": "ms", "_ns": "ns", "_share": "ratio 0-1",
}  # fmt: skip
_SUMS: Final[Mapping[str, str]] = {
    "_count": "samples in which it is known",
    "_sum": "sum of them",
    "_min": "least",
    "_max": "most",
    "_quantiles": "state of its quantiles",
}
"""What a rollup keeps of a metric, by the suffix of the column."""
_COMMON: Final = "common"


@dataclass(frozen=True)
class Told:
    """What a column means; `unit` is empty where a number has none, and for texts."""

    meaning: str
    unit: str = ""

    def __str__(self) -> str:
        """As a comment: the unit in brackets behind the meaning."""
        return f"{self.meaning} [{self.unit}]" if self.unit else self.meaning


@dataclass(frozen=True)
class Words:
    """A section of `sql/meanings.toml`, which says what the keys are."""

    row: str = ""
    stable: bool = False
    like: tuple[str, ...] = ()
    metrics: str = ""
    rollup: str = ""
    example: str = ""
    arguments: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)


@cache
def words() -> Mapping[str, Words]:
    """All sections by table or view; a topic's table has its row and its metrics from the topic."""
    text = (resources.files("warpmeter") / "sql" / "meanings.toml").read_text()
    sections: dict[str, dict[str, Any]] = tomllib.loads(text)
    told = {name: Words(**{**keys, "like": tuple(keys.get("like", ()))}) for name, keys in sections.items()}
    for topic in TOPICS.values():
        given = told.get(topic.table, Words())
        told[topic.table] = Words(
            given.row or topic.meaning, given.stable, given.like, topic.name, given.rollup, "", {}, given.columns
        )
    return told


def told(table: str, column: str, comments: Comments) -> Told | None:
    """What `column` of `table` means; None when nobody says."""
    found = _meaning(table, column, comments, frozenset())
    if found is None:
        common = words()[_COMMON].columns.get(column)
        found = _split(common, column) if common else None
    return found


def _meaning(table: str, column: str, comments: Comments, asked: frozenset[str]) -> Told | None:
    own = words().get(table, Words())
    if text := own.columns.get(column) or comments.get((table, column)):
        metric = _metric(own.metrics, column)
        return _split(text, column, metric)
    for other in own.like:
        if other not in asked and (found := _meaning(other, column, comments, asked | {table})):
            return found
    if metric := _metric(own.metrics, column):
        return Told(metric.meaning, _unit(column, metric))
    if found := _summed(own.rollup, column):
        return found
    nanoseconds = f"{column.removesuffix('_seconds')}_ns"
    if nanoseconds != f"{column}_ns" and _meaning(table, nanoseconds, comments, asked):
        return Told(f"`{nanoseconds}` in seconds", "s")
    return None


def _split(text: str, column: str, metric: Metric | None = None) -> Told:
    """Meaning and unit of a text that may end in the unit in brackets."""
    found = re.fullmatch(r"(.*) \[([^\]]+)\]", text)
    if found:
        return Told(found[1], "" if found[2] == "1" else found[2])
    return Told(text, _unit(column, metric))


def _metric(topic: str, column: str) -> Metric | None:
    """The metric of a topic that has this SI name or stored column."""
    return next((each for each in of_topic(topic) if column in (each.name, each.column)), None) if topic else None


def _unit(column: str, metric: Metric | None = None) -> str:
    if metric is not None and column == metric.name:
        return "" if metric.unit == "1" else metric.unit
    plain = re.sub(r"_(max|min|sum)$", "", column)
    return next((unit for suffix, unit in _UNITS.items() if plain.endswith(suffix)), "")


def unit_of(column: str) -> str:
    """The unit that a column's name tells; empty where it tells none."""
    return _unit(column)


def base(topic: str, column: str) -> tuple[Metric, str] | None:
    """The metric that a rollup's column is of, and its suffix; None for other columns."""
    for suffix in _SUMS:
        metric = _metric(topic, column.removesuffix(suffix)) if column.endswith(suffix) else None
        if metric is not None:
            return metric, suffix
    return None


def _summed(topic: str, column: str) -> Told | None:
    found = base(topic, column) if topic else None
    if found is None:
        return None
    metric, suffix = found
    unit = "" if suffix in ("_count", "_quantiles") else _unit(metric.column, metric)
    return Told(f"{metric.meaning}: {_SUMS[suffix]}", unit)
