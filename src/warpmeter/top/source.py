"""Where the rows come from: named queries, asked of the store or of the API."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import HTTPError

from warpmeter import queries, store
from warpmeter.settings import Store
from warpmeter.store import ClickHouseError

PATIENCE_S: Final = 10
"""Seconds that a connection or an answer is waited for."""
JSON: Final[Mapping[str, Any]] = {"output_format_json_quote_64bit_integers": 0, "output_format_json_quote_denormals": 0}


class SourceError(Exception):
    """What was asked was not answered; the message says why and what to do.

    `absent`: there is no such query or table there, so asking again does not help.
    """

    def __init__(self, why: str, absent: bool = False) -> None:
        super().__init__(why)
        self.absent = absent


@dataclass(frozen=True)
class Rows:
    """What a query answered: columns by name, and rows as lists of JSON's values."""

    columns: tuple[str, ...] = ()
    rows: Sequence[Sequence[Any]] = ()

    def first(self) -> dict[str, Any]:
        """The first row by column; empty when there is none."""
        return dict(zip(self.columns, self.rows[0], strict=True)) if self.rows else {}

    def column(self, name: str) -> list[Any]:
        """The values of a column; empty when there is no such column."""
        if name not in self.columns:
            return []
        place = self.columns.index(name)
        return [row[place] for row in self.rows]


class Source(Protocol):
    """Answers named queries. One thread asks at a time."""

    @property
    def name(self) -> str:
        """Where it asks, for people; without secrets."""

    def ask(self, query: str, given: Mapping[str, str]) -> Rows:
        """The rows of a named query. Raises SourceError."""


@dataclass(frozen=True)
class StoreSource:
    """The store itself, by its settings."""

    settings: Store

    @property
    def name(self) -> str:
        """Its address."""
        found = urlsplit(self.settings.dsn)
        return f"{found.scheme}://{found.netloc.rpartition('@')[2]}{found.path.rstrip('/')}"

    def ask(self, query: str, given: Mapping[str, str]) -> Rows:
        """As the port says."""
        asked = queries.get(query).statement(given)
        try:
            client = store.client(self.settings, patience_s=PATIENCE_S)
            body = client.raw_query(asked.sql, dict(asked.values), settings=dict(JSON), fmt="JSONCompact")
        except ClickHouseError as error:
            raise SourceError(store.reason(error), store.code(error) == NO_TABLE) from error
        except (OSError, HTTPError) as error:
            raise SourceError(store.cause(error)) from error
        return _rows(body, "meta", "data")


NO_TABLE: Final = 60
"""ClickHouse's code: UNKNOWN_TABLE."""


@dataclass(frozen=True)
class ApiSource:
    """The API of `warpmeter web` at `url`, with a bearer `token` where it wants one."""

    url: str
    token: str = field(default="", repr=False)
    _pool: urllib3.PoolManager = field(
        default_factory=lambda: urllib3.PoolManager(timeout=PATIENCE_S, retries=False), compare=False, repr=False
    )

    @property
    def name(self) -> str:
        """Its address."""
        return self.url

    def ask(self, query: str, given: Mapping[str, str]) -> Rows:
        """As the port says."""
        headers = {"accept-encoding": "gzip"} | ({"authorization": f"Bearer {self.token}"} if self.token else {})
        address = f"{self.url.rstrip('/')}/api/v1/queries/{query}"
        try:
            answer = self._pool.request("GET", address, fields=dict(given), headers=headers, redirect=False)
        except (HTTPError, OSError, ValueError) as error:
            raise SourceError(
                f"cannot reach {self.url}: {_short(error)}; is `warpmeter web` up, and the address right (--url)?"
            ) from error
        if answer.status != 200:
            raise SourceError(self._refused(answer.status, answer.data), answer.status == 404)
        return _rows(answer.data, "columns", "rows")

    def _refused(self, status: int, body: bytes) -> str:
        if status == 401:
            held = "refuses the token" if self.token else "wants a token"
            return f"{self.url} {held}: give one of web.tokens in --token-file or WARPMETER_TOKEN"
        if 300 <= status < 400:
            return f"{self.url} answers with a redirection ({status}): give the address that it leads to"
        return f"{self.url} answers {status}: {_detail(body)}"


_CONNECTION: Final = re.compile(r"^(<[^>]*>|HTTPS?Connection(Pool)?\([^)]*\)): ")


def _short(error: Exception) -> str:
    """The transport's last words, without its objects."""
    return _CONNECTION.sub("", str(getattr(error, "reason", None) or error))


def _detail(body: bytes) -> str:
    """What an answer of the API says of itself, in one line."""
    try:
        found = json.loads(body)
        detail = found["detail"] if isinstance(found, dict) else found
    except (ValueError, KeyError):
        detail = body[:200].decode(errors="replace")
    if isinstance(detail, list):
        detail = "; ".join(str(each.get("msg", each)) if isinstance(each, dict) else str(each) for each in detail)
    return " ".join(str(detail).split())[:300]


def _rows(body: bytes, meta: str, data: str) -> Rows:
    try:
        found = json.loads(body)
        return Rows(tuple(each["name"] for each in found[meta]), found[data])
    except (ValueError, KeyError, TypeError) as error:
        raise SourceError("the answer is no JSON of rows: it was cut, or something else answers there") from error
