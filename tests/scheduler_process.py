"""The real scheduler process for tests, and agents that answer it over the bus."""

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from tests.brokers.process import tail
from tests.signals import tell
from tests.wait import until
from warpmeter import bus, launch, wire
from warpmeter.captures.ranks import Event
from warpmeter.captures.wishes import Command, Request
from warpmeter.scheduler.capture import Turn
from warpmeter.scheduler.saying import Voice
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Kafka, Settings

ACTIVE: Final = '"event": "active"'
STANDS_BY: Final = "standing by"


class SchedulerProcess:
    """`python -m warpmeter.scheduler`, as a child."""

    def __init__(self, settings: Settings, log: Path) -> None:
        self.log = log
        with log.open("ab") as output:
            self.process = launch.spawn("warpmeter.scheduler", settings, log=output)

    @property
    def active(self) -> bool:
        """It was elected, and knows the captures."""
        said = self.log.read_text()
        return said.rfind(ACTIVE) > said.rfind(STANDS_BY)

    def until_active(self, within_s: float = 120.0) -> "SchedulerProcess":
        """Wait until it is the active one."""
        until(lambda: self.active or self.process.poll() is not None, "the scheduler to be elected", within_s)
        assert self.process.poll() is None, str(self)
        return self

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.wait()

    def stop(self, within_s: float = 30.0) -> int:
        """SIGTERM; its exit status."""
        tell(self.process)
        return self.process.wait(within_s)

    def close(self) -> None:
        """End it if it runs; for `closing`."""
        if self.process.poll() is None:
            self.kill()

    def __str__(self) -> str:
        return tail(self.log)


@dataclass
class Heard:
    """What was read of a topic so far, from its beginning; a thread reads on until `close`."""

    kafka: Kafka
    topic: str
    rows: list[Any] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        topic = TOPICS[self.topic]
        name = topic.full_name(self.kafka.topic_prefix)
        consumer: Consumer = bus.consumer(self.kafka, "test-reader", {"fetch.wait.max.ms": 50, "log_level": 0})
        partitions: list[int] = []

        def known() -> bool:
            """A topic that was made a moment ago has none yet."""
            with suppress(KafkaException):
                partitions[:] = consumer.list_topics(name, timeout=20).topics[name].partitions
            return bool(partitions) or self._stop.is_set()

        until(known, f"{name} to be known")
        consumer.assign([TopicPartition(name, each, OFFSET_BEGINNING) for each in partitions])
        while not self._stop.is_set():
            for message in consumer.consume(100, 0.05):
                if message.error() is None:
                    self.take(wire.unpack(topic, message.value() or b""))
        consumer.close()

    def take(self, rows: Sequence[Any]) -> None:
        """Rows of one message."""
        self.rows += rows

    def close(self) -> None:
        """Read no more."""
        self._stop.set()
        self._thread.join(10)


class Agents(Heard):
    """Agents of simulated hosts: each answers a look with its processes, and captures at once when told to start."""

    def __init__(self, kafka: Kafka, hosts: Sequence[str], pids: Sequence[int], captures: bool = True) -> None:
        self._hosts, self._pids, self._captures = hosts, pids, captures
        self._voice = Voice(kafka)
        super().__init__(kafka, "capture-commands")

    def take(self, rows: Sequence[Command]) -> None:
        """Commands."""
        super().take(rows)
        events = [event for row in rows if row.host in self._hosts for event in self._answer(row)]
        self._voice.tell(events)

    def _answer(self, command: Command) -> list[Event]:
        if command.action == "look":
            return [self.event(command, pid, "seen") for pid in self._pids]
        states = ("accepted", "captured") if self._captures else ("accepted",)
        return [self.event(command, pid, state) for pid in command.pids for state in states]

    def event(self, command: Command, pid: int, state: str) -> Event:
        """What an agent says of a process."""
        return Event(
            capture_id=command.capture_id, ts=time.time(), sequence=command.sequence, state=state, by="agent",
            host=command.host, pid=pid, url=f"file:///nowhere/{command.host}-{pid}.json", bytes=10,
        )  # fmt: skip

    def finish(self) -> None:
        """Now the traces come, of all that were told to start."""
        starts = [row for row in self.rows if row.action == "start" and row.host in self._hosts]
        self._voice.tell([self.event(row, pid, "captured") for row in starts for pid in row.pids])


def request(kafka: Kafka, capture_id: str, **wanted: Any) -> None:
    """Ask for a capture."""
    made = Request(**{"capture_id": capture_id, "ts": time.time(), "action": "start", "duration_ms": 500, **wanted})
    voice = Voice(kafka)
    assert voice.request(made) or voice._sender.flush(60), "the broker does not take the request"


def ended(events: Heard, capture_id: str) -> list[Event]:
    """Words that a capture ended."""
    return [event for event in list(events.rows) if event.capture_id == capture_id and event.state == "ended"]


def say(kafka: Kafka, events: Sequence[Event]) -> None:
    """Events, as anybody says them."""
    voice = Voice(kafka)
    with suppress(BufferError):
        voice.say(Turn(events=list(events)))
    assert voice._sender.flush(60), "the broker does not take the events"  # what it has not goes with its producer
