"""The questions of `sql/reports` put to the store: each answer is a table, and its Parquet is the engine's own."""

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Final

from warpmeter.queries import Query, parse
from warpmeter.scheduler.reports.kinds import Period, Table
from warpmeter.store import ClickHouseError, Client

INLINE: Final = 100_000
"""Bytes of a table that are sent back to the engine to be written as Parquet; above, the question is put once more."""
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
    _asked: dict[str, tuple[str, Mapping[str, Value], bytes]] = field(default_factory=dict)

    def table(self, question: str, name: str, title: str, **given: Value) -> Table:
        """Ask, and have the answer as a table called `name`. Raises ClickHouseError, QueryError."""
        query = questions()[question]
        values = self._values(query, given)
        answer: bytes = self.client.raw_query(
            query.sql, parameters=values, settings=SETTINGS, fmt="JSONCompactEachRowWithNamesAndTypes"
        )
        lines = answer.splitlines()
        columns, types = tuple(json.loads(lines[0])), tuple(json.loads(lines[1]))
        rows = tuple(tuple(json.loads(line)) for line in lines[2:])
        self._asked[name] = (query.sql, values, b"\n".join(lines[2:]))
        return Table(name, title, query.description, columns, rows, types)

    def know_until(self, period: Period) -> Until:
        """Until when the fleet was measured in the period; questions that ask for it have it from now on."""
        asked = self.table("measured_until", "measured_until", "")
        ends = {of: _moment(at) for of, at in asked.rows}
        gpus, hosts = ends.get("gpus"), ends.get("hosts")
        self.common = {**self.common, "gpus_until": gpus or period.end, "hosts_until": hosts or period.end}
        return Until(gpus, hosts)

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
