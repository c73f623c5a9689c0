"""What the API asks the store: named queries, bounded, as rows or as the engine's own JSON."""

import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from math import ceil
from typing import IO, Any, Final, cast
from urllib.parse import quote

import msgspec
from clickhouse_connect.driver.exceptions import OperationalError
from urllib3.exceptions import HTTPError

from warpmeter import queries, store
from warpmeter.queries import QueryError
from warpmeter.settings import Store, Web
from warpmeter.store import Client
from warpmeter.web.store.load import Load

FORMAT: Final[Mapping[str, Any]] = {
    "date_time_output_format": "iso",
    "output_format_json_quote_64bit_integers": 0,
    "output_format_json_quote_denormals": 0,
}
"""JSON as browsers take it: ISO times, plain numbers, null for what is not a number."""
CUT: Final = "the store's answer ended too early: its connection was cut; ask again"
PIECE: Final = 1 << 16
ADDRESS: Final = 3900
"""Bytes of values in an address: the client takes 4 KiB for too long, with names and signs between them."""
_ESCAPED: Final = re.compile(r"[\\'\s]")
PATIENCE_S: Final = 5
"""So much longer than a query may take is waited for its answer: the store tells of the limit itself."""


@dataclass(frozen=True)
class Reads:
    """Named queries of `sql/queries` for a request, each bounded in time, memory, rows and bytes by the settings.

    Each thread has a client of its own, so call it from worker threads: endpoints are plain `def`.
    """

    store: Store
    limits: Web
    load: Load = field(default_factory=Load, compare=False, repr=False)

    def rows(self, name: str, **given: object) -> list[dict[str, Any]]:
        """Rows of a query as dicts. Raises QueryError for what it was given, ClickHouseError from the store."""
        found: list[dict[str, Any]] = msgspec.json.decode(self.json(name, form="JSON", **given))["data"]
        return found

    def json(self, name: str, form: str = "JSONColumns", **given: object) -> bytes:
        """The engine's own JSON of a query, untouched: for answers too large to be worth a look from Python.

        `form` is ClickHouse's: JSONColumns is `{"host": [...], "values": [...]}`. Raises as `rows` does.
        """
        return self.raw(queries.get(name), _texts(given), form, self._bounds())

    def raw(self, query: queries.Query, given: Mapping[str, str], form: str, bounds: Mapping[str, Any]) -> bytes:
        """A query in any of ClickHouse's formats, within bounds of its own. Raises as `rows` does."""
        asked = query.statement(given)
        return self.whole(asked.sql, asked.values, form, bounds)

    def whole(self, sql: str, given: Mapping[str, Any], form: str, bounds: Mapping[str, Any]) -> bytes:
        """What a statement answers, to its end. Raises ClickHouseError, also where the connection ended before, and
        QueryError for values that are longer than an address may be."""
        _fits(given)
        with self.load.one():
            body = self.client().raw_query(sql, dict(given), settings={**bounds, **FORMAT}, fmt=form)
        return ended(body, form)

    def bounded(self, sql: str, form: str, settings: Mapping[str, Any], most: int, within_s: float) -> bytes:
        """What a statement answers, if it is no longer than `most` bytes: no more is ever held, here or in the store.

        The store counts a constant column, or one of few values, once: what it writes of it is longer. It holds the
        answer back until it is longer than may be, so that an error is still one. Raises TooLongError,
        ClickHouseError.
        """
        bounds = {**settings, "buffer_size": most + 1}
        answer = cast(IO[bytes], self.client(within_s).raw_stream(sql, settings=bounds, fmt=form))
        with closing(answer):
            return ended(_read(answer, most), form)

    def client(self, within_s: float = 0) -> Client:
        """This thread's client, which gives a store up that is silent for longer than a query may take."""
        return store.client(self.store, patience_s=ceil(max(self.limits.query_s, within_s)) + PATIENCE_S)

    def within(self, limits: Mapping[str, float]) -> dict[str, float]:
        """Limits, as far as the store lets this user set them: it refuses others. Raises ClickHouseError."""
        allowed = _allowed(self, tuple(limits))
        least = {name: max(limit, allowed[name][0] or limit) for name, limit in limits.items()}
        return {name: min(limit, allowed[name][1] or limit) for name, limit in least.items()}

    def _bounds(self) -> dict[str, float]:
        web = self.limits
        return self.within(
            {
                "max_execution_time": web.query_s,
                "max_memory_usage": web.query_memory,
                "max_result_rows": web.query_rows,
                "max_result_bytes": web.query_bytes,
            }
        )


def _fits(given: Mapping[str, Any]) -> None:
    """Longer values the client sends as a form, which not every store takes."""
    lengths = {name: len(quote(_ESCAPED.sub(r"\\\g<0>", str(value)))) for name, value in given.items()}
    if sum(lengths.values()) + sum(map(len, lengths)) > ADDRESS:
        longest = max(lengths, key=lambda name: lengths[name])
        raise QueryError(f"{longest} is too long: the store takes {ADDRESS} bytes of all values together", longest)


class TooLongError(Exception):
    """An answer is longer than one may be."""


def _read(answer: IO[bytes], most: int) -> bytes:
    found = bytearray()
    try:
        while piece := answer.read(PIECE):
            found += piece
            if len(found) > most:
                raise TooLongError
    except HTTPError as error:
        raise OperationalError(CUT) from error
    return bytes(found)


def ended(body: bytes, form: str) -> bytes:
    """The same; raises OperationalError where it has no end.

    A connection that ends among the headers of an answer is, to HTTP's client, an answer of nothing.
    """
    last = body[-2:].strip(b"\n")[-1:] if form.startswith("JSON") else body[-1:]
    if not last or last not in b"}]\n":
        raise OperationalError(CUT)
    return body


@cache
def _allowed(reads: Reads, names: tuple[str, ...]) -> Mapping[str, tuple[float | None, float | None]]:
    """The least and the most of each setting, where there is one."""
    sql = (
        "SELECT name, toFloat64OrNull(min), toFloat64OrNull(max) FROM system.settings"
        " WHERE name IN {names:Array(String)}"
    )
    rows = msgspec.json.decode(reads.whole(sql, {"names": list(names)}, "JSONCompact", {}))["data"]
    return dict.fromkeys(names, (None, None)) | {str(name): (least, most) for name, least, most in rows}


def _texts(given: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in given.items() if value is not None}
