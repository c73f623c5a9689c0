"""The producer: numbered samples at a steady rate, poison when told; what the broker acknowledged is the truth."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, Message

from tests.crash.samples import ROWS, Fields, Series, envelope
from tests.tables import row
from warpmeter import bus, wire
from warpmeter.consumers.span import Partition
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Kafka

MESSAGES_PER_S: Final = 20.0
"""Of each topic."""
FLUSH_S: Final = 120.0

Headers = list[tuple[str, bytes]]
Value = tuple[bytes | None, Headers]


def _good(series: Series, number: int) -> wire.Envelope:
    return envelope(series, number)


def _truncated(series: Series, number: int) -> Value:
    good = _good(series, number)
    return good.value[:-3], good.headers


def _noise(series: Series, number: int) -> Value:
    return b"\xff" + random.Random(number).randbytes(40), _good(series, number).headers


def _empty(series: Series, number: int) -> Value:
    return b"", _good(series, number).headers


def _tombstone(series: Series, number: int) -> Value:
    return None, _good(series, number).headers


def _of_another_topic(_: Series, number: int) -> Value:
    good = wire.pack(TOPICS["device-samples"], "h", [row("device-samples", host="h", ts=1.8e9 + number)])
    return good.value, good.headers


def _without_host(series: Series, number: int) -> Value:
    bad = row(series.topic.name, **{**series.fields(number * ROWS), "host": ""})
    packed = wire.pack(series.topic, "", [bad])
    return packed.value, packed.headers


POISON: Final[Mapping[str, Callable[[Series, int], Value]]] = {
    "truncated": _truncated,
    "noise": _noise,
    "empty": _empty,
    "tombstone": _tombstone,
    "of another topic": _of_another_topic,
    "without host": _without_host,
}


@dataclass
class Truth:
    """What the broker has acknowledged. Messages by series name and number; poison by place."""

    good: dict[str, dict[int, tuple[int, int]]] = field(default_factory=dict)
    poison: dict[tuple[Partition, int], bytes] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def place_of(self, topic: str, number: int) -> tuple[int, int]:
        """Partition and offset of the message that carries row `number`; (-1, -1) when there is none."""
        return self.good[topic].get(number // ROWS, (-1, -1))

    def numbers(self, topic: str) -> list[int]:
        """Every acknowledged row's number."""
        return [n for message in self.good[topic] for n in range(message * ROWS, (message + 1) * ROWS)]


class Feed:
    """Produces to all series, in the caller's thread: call `due` often."""

    def __init__(self, kafka: Kafka, series: Sequence[Series]) -> None:
        self.series = series
        self.truth = Truth(good={item.topic.name: {} for item in series})
        self._prefix = kafka.topic_prefix
        self._sent = 0
        self._poisons = 0
        # A fetch that fails while brokers are away is no news here.
        self._producer = bus.producer(kafka, {"acks": "all", "linger.ms": 20, "log_level": 0}, self._erred)

    @property
    def acknowledged_rows(self) -> int:
        """Rows of all topics that the broker has acknowledged."""
        return ROWS * sum(len(found) for found in self.truth.good.values())

    def due(self, elapsed_s: float) -> None:
        """Send what is due `elapsed_s` after the start, by the schedule: late messages are not left out."""
        while self._sent < elapsed_s * MESSAGES_PER_S:
            for series in self.series:
                good = envelope(series, self._sent)
                acked = partial(self._acked, series.topic.name, self._sent)
                self._put(series, good.key, (good.value, good.headers), acked)
            self._sent += 1
        self._producer.poll(0)

    def poison(self, kind: str, topic: int) -> None:
        """One bad message onto the series at place `topic`."""
        series, self._poisons = self.series[topic], self._poisons + 1
        value = POISON[kind](series, self._poisons)
        poisoned = partial(self._poisoned, series.topic.full_name(self._prefix), value[0] or b"")
        self._put(series, f"poison-{self._poisons}".encode(), value, poisoned)

    def flush(self) -> None:
        """Wait until the broker has acknowledged all; what it has not is among the failures."""
        if left := self._producer.flush(FLUSH_S):
            self.truth.failures.append(f"{left} messages were not acknowledged in {FLUSH_S:g} s")

    def _put(
        self, series: Series, key: bytes, value: Value, done: Callable[[KafkaError | None, Message], None]
    ) -> None:
        name = series.topic.full_name(self._prefix)
        self._producer.produce(name, value[0], key, headers=list[Any](value[1]), on_delivery=done)

    def _erred(self, error: KafkaError) -> None:
        if error.fatal():
            self.truth.failures.append(f"the producer cannot go on: {error.str()}")

    def _acked(self, topic: str, number: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.truth.failures.append(f"message {number} of {topic}: {error.str()}")
            return
        self.truth.good[topic][number] = (_known(message.partition()), _known(message.offset()))

    def _poisoned(self, topic: str, value: bytes, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.truth.failures.append(f"poison onto {topic}: {error.str()}")
            return
        place = Partition(topic, _known(message.partition())), _known(message.offset())
        self.truth.poison[place] = value


def _known(place: int | None) -> int:
    assert place is not None, "an acknowledged message has a place"
    return place


def fields_of(truth: Truth, series: Sequence[Series]) -> list[tuple[str, Fields]]:
    """Every acknowledged row, as topic name and fields."""
    return [(item.topic.name, item.fields(n)) for item in series for n in truth.numbers(item.topic.name)]
