"""Batches: a span with its bytes. An open batch grows message by message; a closed one never changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from warpmeter.consumers.ledger import Declared
from warpmeter.consumers.message import Message
from warpmeter.consumers.shape import Odd
from warpmeter.consumers.span import Partition, Span
from warpmeter.wire import joined

# What a message costs beside its payload while its batch is open: the Message, its headers, key, entries in lists.
OVERHEAD_BYTES: Final = 700


@dataclass(frozen=True)
class Batch:
    """One span of one topic with its messages: one insert. The token is the span's; nobody else can write one.

    `payloads[i]` and `rows[i]` are of `messages[i]`. `doubts` are indexes the engine has yet to be asked about,
    `rejects` indexes that stay out, with the reason, `acknowledged` those whose dead letter the broker has. `at` is
    when the span was first declared (seconds since the epoch), None before.
    """

    span: Span
    messages: Sequence[Message]
    payloads: Sequence[bytes]
    rows: Sequence[int]
    doubts: frozenset[int] = frozenset()
    rejects: Mapping[int, str] = field(default_factory=dict)
    acknowledged: frozenset[int] = frozenset()
    at: float | None = None

    @property
    def token(self) -> str:
        """The insert's token."""
        return self.span.token

    @property
    def kept(self) -> list[int]:
        """Indexes of the messages that go in."""
        return [index for index in range(len(self.payloads)) if index not in self.rejects]

    @property
    def kept_payloads(self) -> Sequence[bytes]:
        """The payloads that go in."""
        return [self.payloads[index] for index in self.kept] if self.rejects else self.payloads

    @property
    def kept_rows(self) -> int:
        """Rows that go in."""
        return sum(self.rows) - sum(self.rows[index] for index in self.rejects)

    @property
    def kept_bytes(self) -> int:
        """Payload bytes that go in."""
        return sum(map(len, self.kept_payloads))

    @cached_property
    def memory_bytes(self) -> int:
        """What it holds in memory, about."""
        return sum(map(len, self.payloads)) + OVERHEAD_BYTES * len(self.messages)

    @property
    def rejected_offsets(self) -> tuple[int, ...]:
        """Offsets of the messages that stay out, ascending."""
        return tuple(self.messages[index].offset() for index in sorted(self.rejects))

    def body(self) -> bytes:
        """What ClickHouse's `ProtobufList` reads: the kept payloads, joined behind one length."""
        return joined(self.kept_payloads)

    def judged(self, rejects: Mapping[int, str]) -> "Batch":
        """The same span with more rejects and no doubts left."""
        return replace(self, doubts=frozenset(), rejects={**self.rejects, **rejects})

    def split(self) -> tuple["Batch", "Batch"]:
        """Two batches that together are this one, with half of the messages each; it needs two messages."""
        middle = len(self.messages) // 2
        spans = self.span.split(self.messages[middle].offset())
        return self._part(spans[0], 0, middle), self._part(spans[1], middle, len(self.messages))

    def _part(self, span: Span, start: int, end: int) -> "Batch":
        return replace(
            self,
            span=span,
            messages=self.messages[start:end],
            payloads=self.payloads[start:end],
            rows=self.rows[start:end],
            doubts=frozenset(index - start for index in self.doubts if start <= index < end),
            rejects={index - start: why for index, why in self.rejects.items() if start <= index < end},
            acknowledged=frozenset(index - start for index in self.acknowledged if start <= index < end),
            at=None,
        )


@dataclass(frozen=True)
class Limits:
    """A batch closes at whichever comes first. `age_s` counts from its first message."""

    size_bytes: int
    rows: int
    age_s: float


class OpenBatch:
    """The batch of one partition that still grows.

    `first` None (a partition's very first batch) is the offset of its first message. `replay` set: it is that span
    again, ends exactly there, and keeps its verdicts.
    """

    def __init__(
        self, where: Partition, uuid: str, first: int | None, born: float, replay: Declared | None = None
    ) -> None:
        self.where = where
        self.uuid = uuid
        self.first = first
        self.born = born
        self.replay = replay
        self.messages: list[Message] = []
        self.payloads: list[bytes] = []
        self.rows: list[int] = []
        self.odd: dict[int, Odd] = {}
        self.size_bytes = 0
        self.row_count = 0

    def add(self, message: Message, payload: bytes, seen: int | Odd) -> None:
        """Take the next message of the partition."""
        if isinstance(seen, Odd):
            self.odd[len(self.messages)] = seen
            seen = seen.rows
        self.messages.append(message)
        self.payloads.append(payload)
        self.rows.append(seen)
        self.row_count += seen
        self.size_bytes += len(payload)

    @property
    def memory_bytes(self) -> int:
        """What it holds in memory, about."""
        return self.size_bytes + OVERHEAD_BYTES * len(self.messages)

    def full(self, limits: Limits) -> bool:
        """Whether it must close now, whatever its age; a replay is full at its last offset only."""
        if self.replay is not None:
            return bool(self.messages) and self.messages[-1].offset() >= self.replay.span.last
        return self.size_bytes >= limits.size_bytes or self.row_count >= limits.rows

    def due(self, limits: Limits, now: float) -> bool:
        """Whether it has grown old; a replay never closes by age."""
        return self.replay is None and bool(self.messages) and now - self.born >= limits.age_s

    def close(self) -> Batch:
        """The batch as it is now; needs a message, or to be a replay."""
        if self.replay is not None:
            return self._closed_replay(self.replay)
        first = self.messages[0].offset() if self.first is None else self.first
        span = Span(self.where.topic, self.uuid, self.where.number, first, self.messages[-1].offset())
        doubts = frozenset(index for index, odd in self.odd.items() if not odd.certain)
        rejects = {index: odd.reason for index, odd in self.odd.items() if odd.certain}
        return Batch(span, self.messages, self.payloads, self.rows, doubts, rejects)

    def _closed_replay(self, replay: Declared) -> Batch:
        out = frozenset(replay.rejects)
        places = [index for index, message in enumerate(self.messages) if message.offset() in out] if out else []
        rejects = dict.fromkeys(places, "declared so")
        batch = Batch(replay.span, self.messages, self.payloads, self.rows, frozenset(), rejects)
        return replace(batch, acknowledged=frozenset(places), at=replay.at)
