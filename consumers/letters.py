"""What ingest itself sends: dead letters and health rows. A dead letter counts once the broker has acknowledged it."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from warpmeter import wire
from warpmeter.consumers.batch import Batch
from warpmeter.schemas.generated import dead_letters_pb2, source_health_pb2
from warpmeter.schemas.topics import TOPICS

DEAD: Final = TOPICS["dead-letters"]
HEALTH: Final = TOPICS["source-health"]
ACKNOWLEDGED_S: Final = 30.0

Delivered = Callable[[KafkaError | None, Message], None]


class Letters(Protocol):
    """The way out."""

    def send(self, envelopes: Sequence[wire.Envelope]) -> str | None:
        """Send and wait until all are acknowledged; None, or why they are not. Sending them again is harmless."""

    def post(self, envelope: wire.Envelope) -> None:
        """Send without waiting: for health rows."""


def _text(headers: Iterable[tuple[str, bytes | None]]) -> Mapping[str, str]:
    return {name: (value or b"").decode(errors="backslashreplace") for name, value in headers}


def dead_letters(batch: Batch, now: float) -> list[wire.Envelope]:
    """One Envelope for each reject of a batch that is not acknowledged yet, with the bytes as they came."""
    letters = []
    for index, reason in sorted(batch.rejects.items()):
        if index in batch.acknowledged:
            continue
        message = batch.messages[index]
        row = dead_letters_pb2.Envelope.DeadLetter(
            topic=batch.span.topic,
            topic_uuid=batch.span.uuid,
            partition=batch.span.partition,
            offset=message.offset(),
            ts=round(now, 3),
            reason=printable(reason),
            key=message.key() or b"",
            value=message.value() or b"",
            headers={printable(name): value for name, value in _text(message.headers() or ()).items()},
        )
        letters.append(wire.pack(DEAD, f"{batch.span.topic}/{batch.span.partition}/{message.offset()}", [row]))
    return letters


def printable(text: str) -> str:
    """Text that a Protobuf string takes: lone surrogates escaped."""
    return re.sub(r"[\ud800-\udfff]", lambda found: f"\\u{ord(found.group()):x}", text)


def health(host: str, now: float, subject: str, state: str, why: str, count: int | None = None) -> wire.Envelope:
    """A row of `source-health` about ingest itself; `count` is of what `why` tells."""
    row = source_health_pb2.Envelope.SourceHealth(
        host=host, ts=round(now, 3), source="ingest", subject=subject, state=state, why=why, count=count
    )
    return wire.pack(HEALTH, host, [row])


class KafkaLetters:
    """On confluent-kafka's idempotent producer; `prefix` is the topics'."""

    def __init__(self, producer: Producer, prefix: str) -> None:
        self._producer = producer
        self._prefix = prefix

    def send(self, envelopes: Sequence[wire.Envelope]) -> str | None:
        waiting = len(envelopes)
        failures: list[str] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            nonlocal waiting
            waiting -= 1
            if error is not None:
                failures.append(error.str())

        for envelope in envelopes:
            if why := self._produce(envelope, delivered):
                return why
        self._producer.flush(ACKNOWLEDGED_S)
        if failures:
            return f"the broker refused {len(failures)} dead letters: {failures[0]}"
        return f"{waiting} dead letters are not acknowledged after {ACKNOWLEDGED_S:.0f} s" if waiting else None

    def _produce(self, envelope: wire.Envelope, delivered: Delivered | None = None) -> str | None:
        name = TOPICS[envelope.topic].full_name(self._prefix)
        for _ in range(2):
            try:
                self._producer.produce(
                    name, envelope.value, envelope.key, headers=list(envelope.headers), on_delivery=delivered
                )
                return None
            except BufferError:
                self._producer.flush(ACKNOWLEDGED_S)
            except KafkaException as error:
                return f"cannot send to {name}: {error.args[0].str()}"
        return f"cannot send to {name}: the queue stays full"

    def post(self, envelope: wire.Envelope) -> None:
        self._produce(envelope)
        self._producer.poll(0)


@dataclass
class MemoryLetters:
    """The twin: keeps what was sent; `refusal` is what it answers instead of acknowledging."""

    sent: list[wire.Envelope] = field(default_factory=list)
    refusal: str | None = None

    def send(self, envelopes: Sequence[wire.Envelope]) -> str | None:
        if self.refusal is None:
            self.sent += envelopes
        return self.refusal

    def post(self, envelope: wire.Envelope) -> None:
        self.sent.append(envelope)

    @property
    def dead(self) -> list[dead_letters_pb2.Envelope.DeadLetter]:
        """The dead letters among them, decoded."""
        found = [wire.unpack(DEAD, envelope.value) for envelope in self.sent if envelope.topic == DEAD.name]
        return [row for rows in found for row in rows if isinstance(row, dead_letters_pb2.Envelope.DeadLetter)]
