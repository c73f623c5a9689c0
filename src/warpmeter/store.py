"""ClickHouse clients from one DSN: `http(s)://` for a server, `chdb:///path` for the engine in this process.

A client serialises its calls, so each thread takes its own: `client(store)` keeps one a thread.
"""

import logging
import re
import threading
from collections.abc import Mapping
from typing import Any

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError

from warpmeter.settings import Store

__all__ = ["Client", "ClickHouseError", "client", "connect"]

_clients = threading.local()
logging.getLogger("clickhouse_connect").addHandler(logging.NullHandler())  # its errors are raised as well


def connect(store: Store, database: str | None = None, settings: Mapping[str, Any] | None = None) -> Client:
    """A new client; `database` defaults to the setting. Raises ClickHouseError when the store cannot be reached.

    The caller owns it: one client for one thread at a time.
    """
    client: Client = clickhouse_connect.get_client(
        dsn=store.dsn,
        database=store.database if database is None else database,
        settings=dict(settings or {}),
        autogenerate_session_id=False,
    )
    return client


def client(store: Store) -> Client:
    """This thread's client of `store`, made at first use."""
    kept: dict[Store, Client] = _clients.__dict__.setdefault("kept", {})
    if store not in kept:
        kept[store] = connect(store)
    return kept[store]


def reason(error: Exception) -> str:
    """What a store's error says to a person: in place of the transport's words, what to do."""
    text = str(error)
    if refused := re.search(r"HTTPS?ConnectionPool\(host='([^']+)', port=(\d+)\): Max retries", text):
        return (
            f"cannot reach ClickHouse at {refused[1]}:{refused[2]}: start it (`warpmeter up` brings one), or name yours"
            " with --store or store.dsn"
        )
    return text
