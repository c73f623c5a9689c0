"""The model's store against the engine: the same inserts, replays, failures and forgetting leave the same rows.

With the settings of every insert of ingest; two raw tables, each with a rollup by day, that one's own rollup by month,
and one book of spans for both, all with a window of a few blocks.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.model.store import Put, Row, StoreTwin, Table
from tests.profiles import model
from warpmeter.consumers.sink.clickhouse import ONE_BLOCK
from warpmeter.settings import Store
from warpmeter.store import ClickHouseError, Client, connect

WINDOW: Final = 6
RAW: Final = ("one", "two")
DAYS: Final = (1, 2, 31)
SUMS: Final = ("days", "months")
VIEWS: Final = (*SUMS, "book")

Kept = dict[str, Counter[tuple[Any, ...]]]


def ddl() -> list[str]:
    known = f"SETTINGS non_replicated_deduplication_window = {WINDOW}"
    made = [
        "CREATE TABLE lever (name String) ENGINE = Memory",
        f"CREATE TABLE book (name String, token String, rows UInt64, day UInt32) ENGINE = MergeTree "
        f"PARTITION BY day ORDER BY token {known}",
    ]
    for name in RAW:
        sums = "(day UInt32, c UInt64, s UInt64)"
        made += [
            f"CREATE TABLE {name} (n UInt32, day UInt32) ENGINE = MergeTree PARTITION BY day ORDER BY n {known}",
            f"CREATE TABLE {name}_days {sums} ENGINE = MergeTree PARTITION BY day ORDER BY day {known}",
            f"CREATE TABLE {name}_months {sums} ENGINE = MergeTree PARTITION BY intDiv(day, 30) ORDER BY day {known}",
            f"CREATE MATERIALIZED VIEW {name}_days_mv TO {name}_days AS SELECT day, count() AS c, sum(n) AS s "
            f"FROM {name} WHERE {unless('days')} GROUP BY day ORDER BY day",
            f"CREATE MATERIALIZED VIEW {name}_months_mv TO {name}_months AS SELECT day, sum(c) AS c, sum(s) AS s "
            f"FROM {name}_days WHERE {unless('months')} GROUP BY day ORDER BY day",
            f"CREATE MATERIALIZED VIEW {name}_book_mv TO book AS SELECT '{name}' AS name, "
            "getSetting('insert_deduplication_token') AS token, count() AS rows, "
            f"max(day) AS day FROM {name} WHERE {unless('book')}",
        ]
    return made


def unless(view: str) -> str:
    """A condition that is true, or throws while the lever is pulled."""
    return f"throwIf((SELECT count() FROM lever WHERE name = '{view}') > 0) = 0"


class Pair:
    """The engine and the twin, which do the same."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.twin = StoreTwin(RAW, WINDOW)
        for table in ("book", "lever", *RAW, *(f"{name}_{view}" for name in RAW for view in SUMS)):
            client.command(f"TRUNCATE TABLE {table}")

    def insert(self, name: str, token: str | None, rows: Sequence[Row]) -> bool:
        """Into the engine; False when it failed."""
        values = ", ".join(f"({row.number}, {row.day})" for row in rows)
        extra = {"insert_deduplication_token": token} if token else {}
        try:
            self.client.command(f"INSERT INTO {name} VALUES {values}", settings={**ONE_BLOCK, **extra})
        except ClickHouseError:
            return False
        return True

    def of_engine(self) -> Kept:
        """What the engine's tables hold."""
        asked = ["SELECT 'book', name, token, toInt64(rows) FROM book"]
        for name in RAW:
            asked.append(f"SELECT '{name}', '', '', toInt64(n * 100 + day) FROM {name}")
            asked += [f"SELECT '{name}_{v}', toString(day), toString(c), toInt64(s) FROM {name}_{v}" for v in SUMS]
        kept: Kept = {table: Counter() for table in ("book", *RAW, *(f"{name}_{v}" for name in RAW for v in SUMS))}
        for table, *row in self.client.query(" UNION ALL ".join(asked)).result_rows:
            kept[table][tuple(row)] += 1
        return kept

    def of_twin(self) -> Kept:
        """What the twin's hold."""
        kept: Kept = {"book": Counter((row.table, row.token, len(row.numbers)) for row in self.twin.book.rows)}
        for name, tables in self.twin.tables.items():
            kept[name] = Counter(("", "", row.number * 100 + row.day) for row in tables.raw.rows)
            for view, table in (("days", tables.days), ("months", tables.months)):
                kept[f"{name}_{view}"] = Counter((str(row.day), str(row.count), row.total) for row in table.rows)
        return kept

    def follow(self, puts: Sequence[Put]) -> None:
        """After an insert that failed: let the twin do those puts that the engine has done."""
        found = self.of_engine()
        for put in puts:
            before = [(table, [*table.rows], [*table.partitions], dict(table.known)) for table in self._tables()]
            put()
            if any(count > found[name][row] for name, kept in self.of_twin().items() for row, count in kept.items()):
                for table, rows, partitions, known in before:
                    table.rows, table.partitions, table.known = rows, partitions, known

    def _tables(self) -> list[Table[Any]]:
        kept = [table for tables in self.twin.tables.values() for table in (tables.raw, tables.days, tables.months)]
        return [*kept, self.twin.book]


