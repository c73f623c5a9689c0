"""The store, and the embedded engine that serves one."""

from dataclasses import dataclass, field
from pathlib import Path

from warpmeter.settings.common import SECRET, default_data


@dataclass(frozen=True)
class Store:
    """The ClickHouse of all parts: `http://user:password@host:8123`, `https://…`, or `chdb:///path` (embedded).

    `shards`: of a `cluster` with several shards the address of each, in their order: a partition's rows always go to
    the same. Raw rows, windows and traces move to the volume `cold` of `storage_policy` after `cold_after_days`.
    """

    dsn: str = field(default="http://127.0.0.1:8123", metadata=SECRET)
    database: str = "warpmeter"
    cluster: str = ""
    shards: tuple[str, ...] = field(default=(), metadata=SECRET)
    insert_quorum: bool = False
    storage_policy: str = ""
    cold_after_days: int = 0
    raw_ttl_days: int = 14
    minute_ttl_days: int = 90
    hour_ttl_days: int = 1095

    def local(self, table: str) -> str:
        """The table of this shard, which ingest writes to; on a cluster `table` itself spans all shards."""
        return f"{table}_local" if self.cluster else table


@dataclass(frozen=True)
class Engine:
    """The embedded engine: its data folder and the ClickHouse HTTP endpoint that serves it."""

    data: Path = field(default_factory=default_data)
    listen: str = "127.0.0.1"
    port: int = 8123
    write_token: str = field(default="", metadata=SECRET)
    threads: int = 4
