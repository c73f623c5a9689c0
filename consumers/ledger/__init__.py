"""The ledger: what is declared before an insert and settled after it, so that a replay is the same span again.

The port, its records and their one encoding, and the twin in memory. `ledger.kafka` keeps it in the consumer group's
commit metadata, `ledger.file` in a file where the broker keeps no metadata.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from warpmeter.consumers.span import Partition, Span

# Kafka's default `offset.metadata.max.bytes`.
METADATA_MAX_BYTES: Final = 4096
BARE: Final = "no metadata of ours"


@dataclass(frozen=True)
class Declared:
    """The intent to insert `span`, without the messages at offsets `rejects`.

    `at`: seconds since the epoch at which it was first declared; past the store's deduplication window a replay is
    looked up instead of inserted.
    """

    span: Span
    at: float
    rejects: tuple[int, ...] = ()

    @property
    def where(self) -> Partition:
        """Its partition."""
        return self.span.where


@dataclass(frozen=True)
class Settled:
    """Everything before offset `next` of this life of the topic is in its table."""

    where: Partition
    uuid: str
    next: int


@dataclass(frozen=True)
class Foreign:
    """An offset that somebody else committed, or a record that cannot be read (`why`)."""

    where: Partition
    next: int
    why: str = BARE

    @property
    def bare(self) -> bool:
        """It has no metadata: somebody set it, as Kafka's own tools do."""
        return self.why == BARE


Entry = Declared | Settled | Foreign


@dataclass(frozen=True)
class Done:
    """The ledger has it."""


@dataclass(frozen=True)
class Retry:
    """Nothing is wrong with us: try again later."""

    why: str


@dataclass(frozen=True)
class Fenced:
    """The partitions are another member's now: drop everything of them, insert nothing."""

    why: str


@dataclass(frozen=True)
class Fatal:
    """Trying again will not help."""

    why: str


Outcome = Done | Retry | Fenced | Fatal


class LedgerError(Exception):
    """The ledger cannot be read; the message says what to do."""


class LedgerFolderError(LedgerError):
    """The folder of its file cannot be used: somebody must act."""

    exit_status = 78


class Ledger(Protocol):
    """One record a partition, replaced by each write; several partitions are written together or not at all."""

    def recall(self, partitions: Iterable[Partition]) -> Mapping[Partition, Entry]:
        """The records of `partitions`, those that have one. Raises LedgerError."""

    def declare(self, entries: Sequence[Declared]) -> Outcome:
        """Write the intents; after Done they survive this process. Everything before each span becomes settled."""

    def settle(self, entries: Sequence[Settled]) -> Outcome:
        """Write that there is no intent left."""


def _ranges(offsets: Sequence[int], origin: int) -> list[list[int]]:
    """Ascending offsets as [start, end] runs relative to `origin`; a run of one is [start]."""
    runs: list[list[int]] = []
    for offset in offsets:
        place = offset - origin
        if runs and runs[-1][-1] == place - 1:
            runs[-1] = [runs[-1][0], place]
        else:
            runs.append([place])
    return runs


def encode(entry: Declared | Settled) -> tuple[int, str]:
    """Offset and metadata of a record: `{"upto": last, "topic": UUID}`; settled ones have no `upto`.

    `at` is the time of the first declare, `out` the rejected offsets as runs relative to the span's first.
    """
    if isinstance(entry, Settled):
        return entry.next, json.dumps({"topic": entry.uuid}, separators=(",", ":"))
    span = entry.span
    record: dict[str, object] = {"upto": span.last, "topic": span.uuid, "at": round(entry.at, 3)}
    if entry.rejects:
        record["out"] = _ranges(entry.rejects, span.first)
    return span.first, json.dumps(record, separators=(",", ":"))


def decode(where: Partition, offset: int, metadata: str | None) -> Entry:
    """The record behind an offset and its metadata; what is not ours, or cannot be read, is Foreign."""
    if not metadata:
        return Foreign(where, offset)
    try:
        record = json.loads(metadata)
        uuid = str(record["topic"])
        if "upto" not in record:
            return Settled(where, uuid, offset)
        span = Span(where.topic, uuid, where.number, offset, int(record["upto"]))
        out = [place for run in record.get("out", ()) for place in range(run[0], run[-1] + 1)]
        return Declared(span, float(record["at"]), tuple(offset + place for place in out))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        return Foreign(where, offset, f"unreadable metadata {metadata[:80]!r}: {error!r}")


def fits(entry: Declared) -> bool:
    """Whether the record is small enough for a commit; one with too many rejects is split."""
    return len(encode(entry)[1].encode()) <= METADATA_MAX_BYTES


@dataclass
class MemoryLedger:
    """The twin: a dictionary that outlives whoever writes it. `owner` None takes every writer.

    `records` keeps what Kafka would: offset and metadata.
    """

    records: dict[Partition, tuple[int, str]] = field(default_factory=dict)
    outcome: Outcome = field(default_factory=Done)

    def recall(self, partitions: Iterable[Partition]) -> Mapping[Partition, Entry]:
        return {where: decode(where, *self.records[where]) for where in partitions if where in self.records}

    def declare(self, entries: Sequence[Declared]) -> Outcome:
        return self._write(entries)

    def settle(self, entries: Sequence[Settled]) -> Outcome:
        return self._write(entries)

    def _write(self, entries: Sequence[Declared | Settled]) -> Outcome:
        if isinstance(self.outcome, Done):
            self.records |= {entry.where: encode(entry) for entry in entries}
        return self.outcome
