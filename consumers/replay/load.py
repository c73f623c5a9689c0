"""From Kafka to a staging table: the bytes as they came, judged as ingest judges them."""

import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from confluent_kafka import Consumer, KafkaError, TopicPartition

from warpmeter import bus, wire
from warpmeter.consumers.batch import Batch, Limits, OpenBatch
from warpmeter.consumers.judge import Budget, judge
from warpmeter.consumers.letters import dead_letters
from warpmeter.consumers.message import Message, whole
from warpmeter.consumers.replay.errors import ReplayError
from warpmeter.consumers.replay.hours import Range
from warpmeter.consumers.replay.offsets import Landed as Span
from warpmeter.consumers.replay.offsets import Piece
from warpmeter.consumers.shape import Look, Odd
from warpmeter.consumers.sink import Away, Broken, Landed, Refused, Result, Sink
from warpmeter.consumers.span import Partition
from warpmeter.schemas.topics import Topic
from warpmeter.settings import Ingest, Kafka

GROUP: Final = "replay"  # of the prefix; librdkafka wants a name, nothing joins it or commits to it
SILENCE_S: Final = 60.0
TRIES: Final = 6
MESSAGES: Final = 1000


class Reader:
    """Messages of pieces of partitions; assigned, so that no group is disturbed."""

    def __init__(self, kafka: Kafka) -> None:
        options: bus.Options = {"enable.partition.eof": True, "auto.offset.reset": "earliest", "log_level": 0}
        self._consumer: Consumer = bus.consumer(kafka, kafka.group(GROUP), options)

    @property
    def consumer(self) -> Consumer:
        """The client, for who asks the broker for more than messages."""
        return self._consumer

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()

    def read(self, piece: Piece) -> Iterator[Message]:
        """The messages of a piece that the broker still has, in order. Raises ReplayError when it does not answer."""
        self._consumer.assign([TopicPartition(piece.where.topic, piece.where.number, piece.first)])
        heard = time.monotonic()
        while True:
            found = cast(Sequence[Message], self._consumer.consume(MESSAGES, 0.5))
            heard = time.monotonic() if found else heard
            if time.monotonic() - heard > SILENCE_S:
                raise ReplayError(f"Kafka gives nothing of {piece.where} from offset {piece.first} on; is it up?")
            for message in found:
                if (error := message.error()) is not None:
                    if self._ended(piece, cast(KafkaError, error)):
                        return
                    continue
                if message.offset() <= piece.last:
                    yield message
                if message.offset() >= piece.last:
                    return

    @staticmethod
    def _ended(piece: Piece, error: KafkaError) -> bool:
        if error.code() == KafkaError._PARTITION_EOF:
            return True
        if error.retriable() or error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            return False
        raise ReplayError(f"cannot read {piece.where}: {error.str()}")


@dataclass
class Counted:
    """What was read: messages and rows, and the dead letters of those that cannot be stored.

    `within` of the messages have rows in the range; of those refused, which have none, `refused` lie among such."""

    messages: int = 0
    rows: int = 0
    within: int = 0
    refused: int = 0
    letters: list[wire.Envelope] = field(default_factory=list)


class Within:
    """Whether messages have rows in a range. Of spans that lie in it or beside it wholly the book knows; other messages
    are decoded."""

    def __init__(self, topic: Topic, spans: Sequence[Span], wanted: Range) -> None:
        self._topic, self._wanted = topic, wanted
        self._spans = sorted(spans, key=lambda span: span.first)
        self._firsts = [span.first for span in self._spans]

    def __call__(self, offset: int, payload: bytes) -> bool:
        """Whether the message at `offset` has a row in the range."""
        place = bisect_right(self._firsts, offset) - 1
        span = self._spans[place] if place >= 0 else None
        if span is not None and offset <= span.last:
            if span.inside(self._wanted):
                return True
            if not span.touches(self._wanted):
                return False
        rows = wire.unpack(self._topic, payload)
        return any(self._wanted.start <= row.ts < self._wanted.end for row in rows)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Target:
    """Where messages are loaded: `sink` inserts into the staging table and asks the raw table's judge."""

    uuid: str
    look: Look
    sink: Sink
    within: Callable[[Partition], Within]
    sleep: Callable[[float], None] = time.sleep


