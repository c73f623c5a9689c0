"""The bus: Kafka, and the Schema Registry beside it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from warpmeter.settings.common import SECRET


@dataclass(frozen=True)
class Kafka:
    """How to reach the bus. `options` are librdkafka's own, passed through (SASL, TLS); they win over ours.

    A Schema Registry is logged in to with a user and password in its URL, or with `schema_registry_token` (a bearer's);
    `schema_registry_ca_file`: whom to believe instead of the machine's authorities. What `warpmeter topics` asks for:
    `min_insync_replicas` (2 where there are three replicas), `compression` of what the brokers keep, and
    `retention_hours` by topic in place of the topic table's.
    """

    bootstrap_servers: str = "127.0.0.1:9092"
    topic_prefix: str = "warpmeter"
    partitions: int | None = None
    replication_factor: int = -1
    options: Mapping[str, str] = field(default_factory=dict, metadata=SECRET)
    schema_registry_url: str = field(default="", metadata=SECRET)
    schema_registry_token: str = field(default="", metadata=SECRET, repr=False)
    schema_registry_ca_file: Path | None = None
    min_insync_replicas: int | None = None
    compression: Literal["producer", "zstd", "lz4", "snappy", "gzip", "uncompressed"] = "producer"
    retention_hours: Mapping[str, float] = field(default_factory=dict)

    def group(self, part: str) -> str:
        """What the consumer group of a part is called, where the settings say no other: two prefixes share none."""
        return f"{self.topic_prefix}-{part}"
