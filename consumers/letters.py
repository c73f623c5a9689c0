"""What ingest itself sends: dead letters and health rows. A dead letter counts once the broker has acknowledged it."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Final, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from warpmeter import wire
from warpmeter.consumers.batch import Batch
from warpmeter.registry import Registry, RegistryError
from warpmeter.schemas.generated import dead_letters_pb2, source_health_pb2
from warpmeter.schemas.topics import TOPICS

DEAD: Final = TOPICS["dead-letters"]
HEALTH: Final = TOPICS["source-health"]
ACKNOWLEDGED_S: Final = 30.0

# Refused for its size: by the broker, alone or with what else was in its batch.
TOO_LARGE: Final = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
CUT_HEADER: Final = "warpmeter-cut-from-bytes"
CUT_MARK: Final = " [cut: "

DeadLetter = dead_letters_pb2.Envelope.DeadLetter
Delivered = Callable[[KafkaError | None, Message | None], None]


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
        row = DeadLetter(
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


Name = tuple[str, int, int]


def _row(envelope: wire.Envelope) -> DeadLetter:
    row = wire.unpack(DEAD, envelope.value)[0]
    assert isinstance(row, DeadLetter)
    return row


def shortened(envelope: wire.Envelope, most_bytes: int, why: str) -> wire.Envelope:
    """The same dead letter with at most `most_bytes` of key and of value and without long headers; it says so.

    `CUT_HEADER` holds how many bytes the value had, for whoever would send it again.
    """
    row = _row(envelope)
    was = row.headers.get(CUT_HEADER) or str(len(row.value))
    reason = row.reason.partition(CUT_MARK)[0]
    row.key, row.value = row.key[:most_bytes], row.value[:most_bytes]
    headers = {name: value for name, value in row.headers.items() if len(name) + len(value) <= min(most_bytes, 256)}
    row.headers.clear()
    row.headers.update({**dict(islice(headers.items(), 16)), CUT_HEADER: was})
    row.reason = (
        f"{reason[:2000]}{CUT_MARK}{len(row.value)} of {was} bytes are here, for the broker refused the whole ({why}); "
        "the message stands at its offset until the topic's retention takes it]"
    )
    return wire.pack(DEAD, envelope.key.decode(), [row])


class KafkaLetters:
    """On confluent-kafka's idempotent producer; `prefix` is the topics'.

    What the broker does not acknowledge in time stays in the producer's queue, and is waited for, not sent again, when
    it is asked for anew: an outage does not fill the queue. A letter that is too large for the topic is shortened.
    """

    def __init__(
        self, producer: Producer, prefix: str, acknowledged_s: float = ACKNOWLEDGED_S, registry: Registry | None = None
    ) -> None:
        """`registry`: its frames go in front of the values, as with all that is on the bus."""
        self._producer, self._registry = producer, registry
        self._prefix = prefix
        self._acknowledged_s = acknowledged_s
        self._under_way: set[Name] = set()
        self._refused: dict[Name, KafkaError] = {}

    def send(self, envelopes: Sequence[wire.Envelope]) -> str | None:
        named = {_name(envelope): envelope for envelope in envelopes}
        if (why := self._attempt(named)) is not None:
            return why
        large = [name for name in named if (error := self._refused.get(name)) and error.code() in TOO_LARGE]
        for name in large:
            self._send_large(name, named[name])
        refused = [self._refused[name] for name in named if name in self._refused]
        if refused:
            full = DEAD.full_name(self._prefix)
            lacks = f"; the right Write on topic {full} lacks, see `warpmeter acls`" if _forbidden(refused[0]) else ""
            return f"the broker refused {len(refused)} dead letters: {refused[0].str()}{lacks}"
        waiting = len(self._under_way & named.keys())
        return f"{waiting} dead letters are not acknowledged after {self._acknowledged_s:.0f} s" if waiting else None

    def _attempt(self, named: Mapping[Name, wire.Envelope]) -> str | None:
        """Send those that are not under way, and wait; what was refused is in `_refused`."""
        for name, envelope in named.items():
            if name in self._under_way:
                continue
            self._refused.pop(name, None)
            self._under_way.add(name)  # before: a poll of the other thread may run the callback at once
            if why := self._produce(envelope, partial(self._delivered, name)):
                self._under_way.discard(name)
                return why
        self._producer.flush(self._acknowledged_s)
        return None

    def _delivered(self, name: Name, error: KafkaError | None, _: Message | None) -> None:
        self._under_way.discard(name)
        if error is not None:
            self._refused[name] = error

    def _send_large(self, name: Name, letter: wire.Envelope) -> None:
        """Alone, for it may have been refused for its neighbours; then half of it, and half of that."""
        most, attempt = max(len(letter.value), 1), letter
        while True:
            self._attempt({name: attempt})
            error = self._refused.get(name)
            if error is None or error.code() not in TOO_LARGE or most == 0:
                return
            most = most // 2 if most > 1024 else 0
            attempt = shortened(letter, most, error.str())

    def _produce(self, envelope: wire.Envelope, delivered: Delivered | None = None) -> str | None:
        name = TOPICS[envelope.topic].full_name(self._prefix)
        try:
            frame = b"" if self._registry is None else self._registry.frame(TOPICS[envelope.topic])
        except RegistryError as error:
            return f"cannot send to {name}: {error}"
        for _ in range(2):
            try:
                self._producer.produce(
                    name, frame + envelope.value, envelope.key, headers=list(envelope.headers), on_delivery=delivered
                )
                return None
            except BufferError:
                self._producer.flush(self._acknowledged_s)
            except KafkaException as error:
                if delivered is not None and error.args[0].code() in TOO_LARGE:
                    delivered(error.args[0], None)  # the client's own limit: as if the broker had refused it
                    return None
                return f"cannot send to {name}: {error.args[0].str()}"
        return f"cannot send to {name}: the queue stays full"

    def post(self, envelope: wire.Envelope) -> None:
        self._produce(envelope)
        self._producer.poll(0)


def _forbidden(error: KafkaError) -> bool:
    return bool(error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED)


def _name(envelope: wire.Envelope) -> Name:
    row = _row(envelope)
    return row.topic_uuid, row.partition, row.offset


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
    def dead(self) -> list[DeadLetter]:
        """The dead letters among them, decoded."""
        found = [wire.unpack(DEAD, envelope.value) for envelope in self.sent if envelope.topic == DEAD.name]
        return [row for rows in found for row in rows if isinstance(row, DeadLetter)]