class Loader:
    """Fills batches as ingest does, and inserts each under its span's token: the staging table knows no other."""

    def __init__(self, target: Target, ingest: Ingest, now: Callable[[], float]) -> None:
        self._target = target
        self._limits = Limits(ingest.batch_bytes, ingest.batch_rows, float("inf"))
        self._budget = Budget(ingest.reject_window, ingest.reject_share)
        self._now = now
        self.counted = Counted()

    def load(self, piece: Piece, messages: Iterable[Message], read: Callable[[int], None]) -> None:
        """All of a piece; `read` is told how many offsets were, as they come. Raises ReplayError."""
        batch: OpenBatch | None = None
        first = told = piece.first
        within = self._target.within(piece.where)
        for message in messages:
            if message.offset() >= told + MESSAGES:
                read(message.offset() - told)
                told = message.offset()
            batch = batch or OpenBatch(piece.where, self._target.uuid, first, 0.0)
            self._take(batch, message)
            first = message.offset() + 1
            if batch.full(self._limits):
                self._land(batch.close(), within)
                batch = None
        if batch is not None:
            self._land(batch.close(), within)
        read(piece.last + 1 - told)

    def _take(self, batch: OpenBatch, found: Message) -> None:
        message, headers, unreadable = whole(found)
        payload, seen = self._target.look(message.value(), headers)
        batch.add(message, payload, seen if unreadable is None else Odd(unreadable, True, payload))

    def _land(self, batch: Batch, within: Within) -> None:
        topic = batch.span.topic
        if batch.doubts:
            batch = self._judged(batch, sorted(batch.doubts))
        if isinstance(self._inserted(batch), Refused):
            batch = self._judged(batch, batch.kept)
            if isinstance(refused := self._inserted(batch), Refused):
                raise ReplayError(f"the store refuses {topic} {batch.span.first}-{batch.span.last}: {refused.why}")
        if why := self._budget.spend(topic, len(batch.messages), sorted(batch.rejects)):
            raise ReplayError(f"{why} The last reason: {batch.rejects[max(batch.rejects)]}")
        self.counted.letters += dead_letters(batch, self._now())
        self.counted.messages += len(batch.messages)
        self.counted.rows += batch.kept_rows
        self._count_within(batch, within)

    def _count_within(self, batch: Batch, within: Within) -> None:
        here = True  # one that was refused has no time: it counts as the one before it
        for index, message in enumerate(batch.messages):
            refused = index in batch.rejects
            here = here if refused else within(message.offset(), batch.payloads[index])
            self.counted.within += here
            self.counted.refused += here and refused

    def _judged(self, batch: Batch, indexes: Sequence[int]) -> Batch:
        found = self._tried(lambda: judge(batch, indexes, lambda each: self._target.sink.ask(batch.span.topic, each)))
        assert isinstance(found, Batch)
        return found

    def _inserted(self, batch: Batch) -> Landed | Refused:
        if len(batch.rejects) == len(batch.messages):
            return Landed()
        found = self._tried(lambda: self._target.sink.insert(batch))
        assert isinstance(found, Landed | Refused)
        return found

    def _tried(self, work: Callable[[], Result | Batch]) -> Landed | Refused | Batch:
        """The work's outcome, tried again while the store is away. Raises ReplayError."""
        why = ""
        for attempt in range(TRIES):
            match work():
                case Away(why):
                    self._target.sleep(0.25 * 2**attempt)
                case Broken(why):
                    raise ReplayError(why)
                case done:
                    return done
        raise ReplayError(f"{why}; nothing was changed, run the replay again when the store answers")
