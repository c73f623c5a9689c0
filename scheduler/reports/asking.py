"""The questions of `sql/reports` put to the store: each answer is a table, and its Parquet is the engine's own."""

import csv
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from typing import Final

from warpmeter.queries import Query, parse
from warpmeter.scheduler.reports.kinds import Period, Table
from warpmeter.store import ClickHouseError, Client

INLINE: Final = 100_000
"""Bytes of a table that are sent back to the engine to be written as Parquet; above, the question is put once more."""
RUNNING: Final = timedelta(minutes=10)
"""Rows still come in while the newest is not older."""
LANDED: Final = timedelta(seconds=15)
"""So much later rows have landed, unless they are late."""
_HOURS: Final = re.compile(r"\bFROM (gpu_heatmap|job_windows|fleet_windows|host_windows)_1h AS (\w+)\b")
SETTINGS: Final = {"output_format_json_quote_64bit_integers": 0, "max_threads": 4}

Value = str | int | float | datetime | None


@cache
def questions() -> Mapping[str, Query]:
    """All of them, by name."""
    folder = resources.files("warpmeter") / "sql" / "reports"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return {(name := file.name.removesuffix(".sql")): parse(name, file.read_text()) for file in files}


@dataclass(frozen=True)
class Until:
    """The end of the last sample of any GPU and of any host within a period; None: there was none."""

    gpus: datetime | None
    hosts: datetime | None


@dataclass
class Asker:
    """Puts questions for one report and keeps what each table was made of. `common`: parameters that many share."""

    client: Client
    common: Mapping[str, Value]
    now: datetime
    sharded: bool = False
    _cut: datetime | None = None
    _asked: dict[str, tuple[str, Mapping[str, Value], bytes]] = field(default_factory=dict)

    def table(self, question: str, name: str, title: str, **given: Value) -> Table:
        """Ask, and have the answer as a table called `name`. Raises ClickHouseError, QueryError."""
        query = questions()[question]
        values, sql = self._values(query, given), query.sql if self._cut is None else until_minute(query.sql, self._cut)
        answer: bytes = self.client.raw_query(
            sql, parameters=values, settings=SETTINGS, fmt="JSONCompactEachRowWithNamesAndTypes"
        )
        lines = answer.splitlines()
        columns, types = tuple(json.loads(lines[0])), tuple(json.loads(lines[1]))
        rows = tuple(tuple(json.loads(line)) for line in lines[2:])
        self._asked[name] = (sql, values, b"\n".join(lines[2:]))
        return Table(name, title, query.description, columns, rows, types)

    def know_until(self, period: Period) -> Until:
        """Until when the fleet was measured in the period; questions that ask for it have it from now on."""
        asked = self.table("measured_until", "measured_until", "")
        ends = {of: _moment(at) for of, at in asked.rows}
        self._cut = self._last_minute(list(ends.values()))
        gpus, hosts = (self._within(ends.get(of)) for of in ("gpus", "hosts"))
        self.common = {**self.common, "gpus_until": gpus or period.end, "hosts_until": hosts or period.end}
        return Until(gpus, hosts)

    def _within(self, until: datetime | None) -> datetime | None:
        return until if until is None or self._cut is None else min(until, self._cut)

    def _last_minute(self, ends: list[datetime]) -> datetime | None:
        """The last whole minute that has landed, where rows still come in: tables are asked one after another, and all
        of them are asked up to there. None, over shards too: each is of what is there when it is asked. There the hours
        of all shards would be added up here rather than on each."""
        until = max(ends, default=None)
        if until is None or self.sharded or abs(self.now - until) > RUNNING:
            return None
        cut = (until - LANDED).replace(second=0, microsecond=0)
        first = self.first_measured()
        return None if first is None or first >= cut else cut

    def first_measured(self) -> datetime | None:
        """Of when the first sample is, of hosts and GPUs that the store knows; None: there is none."""
        ((at,),) = self.table("measured_first", "measured_first", "").rows
        return None if at is None else _moment(at)

    def parquet(self, table: Table) -> bytes:
        """The table as the engine writes it, all its columns that `table` still has. Raises ClickHouseError."""
        sql, values, body = self._asked.get(table.name, ("", {}, b""))  # a table made of answers was not asked for
        if len(body) <= INLINE:
            try:
                return self._parquet(_inline(table), {})
            except ClickHouseError:  # who may read the tables need not have the right to `format`
                if not sql:
                    raise
        columns = ", ".join(f"`{column}`" for column in table.columns)
        return self._parquet(f"SELECT {columns} FROM ({sql})", values)

    def _parquet(self, sql: str, values: Mapping[str, Value]) -> bytes:
        found: bytes = self.client.raw_query(sql, parameters=dict(values) or None, settings=SETTINGS, fmt="Parquet")
        return found

    def _values(self, query: Query, given: Mapping[str, Value]) -> dict[str, Value]:
        """The question's parameters: given, common, or its own defaults."""
        found: dict[str, Value] = {}
        for parameter in query.parameters:
            where = given if parameter.name in given else self.common
            value = where.get(parameter.name, parameter.default)
            found[parameter.name] = _stamp(value) if isinstance(value, datetime) else value
        return found


def until_minute(sql: str, cut: datetime) -> str:
    """The same over rollups of hours, with no row of `cut` and after: of its hour the minutes before it."""
    hour = cut.replace(minute=0)
    whole, minutes = f"window < toDateTime('{_stamp(hour)}', 'UTC')", f"m.window < toDateTime('{_stamp(cut)}', 'UTC')"
    return _HOURS.sub(
        rf"FROM (SELECT * FROM \1_1h WHERE {whole} UNION ALL "
        r"SELECT * REPLACE (toDateTime(toStartOfHour(m.window), 'UTC') AS window) "
        rf"FROM \1_1m AS m WHERE m.{whole.replace('<', '>=')} AND {minutes}) AS \2",
        sql,
    )


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _stamp(at: datetime) -> str:
    """To the millisecond where it is within a second."""
    return f"{at:%Y-%m-%d %H:%M:%S}" + (f".{at.microsecond // 1000:03}" if at.microsecond else "")


def _inline(table: Table) -> str:
    """The table's rows as a query: they go to the engine, and come back as it writes them."""
    columns = ", ".join(f"`{column}`" for column in table.columns)
    types = ", ".join(f"`{name}` {_plain(type_)}" for name, type_ in zip(table.columns, table.types, strict=True))
    rows = "\n".join(json.dumps(row, ensure_ascii=False) for row in table.rows)
    return f"SELECT {columns} FROM format(JSONCompactEachRow, {_literal(types)}, {_literal(rows)})"


def _plain(type_: str) -> str:
    """A type without what only saves space in the engine."""
    return type_.replace("LowCardinality(String)", "String").replace(
        "LowCardinality(Nullable(String))", "Nullable(String)"
    )


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def as_csv(table: Table) -> bytes:
    """With a header; empty cells are what is not known, lists are JSON."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(
        [json.dumps(v, ensure_ascii=False) if isinstance(v, list | dict) else v for v in row] for row in table.rows
    )
    return file.getvalue().encode()


__all__ = ["Asker", "ClickHouseError", "Until", "as_csv", "questions"]
