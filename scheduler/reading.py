"""What the scheduler reads: requests, whose one partition makes its holder the active scheduler, and events.

Nothing is committed: who becomes active reads requests from the first that is kept, and events from as long ago.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage
from google.protobuf.message import Message

from warpmeter import bus, log
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Kafka, Scheduler
from warpmeter.tail import decode

REQUESTS: Final = TOPICS["capture-requests"]
EVENTS: Final = TOPICS["capture-events"]
TIMEOUT_S: Final = 10.0
BEFORE_S: Final = 60.0
"""So much earlier than the first request events are looked for: clocks differ."""
BATCH: Final = 1000


class ReadingError(Exception):
    """The bus cannot be read; the message says what, and the part is to be started again."""


class Requests:
    """The one partition of the requests, in the group that elects. `held`: this process is the active one.

    All calls from one thread. Raises KafkaException for options that librdkafka refuses.
    """

    def __init__(self, kafka: Kafka, scheduler: Scheduler) -> None:
        self._topic = REQUESTS.full_name(kafka.topic_prefix)
        session_ms = int(scheduler.session_timeout_s * 1000)
        extra: bus.Options = {
            # Not the cooperative one: where a member leaves, the embedded broker never completes its second step.
            "partition.assignment.strategy": "range",
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": session_ms // 4,
            "fetch.wait.max.ms": 100,
            "auto.offset.reset": "earliest",
            "allow.auto.create.topics": False,
        }
        self._consumer = bus.consumer(kafka, scheduler.group, extra, bus.logger("scheduler"))
        self.held = False
        self._next = 0
        self._kept: list[Message] | None = []
        """What came with the election, for `read_all`; None once that was called."""
        self._consumer.subscribe([self._topic], on_assign=self._given, on_revoke=self._taken, on_lost=self._taken)

    def _given(self, _consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        if partitions:
            self.held = True
            self.again()

    def again(self) -> None:
        """Read from the first request that is kept, as after an election."""
        self._next, self._kept = 0, []
        self._consumer.assign([TopicPartition(self._topic, 0, OFFSET_BEGINNING)])

    def _taken(self, consumer: Consumer, _partitions: Sequence[TopicPartition]) -> None:
        self.held = False
        consumer.unassign()

    @property
    def caught_up(self) -> bool:
        """What was there when this process was elected has been fetched."""
        return self._kept is None

    def read(self, wait_s: float = 0.0) -> list[Message]:
        """Requests that have come. Also what keeps this process in its group: call it often. Raises ReadingError."""
        messages = list(_checked(self._consumer.consume(BATCH, wait_s)))
        self._next = max([self._next, *((message.offset() or 0) + 1 for message in messages)])
        rows = list(_rows(messages, REQUESTS.name))
        if self._kept is not None:
            self._kept += rows
        return rows

    def read_all(self) -> list[Message]:
        """All requests that are kept; ends early when the partition is taken away. Raises ReadingError."""
        place = TopicPartition(self._topic, 0)
        try:
            low, high = bus.patiently(lambda: self._consumer.get_watermark_offsets(place, timeout=TIMEOUT_S))
        except KafkaException as error:
            raise ReadingError(f"the end of {self._topic} cannot be told: {error.args[0].str()}") from error
        while self.held and low < high and self._next < high:
            self.read(0.1)
        found, self._kept = self._kept or [], None
        return found

    def close(self) -> None:
        """Leave the group, so that another is elected at once."""
        self._consumer.close()


class Events:
    """All partitions of the events, outside of any group, from a time on."""

    def __init__(self, kafka: Kafka) -> None:
        self._name = EVENTS.full_name(kafka.topic_prefix)
        extra: bus.Options = {"fetch.wait.max.ms": 100, "auto.offset.reset": "earliest"}
        self._consumer = bus.consumer(kafka, "warpmeter-scheduler-events", extra, bus.logger("scheduler"))
        self._next: dict[int, int] = {}

    def start(self, since: float | None, still: Callable[[], bool]) -> Iterator[Message]:
        """What was said from `since` (seconds since the epoch) on to the end as it is now; None: nothing.

        `read` goes on from there. Ends early when `still` is no more. Raises ReadingError.
        """
        try:
            ends = self._assign(since)
        except KafkaException as error:
            raise ReadingError(f"{self._name} cannot be read: {error.args[0].str()}") from error
        while still() and any(self._next.get(each, 0) < end for each, end in ends.items()):
            yield from self.read(0.1)

    def _assign(self, since: float | None) -> dict[int, int]:
        found = self._consumer.list_topics(self._name, timeout=TIMEOUT_S).topics[self._name]
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
        messages = list(_checked(self._consumer.consume(BATCH, wait_s)))
        self._next |= {message.partition() or 0: (message.offset() or 0) + 1 for message in messages}
        return list(_rows(messages, EVENTS.name))

    def stop(self) -> None:
        """Read no more until the next start."""
        self._consumer.unassign()

    def close(self) -> None:
        """Let go of the broker."""
        self._consumer.close()


def _checked(messages: Sequence[KafkaMessage]) -> Iterator[KafkaMessage]:
    for message in messages:
        error = message.error()
        if error is None:
            yield message
        elif error.code() not in (KafkaError._PARTITION_EOF, *bus.AWAY) and not error.retriable():
            missing = error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
            hint = "; `warpmeter topics --create` makes it" if missing else ""
            raise ReadingError(f"{message.topic()}: {error.str()}{hint}")


def _rows(messages: Sequence[KafkaMessage], topic: str) -> Iterator[Message]:
    """Rows of messages; of one that cannot be read, which ingest keeps as a dead letter, a line."""
    for message in messages:
        seen = decode(TOPICS[topic], message)
        if seen.problem:
            log.get("scheduler").warning("passed over", topic=topic, offset=seen.offset, why=seen.problem)
            continue
        yield from seen.rows
