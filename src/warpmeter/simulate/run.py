"""Send a simulated fleet to Kafka: history as fast as it goes, then in real time."""

import os
import sys
import threading
import time
from dataclasses import dataclass, field
from math import floor
from pathlib import Path
from typing import Final, Protocol

from confluent_kafka import KafkaError, Message, Producer

from warpmeter import bus, topics
from warpmeter.registry import configured
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Kafka
from warpmeter.simulate.fleet import Fleet
from warpmeter.simulate.simulation import Simulation, Tick
from warpmeter.stopping import stopping
from warpmeter.wire import Envelope

DRAIN_S: Final = 15.0
PUBLISHED: Final = ("gpu-samples", "host-samples", "device-samples", "job-events", "stack-samples", "source-health")


@dataclass(frozen=True)
class Pace:
    """When ticks are sent, in seconds.

    `backfill_s`: history before now, sent first. `speedup`: fleet seconds a second of that history is played at;
    0 is as fast as it goes. `max_rate`: rows a second at most, 0 for no limit. `duration_s`: how long to go on after
    the start; None for ever, 0 for the history alone. `resume`: a file that remembers up to when ticks were sent, so
    that a run after another sends no instant twice. Raises ValueError for a negative number.
    """

    backfill_s: float = 0.0
    speedup: float = 0.0
    max_rate: float = 0.0
    duration_s: float | None = None
    resume: Path | None = None

    def __post_init__(self) -> None:
        if min(self.backfill_s, self.speedup, self.max_rate, self.duration_s or 0) < 0:
            raise ValueError("a simulation's pace has no negative numbers")


@dataclass
class Totals:
    """What has been sent so far; `behind_s`: how far the last tick is behind the clock."""

    ticks: int = 0
    messages: int = 0
    rows: int = 0
    gpu_rows: int = 0
    bytes: int = 0
    behind_s: float = 0.0
    waiting: int = 0
    seconds: float = 0.0
    trouble: str = ""

    def add(self, tick: Tick) -> None:
        """Count a tick that has been handed over."""
        self.ticks += 1
        self.messages += len(tick.envelopes)
        self.rows += tick.rows
        self.gpu_rows += sum(each.rows for each in tick.envelopes if each.topic == "gpu-samples")
        self.bytes += sum(len(each.value) for each in tick.envelopes)

    def __str__(self) -> str:
        rate = self.rows / self.seconds if self.seconds else 0.0
        return (
            f"{self.rows:,} rows ({self.gpu_rows:,} of GPUs), {self.bytes / 1e6:,.0f} MB, {self.messages:,} messages, "
            f"{rate:,.0f} rows/s, {self.behind_s:,.0f} s behind now, {self.waiting:,} to be acknowledged"
            + (f"; {self.trouble}" if self.trouble else "")
        )


class Sink(Protocol):
    """Where ticks go."""

    def send(self, envelope: Envelope, ts: float) -> None:
        """Take one Envelope, waiting while there is no room."""

    def waiting(self) -> int:
        """Messages taken and not yet acknowledged."""

    def trouble(self) -> str:
        """What keeps messages waiting, '' when nothing does."""

    def close(self, timeout_s: float) -> int:
        """Wait for acknowledgements; returns how many messages are still missing."""


@dataclass
class Nowhere:
    """Drops everything: for `--dry-run`, to see how fast the simulation itself is."""

    kept: list[Envelope] | None = field(default=None)

    def send(self, envelope: Envelope, ts: float) -> None:  # noqa: ARG002 - the port's signature
        """Drop, or keep where a list is given."""
        if self.kept is not None:
            self.kept.append(envelope)

    def waiting(self) -> int:
        """Nothing waits."""
        return 0

    def trouble(self) -> str:
        """Nothing goes wrong."""
        return ""

    def close(self, timeout_s: float) -> int:  # noqa: ARG002 - the port's signature
        """Nothing is missing."""
        return 0


