"""The events of reports on the bus, and those of them that have landed."""

import time
from collections.abc import Callable, Sequence
from typing import Final, cast

from warpmeter.captures.asking import Sender
from warpmeter.captures.reading import Events
from warpmeter.reports.said import TOPIC, ReportEvent
from warpmeter.settings import Kafka

FLUSH_S: Final = 5.0
REMEMBERED_DAYS: Final = 62
"""A report of each month, and its deliveries."""


class ReportTopic:
    """See `service.Topic`. `landed`: what the store has, for what a broker without a memory forgot.

    Raises KafkaException for options that librdkafka refuses.
    """

    def __init__(self, kafka: Kafka, landed: Callable[[], Sequence[ReportEvent]]) -> None:
        self._events = Events(kafka, "scheduler", TOPIC)
        self._sender = Sender(kafka, "scheduler")
        self._landed = landed

    def recall(self, still: Callable[[], bool]) -> Sequence[ReportEvent]:
        """All that was said so far: what the topic keeps, and what has landed."""
        since = time.time() - REMEMBERED_DAYS * 86_400
        said = [cast(ReportEvent, event) for event in self._events.start(since, still)]
        return [*self._landed(), *said]

    def heard(self) -> Sequence[ReportEvent]:
        """What was said since."""
        return [cast(ReportEvent, event) for event in self._events.read(0.0)]

    def tell(self, events: Sequence[ReportEvent]) -> None:
        """Say it of one report."""
        self._sender.put(TOPIC, events[0].report_id, events)
        self._sender.flush(FLUSH_S)

    def stop(self) -> None:
        """Listen no more."""
        self._events.stop()

    def close(self) -> None:
        """Let go of the broker."""
        self._events.close()
