"""What a store has: its tables, views and their columns, with what each means."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from warpmeter.dictionary import meanings
from warpmeter.dictionary.meanings import Comments, Told
from warpmeter.store import Client

INTERNAL: Final = re.compile(
    r".*_(mv|judge|local)|gpu_heatmap_(rows|1m|1h)_(all|part)|schema_.*|\.inner.*|.*_renamed|replay_.*|staging_.*"
)
"""What no analyst asks: made to make others, or here for a while."""
_TABLES: Final = """
SELECT name, engine, comment, {keys}
FROM system.tables WHERE database = {{database:String}} ORDER BY name
"""
_KEYS: Final = "sorting_key, partition_key, engine_full"
_COLUMNS: Final = """
SELECT table, name, type, default_kind, default_expression, comment
FROM system.columns WHERE database = {database:String} ORDER BY table, position
"""


@dataclass(frozen=True)
class Column:
    """One column. `alias` is the expression of an ALIAS; `comment` what the store says of it now."""

    name: str
    type: str
    alias: str
    comment: str


@dataclass(frozen=True)
class Entry:
    """One table or view. Keys are empty for views; `days` is how long rows are kept, None: for ever."""

    name: str
    view: bool
    order: str
    partition: str
    days: int | None
    comment: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Catalogue:
    """All that is there, by name."""

    entries: Mapping[str, Entry]

    @property
    def comments(self) -> Comments:
        """What the tables themselves say of their columns."""
        tables = (entry for entry in self.entries.values() if not entry.view)
        return {(entry.name, each.name): each.comment for entry in tables for each in entry.columns if each.comment}

    def told(self, table: str, column: str) -> Told | None:
        """What a column means; None when nobody says."""
        return meanings.told(table, column, self.comments)

    def untold(self) -> Iterator[str]:
        """Tables without a word on their rows, and columns without a meaning."""
        comments = self.comments
        for entry in self.entries.values():
            if not meanings.words().get(entry.name, meanings.Words()).row:
                yield entry.name
            for column in entry.columns:
                if meanings.told(entry.name, column.name, comments) is None:
                    yield f"{entry.name}.{column.name}"


def read(client: Client, database: str, whole: bool = True) -> Catalogue:
    """What a database has for people, without what is internal.

    Not `whole`, a tenth of the work: without keys and retention, and without the columns of views with parameters,
    which these have in a call alone.
    """
    columns: dict[str, list[Column]] = {}
    for table, name, kind, default, expression, comment in client.query(_COLUMNS, {"database": database}).result_rows:
        columns.setdefault(table, []).append(Column(name, _type(kind), expression * (default == "ALIAS"), comment))
    entries = {}
    for name, engine, comment, order, partition, full in client.query(
        _tables(whole), {"database": database}
    ).result_rows:
        if not INTERNAL.fullmatch(name):
            found = columns.get(name, []) or (_called(client, database, name) if whole else [])
            entries[name] = Entry(name, engine == "View", order, partition, _days(full), comment, tuple(found))
    return Catalogue(entries)


def _tables(whole: bool) -> str:
    return _TABLES.format(keys=_KEYS if whole else "'', '', ''")


def _called(client: Client, database: str, view: str) -> list[Column]:
    """The columns of a view with parameters, which it has in a call alone."""
    example = meanings.words().get(view, meanings.Words()).example
    if not example:
        return []
    rows = client.query(f"DESCRIBE (SELECT * FROM `{database}`.`{view}`({example}))").result_rows
    return [Column(name, _type(kind), "", "") for name, kind, *_ in rows]


def _type(text: str) -> str:
    """A type in one line."""
    return re.sub(r"\( ", "(", " ".join(text.split()))


def _days(engine_full: str) -> int | None:
    found = re.search(r" TTL .*toIntervalDay\((\d+)\)", engine_full)
    return int(found[1]) if found else None
