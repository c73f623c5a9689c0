"""Where answers come from: the store, or the web's API."""

import difflib
import json
import re
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pandas as pd

from warpmeter import store
from warpmeter.frames.asking import AskError, inlined
from warpmeter.frames.dtypes import Column
from warpmeter.queries import Query, Statement
from warpmeter.settings import Store
from warpmeter.store import ClickHouseError, Client

UNKNOWN_COLUMN: Final = 47
UNKNOWN_TABLE: Final = 60
_NAMED: Final = re.compile(r"(?:identifier|columns?|table(?: expression identifier)?|Table):? [`']?([\w.]+)[`']?")
_POSITION: Final = re.compile(r"failed at position (\d+)")
PATIENCE_S: Final = 300


@dataclass(frozen=True)
class Answer:
    """Columns, and blocks of rows as they come."""

    columns: Sequence[Column]
    blocks: Iterator[pd.DataFrame]


class Source(Protocol):
    """What answers. Raises AskError with what to do."""

    def answer(self, asked: Statement, stream: bool = False) -> AbstractContextManager[Answer]:
        """A statement's answer; `stream`: others may be asked before it has been read to its end."""
        ...

    def named(self, query: Query, asked: Statement) -> AbstractContextManager[Answer]:
        """A named query's."""
        ...

    def close(self) -> None:
        """Let go of what is held; nothing is answered any more."""
        ...


class Direct:
    """The store itself. Threads may share it: one asks at a time, and each stream has a client of its own."""

    def __init__(self, settings: Store) -> None:
        self._settings = settings
        self._lock = threading.RLock()
        self._client: Client | None = self._connected()

    def _connected(self) -> Client:
        try:
            return store.connect(self._settings)
        except ClickHouseError as error:
            held = f"cannot open {store.folder(self._settings)}: another process may have it open; ask that one"
            raise AskError(held if "EmbeddedServer" in str(error) else store.reason(error)) from error
        except ImportError as error:
            raise AskError("chdb:// is the engine in this process: pip install 'warpmeter[embedded]'") from error

    @contextmanager
    def answer(self, asked: Statement, stream: bool = False) -> Iterator[Answer]:
        """See Source."""
        with nullcontext() if stream else self._lock:
            if self._client is None:
                raise AskError("it is closed: connect again")
            taken = closing(self._connected()) if stream else nullcontext(self._client)
            try:
                with (
                    taken as client,
                    _watched(client) as left,
                    client.query_df_stream(asked.sql, dict(asked.values)) as blocks,
                    left,
                ):
                    yield Answer(_columns(blocks.source) or _described(client, asked), iter(blocks))
            except ClickHouseError as error:
                raise AskError(self._explained(error, asked)) from error

    def named(self, query: Query, asked: Statement) -> AbstractContextManager[Answer]:  # noqa: ARG002 - the API's need
        """See Source."""
        return self.answer(asked)

    def _explained(self, error: ClickHouseError, asked: Statement) -> str:
        if (at := _POSITION.search(str(error))) and int(at[1]) > len(asked.sql.encode()):
            return "the statement ends too early: a bracket is open, or something is missing at its end"
        about = {UNKNOWN_COLUMN: ("column", "columns"), UNKNOWN_TABLE: ("table or view", "tables")}
        number, named = store.code(error), _NAMED.search(store.cause(error))
        if number not in about or named is None:
            return store.reason(error)
        what, where = about[number]
        name = named[1].rpartition(".")[2]
        meant = difflib.get_close_matches(name, self._known(where), 3, 0.6)
        return f"there is no {what} {name}" + (
            f"; did you mean {', '.join(meant)}?" if meant else f": {store.cause(error)}"
        )

    def _known(self, where: str) -> list[str]:
        sql = f"SELECT DISTINCT name FROM system.{where} WHERE database = currentDatabase()"
        try:
            with closing(self._connected()) as client:
                return [str(name) for (name,) in client.query(sql).result_rows]
        except (ClickHouseError, AskError):
            return []

    def close(self) -> None:
        """See Source."""
        with self._lock:
            client, self._client = self._client, None
            if client is not None:
                client.close()


class _Watched:
    """Connections of a client, which knows the answer that it reads."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self.answer: Any = None

    def request(self, *about: Any, **more: Any) -> Any:
        """As the pool's."""
        self.answer = self._pool.request(*about, **more)
        return self.answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)


