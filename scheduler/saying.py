"""What the scheduler says: commands to hosts, events to everybody, and requests of its schedules."""

from collections.abc import Sequence
from typing import Final

from google.protobuf.message import Message

from warpmeter.captures.asking import REQUESTS, Sender
from warpmeter.captures.ranks import Event
from warpmeter.captures.schedules import CaptureSchedule
from warpmeter.captures.wishes import Request
from warpmeter.scheduler.capture import Turn
from warpmeter.schemas.topics import TOPICS
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
        self._sender = Sender(kafka, "scheduler")

    def say(self, turn: Turn) -> None:
        """Commands, and when the broker has them, events."""
        for command in turn.commands:
            self._sender.put(COMMANDS, command.host, [command])
        if turn.commands:
            self._sender.flush(FLUSH_S)
        self.tell(turn.events)

    def tell(self, events: Sequence[Event]) -> None:
        """Events, in order for each capture."""
        by_capture: dict[str, list[Message]] = {}
        for event in events:
            by_capture.setdefault(event.capture_id, []).append(event)
        for capture_id, rows in by_capture.items():
            for first in range(0, len(rows), ROWS):
                self._sender.put(TOPICS["capture-events"], capture_id, rows[first : first + ROWS])
        if by_capture:
            self._sender.flush(FLUSH_S)

    def request(self, request: Request) -> bool:
        """A request, as anybody makes one; whether the broker has it."""
        self._sender.put(REQUESTS, request.capture_id, [request])
        return self._sender.flush(FLUSH_S)

    def schedule(self, row: CaptureSchedule) -> None:
        """That a schedule is set, or removed."""
        self._sender.put(TOPICS["capture-schedules"], row.name, [row])
