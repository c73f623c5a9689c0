"""The named queries of `sql/queries`: what each answers, what it asks for, and its SQL.

A file's header says it: comment lines in plain words, then a line for each parameter,

    -- @since -24h  start of the window

with its default (a dash where it must be given, '' for nothing) and its meaning; its type stands in the SQL,
`{since:DateTime('UTC')}`. Times may be given as people say them: `now`, `-24h` (s, m, h, d, w before now), or in ISO
8601 (UTC unless it says so). What follows from `metric`, an SI name of a GPU's metric, is not asked for:
`metric_column` (as it is stored), `metric_sum` and `metric_count` (in the rollups), `metric_factor` and
`metric_decimals` (the scale to SI, and to how many decimals a mean is good; `metric_stored_decimals`: a single value).
`host_metric` and `device_metric` are the same of a host's and of a device's.

Where a query has a line that ends in `-- each metric`, several metrics may be given, with commas between: it is run
with such a line for each of them.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from typing import Final

from warpmeter.clock import Clock, SystemClock
from warpmeter.schemas.metrics import Metric, of_topic

METRICS: Final = {"metric": "gpu-samples", "host_metric": "host-samples", "device_metric": "device-samples"}
"""Parameters that name a metric, and the topic whose it is."""
EACH: Final = "-- each metric"
"""Ends the line of a query that it has once for each metric."""
_PARAMETER: Final = re.compile(r"-- @(\w+)\s+(\S+)\s+(.+)")
_USE: Final = re.compile(r"\{(\w+):\s*([^{}]+)\}")
_AGO: Final = re.compile(r"-(\d+(?:\.\d+)?)([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class QueryError(Exception):
    """A named query does not exist or was not given what it needs; the message says what to do.

    `parameter`: which it is about, '' where it is none.
    """

    def __init__(self, why: str, parameter: str = "") -> None:
        super().__init__(why)
        self.parameter = parameter


@dataclass(frozen=True)
class Parameter:
    """What a query asks for: `type` is ClickHouse's; `default` None means that it must be given."""

    name: str
    type: str
    default: str | None
    meaning: str


@dataclass(frozen=True)
class Statement:
    """What is sent to ClickHouse: SQL, and the values of its parameters."""

    sql: str
    values: Mapping[str, str]


@dataclass(frozen=True)
class Query:
    """A named query. `question` is the first sentence of `description`; `sql` takes `parameters` by name."""

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    sql: str

    @property
    def question(self) -> str:
        """The first sentence."""
        return re.split(r"(?<=[.?])\s", self.description, maxsplit=1)[0]

    def statement(self, given: Mapping[str, str], clock: Clock | None = None) -> Statement:
        """The query as ClickHouse takes it: with what is given, defaults, times resolved.

        Raises QueryError on a name that the query does not have, one that is missing, or a time that is none.
        """
        unknown = set(given) - {parameter.name for parameter in self.parameters}
        if unknown:
            names = sorted(unknown)
            raise QueryError(f"{self.name} has no parameter {', '.join(names)}; it has {self._signature()}", names[0])
        now = datetime.fromtimestamp((clock or SystemClock()).now(), UTC)
        values = {parameter.name: self._value(parameter, given, now) for parameter in self.parameters}
        statement = Statement(self.sql, values)
        for asked, topic in METRICS.items():
            if asked in values:
                statement = self._of_metrics(statement, asked, topic)
        return statement

    @property
    def many(self) -> bool:
        """Whether it answers for several metrics at once."""
        return self._each is not None

    @property
    def _each(self) -> str | None:
        return next((line for line in self.sql.splitlines() if line.endswith(EACH)), None)

    def _of_metrics(self, statement: Statement, asked: str, topic: str) -> Statement:
        chosen = statement.values[asked].split(",")
        follow = [{asked: name, **_follows(asked, topic, name)} for name in chosen]
        line = self._each
        if len(chosen) == 1:
            return Statement(statement.sql, {**statement.values, **follow[0]})
        if line is None:
            raise QueryError(f"{self.name} takes one {asked} at a time", asked)
        bare = line.removesuffix(EACH).rstrip()
        lines = (_USE.sub(rf"{{\1_{place}:\2}}", bare) for place in range(len(chosen)))
        used = {use[1] for use in _USE.finditer(bare)}
        values = {f"{name}_{at}": each[name] for at, each in enumerate(follow) for name in each if name in used}
        return Statement(self.sql.replace(line, ",\n".join(lines)), {**statement.values, **values})

    def _value(self, parameter: Parameter, given: Mapping[str, str], now: datetime) -> str:
        value = given.get(parameter.name, parameter.default)
        if value is None:
            why = f"{self.name} needs {parameter.name} ({parameter.meaning}); it has {self._signature()}"
            raise QueryError(why, parameter.name)
        if not parameter.type.startswith("DateTime"):
            return value
        try:
            return moment(value, now)
        except QueryError as error:
            raise QueryError(str(error), parameter.name) from error

    def _signature(self) -> str:
        told = (f"{p.name} = {p.default}" if p.default is not None else p.name for p in self.parameters)
        return ", ".join(told) or "none"


