"""What the scheduler reads of requests, whose one partition makes its holder the active scheduler.

Nothing is committed: who becomes active reads requests from the first that is kept, and events from as long ago.
"""

from collections.abc import Sequence
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
from google.protobuf.message import Message

from warpmeter import bus
from warpmeter.captures.reading import BATCH, TIMEOUT_S, Asked, ReadingError, checked, rows
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Kafka, Scheduler

REQUESTS: Final = TOPICS["capture-requests"]


class Requests:
    """The one partition of the requests, in the group that elects. `held`: this process is the active one.

    All calls from one thread. Raises KafkaException for options that librdkafka refuses.
    """

    def __init__(self, kafka: Kafka, scheduler: Scheduler) -> None:
        self._topic = REQUESTS.full_name(kafka.topic_prefix)
        self._asked = Asked(kafka, self._topic, f"Read on group {scheduler.group}")
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
        messages = list(checked(self._consumer.consume(BATCH, wait_s), self._asked))
        self._next = max([self._next, *((message.offset() or 0) + 1 for message in messages)])
        found = list(rows(messages, REQUESTS.name, "scheduler"))
        if self._kept is not None:
            self._kept += found
        return found

    def read_all(self) -> list[Message]:
        """All requests that are kept; ends early when the partition is taken away. Raises ReadingError."""
        place = TopicPartition(self._topic, 0)
        try:
            low, high = bus.patiently(lambda: self._consumer.get_watermark_offsets(place, timeout=TIMEOUT_S))
        except KafkaException as error:
            raise ReadingError(
                f"the end of {self._topic} cannot be told: {self._asked.refusal(error.args[0])}"
            ) from error
        while self.held and low < high and self._next < high:
            self.read(0.1)
        found, self._kept = self._kept or [], None
        return found

    def close(self) -> None:
        """Leave the group, so that another is elected at once."""
        self._consumer.close()
