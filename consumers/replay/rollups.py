"""What is made of a raw table's rows, read from the store's own views, and how to take a time range out of it.

A target of the views is one of four: `windows` of its own are deleted; of windows that it shares with other raw tables
the columns that come from this one are set to what adds nothing (zero, NULL); `totals` over all time are
made again for the keys concerned (`totals`); what has neither (the latest of everything) takes the same row twice
without a difference, and `ingest_batches` is a book of inserts.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from warpmeter import migrate
from warpmeter.consumers.replay.errors import ReplayError
from warpmeter.consumers.replay.hours import Range
from warpmeter.settings import Store
from warpmeter.store import Client

BOOK: Final = "ingest_batches"
_NOTHING: Final = {
    re.compile(r"SimpleAggregateFunction\((sum, (Float|U?Int)|max, UInt)\d+\)"): "0",
    re.compile(r"SimpleAggregateFunction\((min|max|any|anyLast), Nullable\("): "NULL",
    re.compile(r"SimpleAggregateFunction\(groupUniqArrayArray, "): "[]",
}


@dataclass(frozen=True)
class View:
    """A materialized view: the table it reads, the one it fills, its query, the columns it gives."""

    name: str
    source: str
    target: str
    select: str
    columns: frozenset[str]


@dataclass(frozen=True)
class Table:
    """A table: its columns with their types, in order, and its sorting key's columns."""

    name: str
    types: Mapping[str, str]
    key: tuple[str, ...]
    view: View | None = None

    @property
    def sums(self) -> tuple[str, ...]:
        """Columns that add up."""
        return tuple(name for name, kind in self.types.items() if kind.startswith("SimpleAggregateFunction(sum"))


@dataclass(frozen=True)
class Shared:
    """Windows that other raw tables fill as well; `columns` are this one's."""

    table: Table
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Rollups:
    """All that is made of one raw table."""

    windows: tuple[Table, ...] = ()
    shared: tuple[Shared, ...] = ()
    totals: tuple[Table, ...] = ()


def read(client: Client, store: Store, table: str) -> tuple[Table, Rollups]:
    """The raw table as it is inserted to (`table` of the topic table), and what is made of it."""
    tables, views = _tables(client), _views(client)
    raw = store.local(table)
    return tables[raw], derived(raw, tables, views)


def _tables(client: Client) -> dict[str, Table]:
    keys = client.query(
        "SELECT name, splitByString(', ', sorting_key) FROM system.tables WHERE database = currentDatabase()"
    ).result_rows
    columns = client.query(
        "SELECT table, name, type FROM system.columns WHERE database = currentDatabase() "
        "AND default_kind NOT IN ('ALIAS', 'MATERIALIZED') ORDER BY table, position"
    ).result_rows
    types: dict[str, dict[str, str]] = {}
    for table, name, kind in columns:
        types.setdefault(table, {})[name] = kind
    return {name: Table(name, types.get(name, {}), tuple(filter(None, key))) for name, key in keys}


def _views(client: Client) -> list[View]:
    found = client.query(
        "SELECT source.name, view.name, extract(view.create_table_query, ' TO `?[^.]+?`?\\.`?([^ `]+)'), "
        "view.as_select FROM (SELECT name, arrayJoin(dependencies_table) AS dependent FROM system.tables "
        "WHERE database = currentDatabase()) AS source JOIN system.tables AS view ON view.name = source.dependent "
        "WHERE view.database = currentDatabase() AND view.engine = 'MaterializedView' ORDER BY 1, 2"
    ).result_rows
    columns = client.query(
        "SELECT table, groupArray(name) FROM system.columns WHERE database = currentDatabase() GROUP BY table"
    ).result_rows
    given = {table: frozenset(names) for table, names in columns}
    return [View(name, source, target, select, given[name]) for source, name, target, select in found]


def derived(raw: str, tables: Mapping[str, Table], views: Sequence[View]) -> Rollups:
    """What `raw` is made into, over views of views."""
    filled = _filled(raw, views)
    windows: list[Table] = []
    shared: list[Shared] = []
    totals: list[Table] = []
    for name, (columns, view) in filled.items():
        table = Table(name, tables[name].types, tables[name].key, view)
        if "window" in table.types:
            if _filled_by_others(name, raw, views):
                shared.append(_shared(table, columns))
            else:
                windows.append(table)
        elif table.sums:
            totals.append(table)
    return Rollups(tuple(windows), tuple(shared), tuple(totals))


def _shared(table: Table, columns: frozenset[str]) -> Shared:
    ours = tuple(column for column in table.types if column in columns and column not in table.key)
    wrong = [column for column in ours if neutral(table.types[column]) is None]
    if wrong:
        raise ReplayError(f"{table.name} is filled from several tables, and its {wrong[0]} cannot be taken back")
    return Shared(table, ours)


def neutral(kind: str) -> str | None:
    """What adds nothing to a column of windows, as SQL; None where no value does."""
    return next((nothing for pattern, nothing in _NOTHING.items() if pattern.match(kind)), None)


def _filled(raw: str, views: Sequence[View]) -> dict[str, tuple[frozenset[str], View]]:
    """Every table that views fill from `raw`, with those of its columns whose values come from there."""
    found: dict[str, tuple[frozenset[str], View]] = {}
    todo: list[tuple[str, frozenset[str] | None]] = [(raw, None)]
    while todo:
        source, known = todo.pop(0)
        for view in (each for each in views if each.source == source and not each.target.startswith(BOOK)):
            columns = view.columns if known is None else view.columns & known
            had = found.get(view.target, (frozenset(), view))[0]
            found[view.target] = (had | columns, view)
            todo.append((view.target, columns))
    return found


def _filled_by_others(name: str, raw: str, views: Sequence[View]) -> bool:
    """Whether rows of another raw table come to `name` as well, over however many views."""
    made = {view.target for view in views}
    roots = {view.source for view in views} - made - {raw}
    return any(name in _filled(root, views) for root in roots)


def deletes(store: Store, raw: Table, rollups: Rollups, wanted: Range) -> Iterable[str]:
    """The mutations that take the range out of everything; they may be run again."""
    for shared in rollups.shared:
        nothing = ", ".join(f"`{column}` = {neutral(shared.table.types[column])}" for column in shared.columns)
        yield f"ALTER TABLE {_named(store, shared.table)} UPDATE {nothing} WHERE {wanted.of_windows}"
    for table in rollups.windows:
        yield f"ALTER TABLE {_named(store, table)} DELETE WHERE {wanted.of_windows}"
    yield f"ALTER TABLE {_named(store, raw)} DELETE WHERE {wanted.of_rows}"


def _named(store: Store, table: Table) -> str:
    return named(store, table.name) + on_cluster(store)


def named(store: Store, table: str) -> str:
    """A table with its database, quoted."""
    return f"{migrate.identifier(store.database)}.`{table}`"


def on_cluster(store: Store) -> str:
    """The clause that makes a statement run on every server of the cluster; nothing without one."""
    return f" ON CLUSTER {migrate.identifier(store.cluster)}" if store.cluster else ""