class Step(Protocol):
    """One thing that is done to both."""

    def do(self, pair: Pair) -> None:
        """Do it."""


@dataclass(frozen=True)
class Insert:
    """Rows under a token (None: without); `failing` names a view that throws meanwhile."""

    name: str
    token: str | None
    rows: tuple[Row, ...]
    failing: str | None = None

    def do(self, pair: Pair) -> None:
        steps = pair.twin.insert(self.name, self.token, self.rows, 0.0)
        puts = [put for step in steps for put in step]
        if self.failing is not None:
            pair.client.command(f"INSERT INTO lever VALUES ('{self.failing}')")
        if pair.insert(self.name, self.token, self.rows):
            for put in puts:
                put()
        else:
            assert self.failing is not None
            pair.follow(puts)
        if self.failing is not None:
            pair.client.command("TRUNCATE TABLE lever")


@dataclass(frozen=True)
class Drop:
    """A table partition goes, as if its put had never been done: of the raw table, its rollup or the book."""

    name: str
    view: str
    day: int

    def do(self, pair: Pair) -> None:
        tables = pair.twin.tables[self.name]
        of: dict[str, Table[Any]] = {"": tables.raw, "days": tables.days, "book": pair.twin.book}
        real = {"": self.name, "days": f"{self.name}_days", "book": "book"}[self.view]
        pair.client.command(f"ALTER TABLE {real} DROP PARTITION {self.day}")
        of[self.view].drop(self.day)


def _block(rows: list[Row]) -> tuple[Row, ...]:
    """In the order of their days, in which the twin puts them: the engine goes by where a day appears first, which
    tells when what is put for one day makes the window forget another."""
    return tuple(sorted(rows, key=lambda row: row.day))


_rows = st.lists(st.builds(Row, st.integers(0, 9), st.sampled_from(DAYS)), min_size=1, max_size=3).map(_block)
_tokens = st.sampled_from(["a", "a", "b", "b", "c", "d", None])
_steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(Insert, st.sampled_from(RAW), _tokens, _rows),
    st.builds(Insert, st.just("one"), st.sampled_from(["a", "b"]), _rows),
    st.builds(Insert, st.sampled_from(RAW), _tokens, _rows, st.sampled_from(VIEWS)),
    st.builds(Drop, st.sampled_from(RAW), st.sampled_from(["", "days", "book"]), st.sampled_from(DAYS)),
)


@pytest.fixture(scope="module")
def tables(embedded: Store) -> Iterator[Client]:
    """A client of tables and views that come to nothing but what the twin has."""
    with closing(connect(embedded, database="default")) as client:
        for statement in ddl():
            client.command(statement)
        yield client


FORGOTTEN_MEANWHILE: Final = [
    Insert("one", "a", (Row(0, 31),)),
    Insert("one", None, (Row(0, 1), Row(0, 2))),
    Insert("one", "b", (Row(0, 1), Row(0, 2), Row(0, 31))),
    Insert("one", "a", (Row(0, 1), Row(0, 2), Row(2, 31))),
]
"""The last insert's first days make the window forget that its last day was there before."""


@pytest.mark.timeout(0)
@model(examples=5)
@example(steps=FORGOTTEN_MEANWHILE)
@given(st.lists(_steps, min_size=4, max_size=12))
def test_engine_and_twin_hold_the_same_after_each_step(tables: Client, steps: list[Step]) -> None:
    pair = Pair(tables)
    for step in steps:
        step.do(pair)
        assert pair.of_engine() == pair.of_twin()