class Bus:
    """Kafka, as the agent produces to it, with the sample's own time as the message's."""

    def __init__(self, kafka: Kafka, stop: threading.Event) -> None:
        self._kafka, self._trouble, self._refused = kafka, "", ""
        self._stop = stop
        self._names = {name: topic.full_name(kafka.topic_prefix) for name, topic in TOPICS.items()}
        registry = configured(kafka)
        self._frames = {name: registry.frame(TOPICS[name]) if registry else b"" for name in PUBLISHED}
        self._producer: Producer = Producer(bus.options(kafka, bus.PRODUCER, {"log_level": 0}), error_cb=self._note)

    def send(self, envelope: Envelope, ts: float) -> None:
        """Produce, waiting while the producer's queue is full; gives up only when told to stop."""
        while True:
            try:
                self._producer.produce(
                    self._names[envelope.topic],
                    self._frames[envelope.topic] + envelope.value,
                    envelope.key,
                    headers=[*envelope.headers],
                    timestamp=int(ts * 1000),
                    on_delivery=self._heard,
                )
                return
            except BufferError:
                if self._stop.is_set():
                    return
                self._producer.poll(0.1)

    def waiting(self) -> int:
        """Messages without an acknowledgement."""
        self._producer.poll(0)
        return len(self._producer)

    def trouble(self) -> str:
        """The last thing the broker's connection complained of, while messages wait."""
        if not len(self._producer):
            self._trouble = ""
        return self._refused or self._trouble

    def close(self, timeout_s: float) -> int:
        """Flush."""
        return int(self._producer.flush(timeout_s))

    def _heard(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._refused = bus.refusal(error, self._kafka, f"Write on topic {message.topic()}")

    def _note(self, error: KafkaError) -> None:
        self._trouble = error.str()


def prepare(kafka: Kafka) -> None:
    """Create those topics that are missing; raises TopicsError when the broker is away or refuses."""
    wanted = [TOPICS[name] for name in PUBLISHED]
    missing = [each for each in topics.check(kafka, wanted) if isinstance(each, topics.Missing)]
    topics.apply(kafka, missing)


def run(fleet: Fleet, pace: Pace, sink: Sink, stop: threading.Event, report: "Report") -> Totals:
    """Send ticks to `sink` until `stop` is set or the pace's duration is over; returns what was sent.

    Ticks lie on whole multiples of the interval. One that is late is sent at once: time is made up, never left out.
    The jobs of a fleet that may be resumed end with it, and whoever resumes it begins others.
    """
    began = time.time()
    memory = _Memory(pace.resume) if pace.resume else None
    sent = memory.recall() if memory else 0.0
    start = floor(max(began - pace.backfill_s, sent + fleet.interval_s) / fleet.interval_s) * fleet.interval_s
    end = float("inf") if pace.duration_s is None else began + pace.duration_s
    totals = Totals()
    simulation = Simulation(fleet, round(start, 3), in_flight=not sent)
    while simulation.now <= end and _wait(_due(pace, began, start, simulation.now, totals.rows), stop, report, totals):
        tick = simulation.tick()
        if memory:
            memory.keep(tick.ts)
        for envelope in tick.envelopes:
            sink.send(envelope, tick.ts)
        totals.add(tick)
        now = time.time()
        totals.seconds, totals.behind_s, totals.waiting = now - began, max(0.0, now - tick.ts), sink.waiting()
        totals.trouble = sink.trouble()
        report(totals)
    if memory and totals.ticks:
        last = simulation.end()
        for envelope in last.envelopes:
            sink.send(envelope, last.ts)
    return totals


class _Memory:
    """The last tick handed over, in a file; written before the tick is sent, so that a crash repeats nothing."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def recall(self) -> float:
        """Seconds since the epoch; 0 when nothing was sent."""
        try:
            return float(os.pread(self._file, 64, 0) or b"0")
        except ValueError:
            return 0.0

    def keep(self, ts: float) -> None:
        """Remember `ts`."""
        os.pwrite(self._file, f"{ts:020.3f}\n".encode(), 0)


def _due(pace: Pace, began: float, start: float, ts: float, rows: int) -> float:
    """The wall clock's time at which a tick may go: never before its own time."""
    played = began + (ts - start) / pace.speedup if pace.speedup else 0.0
    limited = began + rows / pace.max_rate if pace.max_rate else 0.0
    return max(ts, played, limited)


def _wait(due: float, stop: threading.Event, report: "Report", totals: Totals) -> bool:
    """Wait until `due`; False when told to stop."""
    while not stop.is_set():
        left = due - time.time()
        if left <= 0:
            return True
        stop.wait(min(left, 1.0))
        report(totals)
    return False


class Report:
    """Progress on stderr: one line rewritten on a terminal, a line every half minute elsewhere."""

    def __init__(self, quiet: bool = False) -> None:
        self._terminal = sys.stderr.isatty()
        self._every_s = 1.0 if self._terminal else 30.0
        self._next = float("inf") if quiet else 0.0

    def __call__(self, totals: Totals) -> None:
        """Show the totals, if it is time."""
        if (now := time.monotonic()) >= self._next:
            self._next = now + self._every_s
            self._show(str(totals))

    def last(self, text: str) -> None:
        """The last line."""
        self._show(text)
        if self._terminal:
            sys.stderr.write("\n")

    def _show(self, text: str) -> None:
        sys.stderr.write(f"\r\033[K{text}" if self._terminal else f"{text}\n")
        sys.stderr.flush()


def simulate(kafka: Kafka, fleet: Fleet, pace: Pace, dry_run: bool = False) -> int:
    """The command: send a fleet until stopped; returns the exit status.

    Raises TopicsError, RegistryError or KafkaException when the bus cannot be used.
    """
    report = Report()
    with stopping() as stop:
        if not dry_run:
            prepare(kafka)
        sink: Sink = Nowhere() if dry_run else Bus(kafka, stop)
        totals = run(fleet, pace, sink, stop, report)
        missing = sink.close(DRAIN_S)
        totals.waiting = missing
        report.last(str(totals))
    if missing:
        report.last(f"{missing:,} messages were not acknowledged by {kafka.bootstrap_servers} and are lost")
    return 1 if missing else 0
