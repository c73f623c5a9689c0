"""The comments that views should carry, so that DESCRIBE, system.columns and BI tools show what columns mean."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from warpmeter.dictionary import meanings
from warpmeter.dictionary.catalogue import Catalogue, Entry


@dataclass(frozen=True)
class Stale:
    """A view whose comments are not what they should be: what its rows and these columns should say."""

    view: str
    row: str
    columns: Mapping[str, str]


def stale(catalogue: Catalogue) -> Iterator[Stale]:
    """The views that say something else than the dictionary, or nothing."""
    comments = catalogue.comments
    for entry in catalogue.entries.values():
        own = meanings.words().get(entry.name)
        if entry.view and own is not None:
            wanted = {each.name: each for each in _wanted(entry, comments)}
            row = f"one row: {own.row}"
            if wanted or entry.comment != row:
                yield Stale(entry.name, row, {name: each.text for name, each in wanted.items()})


@dataclass(frozen=True)
class _Wanted:
    name: str
    text: str


def _wanted(entry: Entry, comments: meanings.Comments) -> Iterator[_Wanted]:
    if meanings.words()[entry.name].example:  # columns that it has in a call alone
        return
    for column in entry.columns:
        told = meanings.told(entry.name, column.name, comments)
        if told is not None and column.comment != str(told):
            yield _Wanted(column.name, str(told))
