"""ClickHouse clients from one DSN: `http(s)://` for a server, `chdb:///path` for the engine in this process.

A client serialises its calls, so each thread takes its own: `client(store)` keeps one a thread.
"""

import logging
import re
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError, OperationalError

from warpmeter import tokens
from warpmeter.settings import Store

__all__ = ["Client", "ClickHouseError", "ONE_BLOCK", "cause", "client", "connect", "folder", "reason", "release"]

# The whole insert is one block, so that a replay is the very same one; and a token goes on to the views.
# https://clickhouse.com/docs/operations/settings/settings
ONE_BLOCK: Final[Mapping[str, int]] = {
    "async_insert": 0,
    "max_insert_threads": 1,
    "input_format_parallel_parsing": 0,
    "max_insert_block_size": 1_000_000_000,
    "min_insert_block_size_rows": 1_000_000_000,
    "min_insert_block_size_bytes": 0,
    "deduplicate_blocks_in_dependent_materialized_views": 1,
    "insert_deduplicate": 1,
    # What a view makes of a block is aggregated already: collapsing it once more cost a third of the insert's CPU.
    "optimize_on_insert": 0,
    "parallel_view_processing": 1,
    # Times spread over more days than the default allows are no reason to refuse a batch for ever.
    "max_partitions_per_insert_block": 0,
}

IN_MEMORY: Final = ("", "memory", ":memory:")
_clients = threading.local()
_open: "weakref.WeakKeyDictionary[Client, str]" = weakref.WeakKeyDictionary()
"""Every thread's clients, each with its DSN."""
logging.getLogger("clickhouse_connect").addHandler(logging.NullHandler())  # its errors are raised as well


def connect(
    store: Store, database: str | None = None, settings: Mapping[str, Any] | None = None, patience_s: int | None = None
) -> Client:
    """A new client; `database` defaults to the setting. Raises ClickHouseError when the store cannot be reached.

    `patience_s` bounds each wait for a connection or an answer of a server: seconds, by default 10 and 300.
    The caller owns it: one client for one thread at a time. An embedded engine's folder is put right before it opens.
    """
    if (embedded := folder(store)) is not None:
        _put_right(embedded)
    waits = ("connect_timeout", "send_receive_timeout")
    patience: dict[str, Any] = {} if patience_s is None else dict.fromkeys(waits, patience_s)
    client: Client = clickhouse_connect.get_client(
        dsn=store.dsn,
        database=store.database if database is None else database,
        settings=dict(settings or {}),
        autogenerate_session_id=False,
        **patience,
    )
    return client


def _put_right(folder: Path) -> None:
    try:
        tokens.forget_unless_open(folder)
    except OSError as error:
        raise OperationalError(f"cannot open {folder}: {error.strerror}; let this user write there") from error


def folder(store: Store) -> Path | None:
    """Where the engine in this process keeps its data; None for a server, and for an engine in memory."""
    found = urlsplit(store.dsn)
    where = found.netloc.rpartition("@")[2] or found.path
    return Path(where) if found.scheme == "chdb" and where not in IN_MEMORY else None


def client(store: Store, patience_s: int | None = None) -> Client:
    """This thread's client of `store`, made at first use; `patience_s` as for `connect`."""
    kept: dict[tuple[Store, int | None], Client] = _clients.__dict__.setdefault("kept", {})
    found = kept.get((store, patience_s))
    if found is None or found not in _open:
        found = kept[store, patience_s] = connect(store, patience_s=patience_s)
        _open[found] = store.dsn
    return found


def release(store: Store) -> None:
    """Close the clients that threads have of `store`, whichever database: an engine in this process ends with its last.

    For who knows that none of them is at work; a thread that asks again gets a new one.
    """
    for found in [each for each, dsn in list(_open.items()) if dsn == store.dsn]:
        del _open[found]
        found.close()


def reason(error: Exception) -> str:
    """What a store's error says to a person: in place of the transport's words, what to do."""
    text = str(error)
    if refused := re.search(r"HTTPS?ConnectionPool\(host='([^']+)', port=(\d+)\): Max retries", text):
        return (
            f"cannot reach ClickHouse at {refused[1]}:{refused[2]}: is it up (`warpmeter up` and `warpmeter engine` "
            "bring one), and is the address right (--store, store.dsn)?"
        )
    if silent := re.search(r"HTTPS?ConnectionPool\(host='([^']+)', port=(\d+)\): Read timed out", text):
        return (
            f"ClickHouse at {silent[1]}:{silent[2]} does not answer in time: it is stopped, has too much to do, or the "
            "network between is at fault"
        )
    if "Connection aborted" in text or "Connection broken" in text:
        return "ClickHouse cut the connection before it had answered: it was stopped, or something between did"
    if code(error) == NO_DATABASE and (found := _DATABASE.search(text)):
        return f"database {found[1]} is not there: run `warpmeter migrate`, or correct store.database"
    return cause(error)


NO_DATABASE: Final = 81
_DATABASE: Final = re.compile(r"Database `?([\w-]+)`? (?:does not|doesn't) exist")


_SERVERS: Final = re.compile(r"^Received ClickHouse exception, code: \d+, server response: ")
_TAIL: Final = re.compile(r"( \(version [^()]*(\([^()]*\))?\))?( \(for url \S+\))?$")
_STATUS: Final = re.compile(r"^HTTP driver received HTTP status (\d{3})(?:, server response: (.*))?$")
_PEER: Final = re.compile(r"HTTPS?Connection(?:Pool)?\(host='([^']+)', port=(\d+)\)")
_TAG: Final = re.compile(r"<(style|script|title)\b.*?</\1>|<[^>]*>", re.DOTALL)
_CODE: Final = re.compile(r"^Code: (\d+)\. ")
_LONGEST: Final = 600


def code(error: Exception) -> int | None:
    """ClickHouse's number of an error, None when it is not ClickHouse's."""
    number = getattr(error, "code", None)
    if number is None and (found := _CODE.match(_root(error))):
        number = int(found[1])
    return number


def cause(error: Exception) -> str:
    """A store's error in one line for a log, without the client's and the transport's own words, and bounded.

    What ClickHouse says begins with `Code: `, what another HTTP server says with `HTTP <status> `.
    """
    said = _TAIL.sub("", " ".join(_root(error).split()))
    if status := _STATUS.match(said):
        page = " ".join(_TAG.sub(" ", status[2] or "").split())
        said = f"HTTP {status[1]} by something before ClickHouse" + (f": {page[:120]}" if page else "")
    said = _PEER.sub(r"\1:\2", _SERVERS.sub("", said))
    return said if len(said) <= _LONGEST else f"{said[: _LONGEST - 202]} … {said[-199:]}"


def _root(error: Exception) -> str:
    """The transport's reason, which its client wraps in the whole address; else the error itself."""
    found: BaseException = error.__cause__ or error
    reason = getattr(found, "reason", None)
    if isinstance(found, UnicodeDecodeError):  # chDB's message quotes bytes that are no text
        return found.object.decode(errors="backslashreplace")
    return str(reason if isinstance(reason, Exception) else found) or type(found).__name__
