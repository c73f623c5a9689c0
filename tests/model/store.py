"""ClickHouse as ingest must fear it: an insert lands table partition by table partition and view by view.

Each table remembers the last `window` identities of what it took, and drops what comes again under one of them: the
token's (or, without a token, that of the whole block's content) in a table partition. A view is fed whether or not
its source dropped the block, and its target drops by itself. tests/real/test_store_twin.py holds this against the
engine.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Generic, NamedTuple, TypeVar

Put = Callable[[], None]
T = TypeVar("T")


class Row(NamedTuple):
    """A sample: its number, which is its value too, and its day."""

    number: int
    day: int


@dataclass(frozen=True)
class Day:
    """A row of the rollup, and of the rollup's rollup, with the numbers that a real one has only count and sum of."""

    day: int
    numbers: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many samples."""
        return len(self.numbers)

    @property
    def total(self) -> int:
        """The sum of their values."""
        return sum(self.numbers)


@dataclass(frozen=True)
class Landed:
    """A row of the book of spans, with the numbers that a real one has only the count of."""

    table: str
    token: str
    numbers: tuple[int, ...]
    at: float


@dataclass(eq=False)
class Table(Generic[T]):
    """A MergeTree: rows, of which table partition each is, and the identities it still knows, oldest first."""

    window: int
    rows: list[T] = field(default_factory=list)
    partitions: list[int] = field(default_factory=list)
    known: dict[tuple[Any, ...], None] = field(default_factory=dict)

    def put(self, partition: int, identity: tuple[Any, ...], rows: Sequence[T]) -> bool:
        """Take the rows of one table partition; False when they were dropped as known."""
        if (key := (partition, *identity)) in self.known:
            return False
        self.known[key] = None
        while len(self.known) > self.window:
            del self.known[next(iter(self.known))]
        self.rows += rows
        self.partitions += [partition] * len(rows)
        return True

    def drop(self, partition: int) -> None:
        """A table partition goes, with what was known of it."""
        kept = [(row, at) for row, at in zip(self.rows, self.partitions, strict=True) if at != partition]
        self.rows, self.partitions = [row for row, _ in kept], [at for _, at in kept]
        self.known = {key: None for key in self.known if key[0] != partition}


@dataclass(eq=False)
class Tables:
    """A raw table and what its views feed: the rollup by day, and that one's own by month."""

    raw: Table[Row]
    days: Table[Day]
    months: Table[Day]


class StoreTwin:
    """Tables of that window for each name; `book` is fed by all of them."""

    def __init__(self, names: Sequence[str], window: int) -> None:
        self.tables = {name: Tables(Table(window), Table(window), Table(window)) for name in names}
        self.book: Table[Landed] = Table(window)

    def insert(self, name: str, token: str | None, rows: Sequence[Row], at: float) -> list[list[Put]]:
        """The steps of an insert of one block, each of puts that stand or fall by themselves: table partitions, views.

        A store that fails in the midst leaves any of them undone; whoever runs all of them has a whole insert.
        """
        tables = self.tables[name]
        identity: tuple[Any, ...] = ("token", token) if token else ("content", *rows)
        puts = [[_putting(tables.raw, day, identity, part)] for day, part in _by_day(rows)]
        days = [Day(day, tuple(row.number for row in part)) for day, part in _by_day(rows)]
        views = [_putting(tables.days, row.day, (name, *identity), [row]) for row in days]
        for month, part in groupby(days, lambda row: row.day // 30):
            views.append(_putting(tables.months, month, (name, *identity), list(part)))
        landed = Landed(name, token or "", tuple(row.number for row in rows), at)
        views.append(_putting(self.book, max(row.day for row in rows), (name, *identity), [landed]))
        return [*puts, views]


def _by_day(rows: Sequence[Row]) -> Iterator[tuple[int, list[Row]]]:
    ordered = sorted(rows, key=lambda row: row.day)
    return ((day, list(part)) for day, part in groupby(ordered, lambda row: row.day))


def _putting(table: Table[T], partition: int, identity: tuple[Any, ...], rows: Sequence[T]) -> Put:
    def put() -> None:
        table.put(partition, identity, rows)

    return put
