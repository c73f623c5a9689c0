"""Lists in pages: which part, sorted how; the same for every list.

`?limit=&offset=&sort=-field` is answered by `{"data": [...], "total": 123, "next": 100}`; `next` is the offset of the
page after, null on the last. The named query of a list takes `limit`, `offset`, `sort` and `descending`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

import msgspec
from fastapi import Query

from warpmeter.web.request.times import invalid
from warpmeter.web.store.reads import Reads

MOST: Final = 2000
"""Rows of a page, at most."""
FARTHEST: Final = 1_000_000


@dataclass(frozen=True)
class Page:
    """Which part of a list: `limit` rows after `offset`, by the column `sort`."""

    limit: int
    offset: int
    sort: str
    descending: bool

    def parameters(self) -> dict[str, Any]:
        """As named queries take it."""
        return {"limit": self.limit, "offset": self.offset, "sort": self.sort, "descending": int(self.descending)}


def by(columns: tuple[str, ...], default: str) -> Callable[..., Page]:
    """A dependency: the page that a request asks for, sorted by one of `columns`, by default as `default` says."""
    told = f"Column to sort by, with `-` in front the highest first: {', '.join(columns)}."

    def page(
        limit: Annotated[int, Query(ge=1, le=MOST, description="Rows of the page.")] = 100,
        offset: Annotated[int, Query(ge=0, le=FARTHEST, description="Rows before it.")] = 0,
        sort: Annotated[str, Query(description=told, examples=[default])] = default,
    ) -> Page:
        column = sort.removeprefix("-")
        if column not in columns:
            raise invalid("sort", f"cannot sort by {column}; by {', '.join(columns)}", sort)
        return Page(limit, offset, column, sort.startswith("-"))

    return page


def rows(reads: Reads, name: str, **given: object) -> tuple[list[dict[str, Any]], int]:
    """Rows of a named query as dicts, and how many there were before its LIMIT: a column says so, or the store."""
    found = msgspec.json.decode(reads.json(name, form="JSON", **given))
    data: list[dict[str, Any]] = found["data"]
    total: int = found.get("rows_before_limit_at_least", len(data))
    for row in data:
        total = row.pop("total", total)
    return data, total


def page_of(reads: Reads, name: str, page: Page, **given: object) -> tuple[list[dict[str, Any]], int]:
    """A page of a named query, and of how many rows."""
    data, total = rows(reads, name, **given, **page.parameters())
    if not total and page.offset:  # past the end, where no row says how many there are
        first = replace(page, limit=1, offset=0)
        total = rows(reads, name, **given, **first.parameters())[1]
    return data, total


def answer(data: list[dict[str, Any]], total: int, page: Page) -> Mapping[str, Any]:
    """The body of a page."""
    after = page.offset + len(data)
    return {"data": data, "total": total, "next": after if data and after < total else None}