@contextmanager
def _watched(client: Client) -> Iterator[AbstractContextManager[None]]:
    """What is put around the reading of an answer, so that who leaves before its end hangs up.

    The client itself would read the rest of it, however long that takes. One without such connections (in this process,
    or of another version) does as it likes.
    """
    backend = getattr(client, "_backend", None)
    pool = getattr(backend, "http", None)
    if backend is None or pool is None:
        yield nullcontext()
        return
    watched = backend.http = _Watched(pool)
    try:
        yield _hung_up(watched)
    finally:
        backend.http = pool


@contextmanager
def _hung_up(watched: _Watched) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(AttributeError, ValueError, OSError):  # another version; it is over already; it was cut before
            watched.answer.shutdown()
        raise


def _columns(found: Any) -> list[Column]:
    return [Column(name, kind.name) for name, kind in zip(found.column_names, found.column_types, strict=True)]


def _described(client: Client, asked: Statement) -> list[Column]:
    """The columns of a statement that answers with no rows, and so not with them either; none of SHOW and the like."""
    try:
        found = client.query(f"DESCRIBE TABLE ({asked.sql}\n)", parameters=dict(asked.values))
    except ClickHouseError:
        return []
    return [Column(str(name), str(kind)) for name, kind, *_ in found.result_rows]


@dataclass(frozen=True)
class Api:
    """The web's API; what it lets through (web.sql_rows) bounds an answer. A token is sent to this address alone."""

    url: str
    token: str = field(default="", repr=False)
    _closed: threading.Event = field(default_factory=threading.Event, repr=False)

    @contextmanager
    def answer(self, asked: Statement, stream: bool = False) -> Iterator[Answer]:  # noqa: ARG002 - nothing streams here
        """See Source; needs an operator."""
        body = json.dumps({"sql": inlined(asked), "exact": False}).encode()
        yield self._grid(self._ask("sql", body))

    @contextmanager
    def named(self, query: Query, asked: Statement) -> Iterator[Answer]:
        """See Source; any viewer may."""
        given = {each.name: asked.values[each.name] for each in query.parameters}
        times = {each.name for each in query.parameters if each.type.startswith("DateTime")}
        told = {name: f"{value}Z".replace(" ", "T") if name in times else value for name, value in given.items()}
        yield self._grid(self._ask(f"queries/{urllib.parse.quote(query.name)}?{urllib.parse.urlencode(told)}"))

    def _ask(self, path: str, body: bytes | None = None) -> dict[str, Any]:
        if self._closed.is_set():
            raise AskError("it is closed: connect again")
        headers = {"accept": "application/json", "content-type": "application/json"}
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(f"{self.url}/api/v1/{path}", body, headers)
        try:
            with _OPENER.open(request, timeout=PATIENCE_S) as reply:
                found: dict[str, Any] = json.load(reply)
                return found
        except urllib.error.HTTPError as error:
            raise AskError(_refused(error)) from error
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise AskError(
                f"{self.url} does not answer as warpmeter's API ({reason}): is `warpmeter web` up?"
            ) from error

    def _grid(self, found: dict[str, Any]) -> Answer:
        if found["truncated"]:
            raise AskError(
                f"the API gives {len(found['rows'])} rows at most (web.sql_rows): ask for less, or the store"
            )
        columns = [Column(each["name"], each["type"]) for each in found["columns"]]
        rows = found["rows"]
        blocks = [pd.DataFrame(rows, columns=[each.name for each in columns], dtype=object)] if rows else []
        return Answer(columns, iter(blocks))

    def close(self) -> None:
        """See Source."""
        self._closed.set()


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would take the token along to wherever it points."""

    def redirect_request(self, *_: Any) -> None:
        """None: what was asked is an error, then."""


_OPENER: Final = urllib.request.build_opener(_NoRedirect)


def _refused(error: urllib.error.HTTPError) -> str:
    try:
        detail = json.load(error)["detail"]
    except (ValueError, KeyError, TypeError):
        return f"{error.url} answers HTTP {error.code}: it is not warpmeter's API, or something stands before it"
    said = detail if isinstance(detail, str) else "; ".join(str(each.get("msg", each)) for each in detail)
    more = {401: ": give a token (token=…)", 403: ": an operator's token is needed"}.get(error.code, "")
    return f"{said}{more}"
