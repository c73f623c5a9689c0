"""What the scheduler says: commands to hosts, events to everybody, and requests of its schedules."""

from collections.abc import Sequence
from typing import Final

from google.protobuf.message import Message

from warpmeter import bus, wire
from warpmeter.registry import Registry
from warpmeter.scheduler.capture import Turn
from warpmeter.scheduler.ranks import Event
from warpmeter.scheduler.wishes import Request
from warpmeter.schemas.topics import TOPICS, Topic
from warpmeter.settings import Kafka

COMMANDS: Final = TOPICS["capture-commands"]
FLUSH_S: Final = 2.0
"""Twice in a turn at most, which is no standing still yet (`service.STILL`)."""
ROWS: Final = 500
"""Events of one message."""


class Voice:
    """Onto the bus. What a broker that is away does not take now, it is given when it is back.

    Raises KafkaException for options that librdkafka refuses; RegistryError where a Schema Registry is away.
    """

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._producer = bus.producer(kafka, {"linger.ms": 2}, logger=bus.logger("scheduler"))
        self._registry = Registry(kafka.schema_registry_url, kafka.topic_prefix) if kafka.schema_registry_url else None

    def say(self, turn: Turn) -> None:
        """Commands, and when the broker has them, events."""
        for command in turn.commands:
            self._put(COMMANDS, command.host, [command])
        if turn.commands:
            self._producer.flush(FLUSH_S)
        self.tell(turn.events)

    def tell(self, events: Sequence[Event]) -> None:
        """Events, in order for each capture."""
        by_capture: dict[str, list[Message]] = {}
        for event in events:
            by_capture.setdefault(event.capture_id, []).append(event)
        for capture_id, rows in by_capture.items():
            for first in range(0, len(rows), ROWS):
                self._put(TOPICS["capture-events"], capture_id, rows[first : first + ROWS])
        if by_capture:
            self._producer.flush(FLUSH_S)

    def request(self, request: Request) -> bool:
        """A request, as anybody makes one; whether the broker has it."""
        self._put(TOPICS["capture-requests"], request.capture_id, [request])
        return bool(self._producer.flush(FLUSH_S) == 0)

    def _put(self, topic: Topic, key: str, rows: Sequence[Message]) -> None:
        sent = wire.pack(topic, key, rows)
        frame = b"" if self._registry is None else self._registry.frame(topic)
        name = topic.full_name(self._kafka.topic_prefix)
        self._producer.produce(name, frame + sent.value, sent.key, headers=list(sent.headers))
        self._producer.poll(0)
