"""The sink: a batch into its table as one block under its span's token, and what the store said, as a value.

The ports and their answers; `clickhouse` is the store, `memory` its twin, `codes` what its error numbers mean.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from warpmeter.consumers.batch import Batch
from warpmeter.consumers.span import Span


@dataclass(frozen=True)
class Landed:
    """It is in the table, now or since before."""


@dataclass(frozen=True)
class Refused:
    """The bytes are at fault: nothing of them is in the table."""

    why: str


@dataclass(frozen=True)
class Away:
    """The store could not do it now, or its reply was lost: the same again later."""

    why: str


@dataclass(frozen=True)
class Broken:
    """The store will never do it: table, schema, rights. Names table and cause."""

    why: str


Result = Landed | Refused | Away | Broken


class Sink(Protocol):
    """Where batches land. Every method may be called from one thread other than the loop's."""

    def insert(self, batch: Batch) -> Result:
        """Insert the batch's kept messages as one block; the same token again is dropped."""

    def ask(self, topic: str, payloads: Sequence[bytes]) -> Result:
        """Whether the topic's table would take `payloads` as one insert; stores nothing."""


class History(Protocol):
    """What has landed, from `ingest_batches`."""

    def ready(self) -> Away | Broken | None:
        """None when the tables are what they will be; Away while a migration changes them, Broken when it stands half
        done."""

    def last(self, topic: str, uuid: str) -> Mapping[int, int] | Away | Broken:
        """Per partition, the last offset that landed of this life of the topic."""

    def landed(self, span: Span) -> bool | Away | Broken:
        """Whether this very span is there."""

    def inserts_since(self, at: float) -> int | Away | Broken:
        """How many spans of all tables landed since `at`, seconds since the epoch: all of them share the window of
        `ingest_batches`, some that of a rollup."""