def _follows(asked: str, topic: str, name: str) -> dict[str, str]:
    """What follows from a metric's SI name; raises QueryError when the topic has no such metric."""
    metrics: dict[str, Metric] = {metric.name: metric for metric in of_topic(topic)}
    if name not in metrics:
        whose = topic.removesuffix("-samples").replace("gpu", "GPU") + "s"
        raise QueryError(f"{whose[0].upper()}{whose[1:]} have no metric {name}; they have {', '.join(metrics)}", asked)
    metric = metrics[name]
    return {
        "metric_column": metric.column,
        "metric_sum": f"{metric.column}_sum",
        "metric_count": f"{metric.column}_count",
        "metric_factor": repr(metric.factor),
        "metric_decimals": str(max(0, 2 - round(math.log10(metric.factor)))),
        "metric_stored_decimals": str(max(0, -round(math.log10(metric.factor)))),
    }


def moment(text: str, now: datetime) -> str:
    """A time as people say it, as ClickHouse takes it (UTC, whole seconds); raises QueryError."""
    ago = _AGO.fullmatch(text)
    if text == "now":
        when = now
    elif ago:
        when = _before(now, text, {_UNITS[ago[2]]: float(ago[1])})
    else:
        when = _iso(text)
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def _before(now: datetime, text: str, ago: Mapping[str, float]) -> datetime:
    try:
        return now - timedelta(**ago)
    except OverflowError as error:
        raise QueryError(f"{text!r} is no time: it lies before all calendars") from error


def _iso(text: str) -> datetime:
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise QueryError(f"{text!r} is no time: write now, -24h, or 2026-01-31 12:00:00 (UTC)") from error
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def parse(name: str, text: str) -> Query:
    """A query from its file; raises QueryError when header and SQL do not name the same parameters."""
    lines = text.splitlines()
    header = [line for line in lines if line.startswith("--")]
    sql = "\n".join(line for line in lines if not line.startswith("--")).strip().removesuffix(";")
    types = {use[1]: use[2].strip() for use in _USE.finditer(sql)}
    asked = {parameter for parameter in types if not parameter.startswith("metric_")}
    told = [match for line in header if (match := _PARAMETER.fullmatch(line))]
    words = [line.removeprefix("--").strip() for line in header if not _PARAMETER.fullmatch(line)]
    if {match[1] for match in told} - METRICS.keys() != asked - METRICS.keys() or not any(words):
        raise QueryError(
            f"sql/queries/{name}.sql: its header must describe it, and just the parameters {sorted(types)}"
        )
    parameters = (
        Parameter(match[1], types.get(match[1], "String"), {"-": None, "''": ""}.get(match[2], match[2]), match[3])
        for match in told
    )
    return Query(name, " ".join(words), tuple(parameters), sql)


@cache
def _all() -> Mapping[str, Query]:
    folder = resources.files("warpmeter") / "sql" / "queries"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    names = (file.name.removesuffix(".sql") for file in files)
    return {name: parse(name, file.read_text()) for name, file in zip(names, files, strict=True)}


def names() -> list[str]:
    """All names, sorted."""
    return list(_all())


def every() -> tuple[Query, ...]:
    """All queries, by name."""
    return tuple(_all().values())


def get(name: str) -> Query:
    """The query `name`; raises QueryError naming those there are."""
    try:
        return _all()[name]
    except KeyError:
        raise QueryError(f"there is no query {name}; there are {', '.join(names())}") from None
