"""A list of the API as a table: filtered, sorted and paged by the server, the choice in the page's address."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import nicegui.elements.aggrid  # noqa: F401 - registers the library that the panel draws with

from warpmeter.web.panels.panel import Panel

Kind = Literal[
    "text", "number", "value", "time", "ago", "duration", "state", "host", "job", "list", "spark", "capture", "kernel"
]  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A column of a table: `field` of a row of the API, how it is shown, and by which field the server sorts it.

    `unit` is the metric table's, for kind `value`; `sort` left out: by `field`; empty: not sorted.
    """

    field: str
    name: str
    kind: Kind = "text"
    unit: str = ""
    width: int = 110
    flex: int = 0
    sort: str | None = None


@dataclass(frozen=True)
class Choice:
    """A filter that is one of a few values: the parameter of API and address, its name, and the values."""

    parameter: str
    name: str
    values: Sequence[str]


@dataclass(frozen=True)
class Listing:
    """What a table shows of which list. `key` begins the table's parameters in the address; `row` is the field that
    tells rows apart; `search` names what the API's search looks in, '' where it has none; `sort` is the order while
    the address names none; `empty` says why there may be nothing, and what to do.
    """

    source: str
    title: str
    columns: Sequence[Column]
    key: str
    row: str
    search: str = ""
    choices: Sequence[Choice] = ()
    limit: int = 25
    sort: str = ""
    empty: str = "Nothing here."


class Table(Panel, component="listing.js"):
    """Rows of a list in pages (`web/request/paging.py`); `follows` are parameters of the address that filter it."""

    def __init__(self, listing: Listing, follows: Sequence[str] = ()) -> None:
        super().__init__(listing.source, listing.title, follows)
        self._props["columns"] = [asdict(column) for column in listing.columns]
        self._props["choices"] = [asdict(choice) for choice in listing.choices]
        self._props |= {name: getattr(listing, name) for name in ("row", "search", "limit", "sort", "empty")}
        self._props["table"] = listing.key
