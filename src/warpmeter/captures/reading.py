"""Events of captures, read from the bus by whoever follows them: the scheduler, a command, the page."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage
from google.protobuf.message import Message

from warpmeter import bus, log
from warpmeter.schemas.topics import TOPICS, Topic
from warpmeter.settings import Kafka
from warpmeter.tail import decode

EVENTS: Final = TOPICS["capture-events"]
GROUP: Final = "capture-events"
"""Of the prefix. librdkafka wants a name; nothing joins it or commits to it."""
TIMEOUT_S: Final = 10.0
BEFORE_S: Final = 60.0
"""So much earlier than what is wanted events are looked for: clocks differ."""
BATCH: Final = 1000


class ReadingError(Exception):
    """The bus cannot be read; the message says what, and the part is to be started again."""


class Events:
    """All partitions of the events, outside of any group, from a time on. `part`: whose log has what goes wrong;
    `topic`: another one that is read so.

    All calls from one thread.
    """

    def __init__(self, kafka: Kafka, part: str = "scheduler", topic: Topic = EVENTS) -> None:
        self._kafka, self._part, self._topic = kafka, part, topic
        self._name = topic.full_name(kafka.topic_prefix)
        extra: bus.Options = {"fetch.wait.max.ms": 100, "auto.offset.reset": "earliest"}
        self._consumer = bus.consumer(kafka, kafka.group(GROUP), extra, bus.logger(part))
        self._next: dict[int, int] = {}

    def start(self, since: float | None, still: Callable[[], bool]) -> Iterator[Message]:
        """What was said from `since` (seconds since the epoch) on to the end as it is now; None: nothing.

        `read` goes on from there. Ends early when `still` is no more. Raises ReadingError.
        """
        try:
            ends = bus.patiently(lambda: self._assign(since))
        except KafkaException as error:
            why = bus.refusal(error.args[0], self._kafka, f"Read on topic {self._name}")
            raise ReadingError(f"{self._name} cannot be read: {why}") from error
        while still() and any(self._next.get(each, 0) < end for each, end in ends.items()):
            yield from self.read(0.1)

    def _assign(self, since: float | None) -> dict[int, int]:
        found = self._consumer.list_topics(self._name, timeout=TIMEOUT_S).topics[self._name]
        if found.error is not None and found.error.code() in bus.FORBIDDEN:
            raise ReadingError(bus.forbidden(self._kafka, f"Read on topic {self._name}"))
        if found.error is not None or not found.partitions:
            raise ReadingError(f"there is no topic {self._name}: `warpmeter topics --create` makes it")
        places = [TopicPartition(self._name, each) for each in found.partitions]
        marks = {p.partition: self._consumer.get_watermark_offsets(p, timeout=TIMEOUT_S) for p in places}
        starts = {partition: high for partition, (_, high) in marks.items()}
        if since is not None:
            wanted = [TopicPartition(self._name, p.partition, int((since - BEFORE_S) * 1000)) for p in places]
            for each in self._consumer.offsets_for_times(wanted, timeout=TIMEOUT_S):
                starts[each.partition] = each.offset if each.offset >= 0 else marks[each.partition][1]
        self._next = dict(starts)
        self._consumer.assign([TopicPartition(self._name, p, start) for p, start in starts.items()])
        return {p: high for p, (_, high) in marks.items() if starts[p] < high}

    def read(self, wait_s: float) -> list[Message]:
        """Events that have come, waiting for the first. Raises ReadingError."""
        if not self._consumer.assignment():
            time.sleep(wait_s)
            return []
        asked = Asked(self._kafka, self._name, f"Describe on group {self._kafka.group(GROUP)}")
        messages = list(checked(self._consumer.consume(BATCH, wait_s), asked))
        self._next |= {message.partition() or 0: (message.offset() or 0) + 1 for message in messages}
        return list(rows(messages, self._topic.name, self._part))

    def stop(self) -> None:
        """Read no more until the next start."""
        self._consumer.unassign()

    def close(self) -> None:
        """Let go of the broker."""
        self._consumer.close()


@dataclass(frozen=True)
class Asked:
    """What a consumer needs: to read a topic, and of its group the right `of_group`."""

    kafka: Kafka
    topic: str
    of_group: str

    def refusal(self, error: KafkaError) -> str:
        """What an error says to a person."""
        grouped = error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
        return bus.refusal(error, self.kafka, self.of_group if grouped else f"Read on topic {self.topic}")


def checked(messages: Sequence[KafkaMessage], asked: Asked) -> Iterator[KafkaMessage]:
    """Messages without those that only say that a broker is away for now; raises ReadingError for the rest."""
    for message in messages:
        error = message.error()
        if error is None:
            yield message
        elif error.code() not in (KafkaError._PARTITION_EOF, *bus.AWAY) and not error.retriable():
            missing = error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
            hint = "; `warpmeter topics --create` makes it" if missing else ""
            raise ReadingError(f"{asked.topic}: {asked.refusal(error)}{hint}")


def rows(messages: Sequence[KafkaMessage], topic: str, part: str) -> Iterator[Message]:
    """Rows of messages; of one that cannot be read, which ingest keeps as a dead letter, a line."""
    for message in messages:
        seen = decode(TOPICS[topic], message)
        if seen.problem:
            log.get(part).warning("passed over", topic=topic, offset=seen.offset, why=seen.problem)
            continue
        yield from seen.rows
