"""Run every source on its own thread and schedule: a stuck or failing one stops nobody but itself.

The runner, not the source, stamps the time, bounds the read, and says how it went.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final, Generic, Protocol

from google.protobuf.message import Message

from warpmeter import log, selfmetrics
from warpmeter.clock import Clock
from warpmeter.producers import health
from warpmeter.producers.health import Board
from warpmeter.producers.schedule import Schedule, Tick
from warpmeter.producers.source import AnySource, Health, Raw, Sample, Source, SourceError

OWN_NAME: Final = Path("/proc/thread-self/comm")


class Publisher(Protocol):
    """Where rows go; used from the threads of all sources."""

    def publish(self, topic: str, rows: Sequence[Message]) -> None:
        """Take the rows of one tick for `topic` (name without prefix). Never waits and never raises."""


class Loop(Generic[Raw]):
    """One source, its schedule and its thread."""

    def __init__(self, source: Source[Raw], board: Board, publisher: Publisher, clock: Clock) -> None:
        self.source = source
        self.publisher = publisher
        self._board, self._clock = board, clock
        self._schedule = Schedule(source.period_s, clock)
        self._before: Sample[Raw] | None = None
        self._reading_since: float | None = None
        self._log = log.get("agent")
        self._up = selfmetrics.gauge("warpmeter_source_up").labels(source.name)
        self._seconds = selfmetrics.gauge("warpmeter_source_read_seconds").labels(source.name)
        self._late_ticks = 0
        self._late = selfmetrics.counter("warpmeter_source_late_ticks_total").labels(source.name)

    def run(self, stop: Event) -> None:
        """Tick until `stop`; then close the source."""
        while not stop.wait(self._schedule.wait_s()):
            self.tick(self._schedule.tick())
        self.source.close()

    def tick(self, due: Tick) -> None:
        """Read once and publish what it says; a read that failed, or took too long, publishes its health alone."""
        self._late_ticks += due.late
        self._late.inc(due.late)
        began = self._clock.monotonic()
        self._reading_since = began
        raw, outcome = self._read()
        self._reading_since = None
        seconds = self._clock.monotonic() - began
        self._seconds.set(seconds)
        if outcome is None and seconds > self.source.timeout_s:
            outcome = self._too_long()
        if outcome is None and raw is not None:
            outcome = self._deliver(Sample(due.ts, began, self.source.period_s, raw), seconds)
        if outcome is not None:
            self._report(due.ts, seconds, outcome)

    def watch(self, ts: float) -> None:
        """From the main thread: report a read that is still running past its limit."""
        since = self._reading_since
        if since is None or (seconds := self._clock.monotonic() - since) <= self.source.timeout_s:
            return
        self._report(ts, seconds, self._too_long())

    def _read(self) -> tuple[Raw | None, Health | None]:
        try:
            return self.source.read(), None
        except SourceError as error:
            return None, Health("", error.state, str(error))
        except PermissionError as error:
            return None, Health("", "denied", f"{error}; run the agent as root or give it the capability")
        except OSError as error:
            return None, Health("", "failed", str(error))
        except Exception as error:  # noqa: BLE001 - the edge of this source's thread; the others go on
            return None, self._bug(error)

    def _deliver(self, sample: Sample[Raw], seconds: float) -> Health | None:
        try:
            reading = self.source.parse(sample, self._before)
        except Exception as error:  # noqa: BLE001 - what a driver says may be beyond the parser; the others go on
            return self._bug(error)
        self._before = sample
        self._up.set(1)
        if reading.rows:
            self.publisher.publish(self.source.topic, reading.rows)
        for topic, rows in reading.others.items():
            self.publisher.publish(topic, rows)
        self._report(sample.ts, seconds, self._well(), reading.health)
        return None

    def _well(self) -> Health:
        return Health("", "ok", "ticks skipped, being late", self._late_ticks) if self._late_ticks else health.OK

    def _too_long(self) -> Health:
        return Health("", "timeout", f"the read took over {self.source.timeout_s:g} s; this source waits until it ends")

    def _bug(self, error: Exception) -> Health:
        self._log.error("source_broke", source=self.source.name, error=repr(error), exc_info=error)
        return Health("", "failed", repr(error))

    def _report(self, ts: float, seconds: float, outcome: Health, subjects: Sequence[Health] = ()) -> None:
        changes = self._board.report(self.source.name, ts, seconds, outcome, subjects)
        if outcome.state != "ok":
            self._up.set(0)
        if changes:
            self.publisher.publish(health.TOPIC, changes)
            health.tell(self._log, changes)


class Runner:
    """All loops of an agent."""

    def __init__(self, sources: Sequence[AnySource], board: Board, publisher: Publisher, clock: Clock) -> None:
        self.loops: list[Loop[Any]] = [Loop(source, board, publisher, clock) for source in sources]
        self._clock = clock
        self._stop = Event()
        self._threads: list[Thread] = []

    def start(self) -> None:
        """Start a thread for each source. They are daemons: a read stuck in a driver does not hold the exit."""
        self._threads = [
            Thread(target=named, args=(loop.source.name, loop.run, self._stop), name=loop.source.name, daemon=True)
            for loop in self.loops
        ]
        for thread in self._threads:
            thread.start()

    def watch(self) -> None:
        """Look for reads past their limit; called about once a second."""
        ts = round(self._clock.now(), 3)
        for loop in self.loops:
            loop.watch(ts)

    def stop(self, timeout_s: float) -> list[str]:
        """Stop after the ticks that run now, at most `timeout_s`; returns the names of those still stuck."""
        self._stop.set()
        deadline = self._clock.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - self._clock.monotonic()))
        return [thread.name for thread in self._threads if thread.is_alive()]


def named(name: str, run: Callable[[Event], None], stop: Event) -> None:
    """Run with that name as the kernel's for the thread too, so that `top -H -p` shows what each costs."""
    with suppress(OSError):
        OWN_NAME.write_text(name)
    run(stop)
