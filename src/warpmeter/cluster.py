"""What a ClickHouse cluster needs besides the SQL of one server: where replicas meet, how long statements wait, which
server an insert goes to.

The cluster is one of the servers' `remote_servers`, with `internal_replication`; each server has the macros `{shard}`
and `{replica}` (docs/deploy/clickhouse.md).
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from warpmeter.settings import Store

QUORUM: Final[Mapping[str, str | int]] = {"insert_quorum": "auto", "insert_quorum_timeout": 120_000}
"""An insert is acknowledged by most replicas of its shard, or fails within the time that a client waits (300 s): the
default, ten minutes, would be the client's time out, and each try again would wait behind the one before."""

_DDL: Final[Mapping[str, str | int]] = {
    # An ALTER is done when all replicas have it: with the default, its own alone, the next statement of a migration
    # meets a replica that lacks the column.
    "alter_sync": 2,
    "replication_wait_for_inactive_replica_timeout": 120,
    # A server that does not answer is an error within the time that a client waits; the statement stays in its queue.
    "distributed_ddl_task_timeout": 180,
    "distributed_ddl_output_mode": "throw",
}
_MADE: Final = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?`[^`]+`\.`(?P<table>[^`]+)`")
_REPLICATED: Final = re.compile(r"ENGINE = (Replicated\w*MergeTree)\b(?!\()")


def ddl(store: Store) -> dict[str, Any]:
    """Settings of every statement `ON CLUSTER`; none for a single server."""
    return dict(_DDL) if store.cluster else {}


def quorum(store: Store) -> dict[str, Any]:
    """Settings of every insert."""
    return dict(QUORUM) if store.insert_quorum else {}


def engine(store: Store, kind: str, path: str, replica: str = "{replica}") -> str:
    """`kind` of MergeTree; on a cluster replicated, the replicas of `path` being one table.

    The path is said, though servers have a default: theirs has a UUID that each `CREATE` makes anew, so that a server
    which missed one (it was away, or came later) would make a table of its own, that replicates with nobody.
    """
    return f"Replicated{kind}('/clickhouse/{store.cluster}/{path}', '{replica}')" if store.cluster else kind


def of_table(store: Store, kind: str, table: str) -> str:
    """The engine of a table that each shard has for itself, under its name for ever."""
    return engine(store, kind, f"tables/{{shard}}/{store.database}/{table}")


def passing(store: Store, kind: str) -> str:
    """The engine of a table that is renamed and dropped, so that its name comes again: with the UUID of its CREATE."""
    return engine(store, kind, "tables/{shard}/{uuid}")


def everywhere(store: Store, kind: str, table: str) -> str:
    """The engine of a table that all servers of all shards have alike: whichever is asked knows the same."""
    return engine(store, kind, f"everywhere/{store.database}/{table}", "{shard}-{replica}")


def placed(store: Store, statement: str) -> str:
    """A statement of a migration, with the path of the replicated table that it makes."""
    made = _MADE.match(statement)
    if made is None:
        return statement
    return _REPLICATED.sub(lambda found: f"ENGINE = {of_table(store, found[1][10:], made['table'])}", statement)


def shard(store: Store, partition: int) -> Store:
    """The store that inserts of a partition go to: always the same shard, so that it knows what it has."""
    return replace(store, dsn=store.shards[partition % len(store.shards)]) if store.shards else store
