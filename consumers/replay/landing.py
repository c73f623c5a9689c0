"""From the staging table into the raw one and its rollups: the range is deleted, then filled, each step repeatable."""

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from warpmeter.cluster import quorum
from warpmeter.consumers.replay import book
from warpmeter.consumers.replay.hours import Range, said
from warpmeter.consumers.replay.rollups import BOOK, Rollups, Table, deletes, named, on_cluster
from warpmeter.consumers.replay.staging import Run
from warpmeter.consumers.replay.totals import affected, renewed
from warpmeter.consumers.sink.clickhouse import ONE_BLOCK
from warpmeter.settings import Store
from warpmeter.store import Client

CHUNK_ROWS: Final = 500_000
"""Rows of an insert: one block, which is in memory with what all views make of it."""
SKEW_S: Final = 60.0
"""So far the clocks of this host and of the store may be apart."""
MUTATION: Final = {"mutations_sync": 2, "allow_nondeterministic_mutations": 1}


@dataclass(frozen=True)
class Chunk:
    """Rows with `start` <= ts < `end`, seconds since the epoch: one insert."""

    start: int
    end: int
    rows: int

    @property
    def name(self) -> str:
        """What the insert's token ends with."""
        return f"{said(self.start)}+{self.end - self.start}s"


@dataclass(frozen=True)
class Tables:
    """What a run changes."""

    raw: Table
    rollups: Rollups


class Mover:
    """Deletes and inserts of one run. Raises ClickHouseError; all of it may be done again."""

    def __init__(self, client: Client, store: Store, tables: Tables, run: Run) -> None:
        self._client = client
        self._store = store
        self._raw, self._rollups = tables.raw, tables.rollups
        self._run = run
        self._columns: dict[str, set[str]] = {}

    def keep_late(self) -> None:
        """Into the staging table what ingest landed of the range after it was read, when this run was interrupted:
        the deletion takes that out as well. And the totals' part beside the range with what it landed there."""
        if not self._went_on():
            return
        self._keep(self._raw, self._late_rows(), self._run.name("staged"))
        for table in self._rollups.totals:
            stale, fresh = renewed(self._store, self._run, self._raw, table)
            self._mutate(stale)
            self._keep(table, fresh, self._run.totals(table.name))

    def _went_on(self) -> bool:
        run, book_ = self._run, named(self._store, BOOK)
        ((landed,),) = self._client.query(
            f"SELECT count() FROM {book_} WHERE table = {{table:String}} AND NOT startsWith(token, 'replay/') "
            "AND inserted_at >= fromUnixTimestamp64Milli({began:Int64})",
            {"table": run.table, "began": int((run.began - SKEW_S) * 1000)},
        ).result_rows
        return bool(landed)

    def _late_rows(self) -> str:
        run = self._run
        staged, key = run.name("staged"), ", ".join(dict.fromkeys((*self._raw.key, "ts")))
        known = f"SELECT {key} FROM {named(self._store, staged)} WHERE {run.wanted.of_rows}"
        everywhere = named(self._store, run.table if self._store.cluster else self._raw.name)
        names = self._shared_columns(self._raw, staged)
        return f"SELECT {names} FROM {everywhere} WHERE {run.wanted.of_rows} AND ({key}) NOT IN ({known})"

    def _keep(self, table: Table, rows: str, into: str) -> None:
        """Under a token that nobody has used: what came since a first try is in no earlier insert."""
        names, token = self._shared_columns(table, into), f"replay/{self._run.id}/late/{uuid.uuid4().hex}"
        insert(self._client, self._store, f"{into} ({names})", f"SELECT {names} FROM ({rows})", token)

    def delete(self) -> None:
        """Take the range out of everything. Totals first: which keys are concerned is read from the raw rows."""
        self._mutate(book.delete(self._store, self._run))
        staged = self._run.name("staged")
        for table in self._rollups.totals:
            keys = ", ".join(f"`{name}`" for name in table.key)
            concerned = affected(self._store, self._run, self._raw, table, staged)
            where = f"{named(self._store, table.name)}{on_cluster(self._store)}"
            self._mutate(f"ALTER TABLE {where} DELETE WHERE ({keys}) IN ({concerned})")
        for statement in deletes(self._store, self._raw, self._rollups, self._run.wanted):
            self._mutate(statement)

    def _mutate(self, statement: str) -> None:
        self._client.command(statement, settings=MUTATION)

    def chunks(self) -> list[Chunk]:
        """The inserts: the same each time, for the staging table does not change any more."""
        rows = self._client.query(
            f"SELECT toUnixTimestamp(toStartOfSecond(ts)) AS second, count() "
            f"FROM {named(self._store, self._run.name('landing'))} WHERE {self._run.wanted.of_rows} "
            "GROUP BY second ORDER BY second"
        ).result_rows
        return chunked(((int(second), int(count)) for second, count in rows), CHUNK_ROWS)

    def fill(self, chunks: Sequence[Chunk], landed: Callable[[Chunk], None]) -> None:
        """Insert all; what the store has under these tokens it drops."""
        mended = f"SELECT {book.COLUMNS} FROM {named(self._store, self._run.totals(BOOK))}"
        token = f"replay/{self._run.id}/{BOOK}"
        insert(self._client, self._store, f"{self._store.local(BOOK)} ({book.COLUMNS})", mended, token)
        for table in self._rollups.totals:
            self._insert(table, self._run.totals(table.name), "1", table.name)
        for chunk in chunks:
            within = Range(chunk.start, chunk.end).of_rows
            self._insert(self._raw, self._run.name("landing"), within, chunk.name)
            landed(chunk)

    def _insert(self, table: Table, source: str, condition: str, name: str) -> None:
        names = self._shared_columns(table, source)
        rows = f"SELECT {names} FROM {named(self._store, source)} WHERE {condition}"
        insert(self._client, self._store, f"{table.name} ({names})", rows, f"replay/{self._run.id}/{name}")

    def _shared_columns(self, table: Table, source: str) -> str:
        """Those that both have: a migration may have come between a replay that was killed and its end."""
        if source not in self._columns:
            found = self._client.query(
                "SELECT name FROM system.columns WHERE database = {database:String} AND table = {table:String}",
                {"database": self._store.database, "table": source},
            ).result_rows
            self._columns[source] = {name for (name,) in found}
        return ", ".join(f"`{name}`" for name in table.types if name in self._columns[source])


def insert(client: Client, store: Store, into: str, rows: str, token: str) -> None:
    """One insert of a query's rows as one block under `token`; `into` is a table, with columns if not all."""
    table, _, columns = into.partition(" ")
    settings = {**ONE_BLOCK, **quorum(store), "max_threads": 1, "insert_deduplication_token": token}
    client.command(f"INSERT INTO {named(store, table)} {columns} {rows}", settings=settings)


def chunked(seconds: Iterable[tuple[int, int]], most_rows: int) -> list[Chunk]:
    """Seconds with their rows, ascending, as chunks of one hour at most and about `most_rows`."""
    chunks: list[Chunk] = []
    for second, rows in seconds:
        last = chunks[-1] if chunks else None
        if last is not None and last.start // 3600 == second // 3600 and last.rows + rows <= most_rows:
            chunks[-1] = Chunk(last.start, second + 1, last.rows + rows)
        else:
            chunks.append(Chunk(second, second + 1, rows))
    return chunks
