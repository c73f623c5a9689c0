"""The agent: sources, runner, shipper and health, put together; and its life from start to signal."""

import dataclasses
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Thread
from typing import Any, Final, Protocol

from warpmeter import __version__, log, selfmetrics
from warpmeter.clock import Clock, SystemClock
from warpmeter.producers import devices, gpu, health, host, jobs, prometheus
from warpmeter.producers.health import Board
from warpmeter.producers.output import Collector, Printer, Tally
from warpmeter.producers.runner import Loop, Publisher, Runner
from warpmeter.producers.schedule import Tick
from warpmeter.producers.shipper import Shipper, open_spool
from warpmeter.producers.source import AnySource, Attribution
from warpmeter.producers.steps import StepWatch
from warpmeter.settings import Agent, Settings

SIGNALS: Final = frozenset({signal.SIGTERM, signal.SIGINT})
WAKE_S: Final = 1.0
BUSY_S: Final = 0.02
"""Pause between two looks at the producer while the spool empties."""
STOP_SOURCES_S: Final = 1.0
FLUSH_S: Final = 3.0
"""With STOP_SOURCES_S, and what taking back and the spool take, a stop is done in 5 s."""
ONCE_S: Final = 1.0
"""Longest pause between the two reads of `--once`."""


@dataclass(frozen=True)
class Options:
    """How to run: `once`: one tick to standard output; `dry_run`: no broker; `as_json`: rows as JSON lines."""

    once: bool = False
    as_json: bool = False
    dry_run: bool = False


class Pump(Protocol):
    """What the main loop does between ticks; True when there is more to do at once."""

    def __call__(self) -> bool: ...


def all_sources(agent: Agent) -> list[AnySource]:
    """Every source that the settings ask for."""
    attribution = Attribution()
    modules = (host, devices, gpu, jobs, prometheus)
    return [source for module in modules for source in module.sources(agent, attribution)]


def run(settings: Settings, options: Options, clock: Clock | None = None) -> int:
    """Run until a signal (or one tick) by `clock`, the machine's unless given; returns the exit status."""
    clock = clock or SystemClock()
    if options.once:
        return once(settings.agent, Printer(options.as_json), clock)
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # before any thread: they inherit it
    selfmetrics.serve(settings.metrics, "agent")
    if options.dry_run:
        return _dry_run(settings, options, clock)
    return _ship(settings, clock)


def once(agent: Agent, printer: Printer, clock: Clock) -> int:
    """One tick of every source. Rates need two reads, so each source is read twice, a moment apart."""
    collector = Collector()
    board = Board(agent.host, agent.health_interval_s)
    often = dataclasses.replace(agent, job_event_interval_s=agent.job_interval_s)
    runner = Runner(all_sources(often), board, Tally(), clock)
    pause = min(ONCE_S, agent.interval_s)
    threads = [Thread(target=_twice, args=(loop, collector, clock, pause), daemon=True) for loop in runner.loops]
    for thread in threads:
        thread.start()
    deadline = clock.monotonic() + pause + max((loop.source.timeout_s for loop in runner.loops), default=0.0)
    for thread in threads:
        thread.join(max(0.0, deadline - clock.monotonic()))
    runner.watch()
    collector.print_to(printer)
    printer.publish(health.TOPIC, board.rows(round(clock.now(), 3)))
    return 0


def _twice(loop: Loop[Any], collector: Collector, clock: Clock, pause: float) -> None:
    loop.tick(Tick(float(int(clock.now())), 0))
    clock.sleep(pause)
    loop.publisher = collector
    loop.tick(Tick(float(int(clock.now())), 0))
    loop.source.close()


def _ship(settings: Settings, clock: Clock) -> int:
    shipper = Shipper(settings, open_spool(settings.agent, clock), clock)
    life = _Life(settings, shipper, clock)
    life.started(broker=settings.kafka.bootstrap_servers, spool=str(settings.agent.spool_dir))
    life.until_signal(shipper.pump, shipper)
    stuck = life.stop_sources()
    shipper.close(FLUSH_S)
    return life.ended(stuck)


def _dry_run(settings: Settings, options: Options, clock: Clock) -> int:
    tally = Tally()
    publisher: Publisher = Printer(True) if options.as_json else tally
    life = _Life(settings, publisher, clock)
    life.started(broker="none: dry run")
    shown = time.monotonic()

    def show() -> bool:
        nonlocal shown
        if not options.as_json and time.monotonic() - shown >= settings.agent.interval_s:
            shown = time.monotonic()
            print("rows so far:", *(f"{topic}={count}" for topic, count in tally.rows.items()), flush=True)
        return False

    life.until_signal(show)
    return life.ended(life.stop_sources())


class _Life:
    """Start, main loop and end that a real and a dry run share."""

    def __init__(self, settings: Settings, publisher: Publisher, clock: Clock) -> None:
        agent = settings.agent
        self._agent, self._publisher, self._clock = agent, publisher, clock
        self._board = Board(agent.host, agent.health_interval_s)
        self._runner = Runner(all_sources(agent), self._board, publisher, clock)
        self._log = log.get("agent")
        self._health_at = clock.now() // agent.health_interval_s
        self._steps = StepWatch(clock)

    def started(self, **facts: str) -> None:
        """Start the sources and say so."""
        names = [loop.source.name for loop in self._runner.loops]
        pattern = jobs.pattern_in_force(self._agent)
        self._log.info(
            "agent_started",
            version=__version__,
            host=self._agent.host,
            sources=names,
            interval_s=self._agent.interval_s,
            job_pattern=pattern.text,
            job_pattern_why=pattern.why,
            **facts,
        )
        self._runner.start()

    def until_signal(self, pump: Pump, shipper: Shipper | None = None) -> None:
        """Do what is due about once a second until SIGTERM or SIGINT; a second one ends the process at once."""
        wait = WAKE_S
        while (received := signal.sigtimedwait(SIGNALS, wait)) is None:
            wait = BUSY_S if pump() else WAKE_S
            self._runner.watch()
            self._publish_health(shipper)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        self._log.info("agent_stopping", signal=signal.Signals(received.si_signo).name)

    def stop_sources(self) -> list[str]:
        """Stop the sources; names of those that are stuck in a read."""
        return self._runner.stop(STOP_SOURCES_S)

    def ended(self, stuck: Sequence[str]) -> int:
        """Say so; a thread that is stuck in a driver must not hold the process."""
        self._log.info("agent_stopped", stuck=list(stuck))
        if stuck:
            sys.stdout.flush()
            os._exit(0)
        return 0

    def _publish_health(self, shipper: Shipper | None) -> None:
        ts = round(self._clock.now(), 3)
        self._publish_step(ts)
        if shipper is not None:
            state, subjects = shipper.health()
            changed = self._board.report("shipper", ts, None, state, subjects)
            health.tell(self._log, changed)
            if changed:
                self._publisher.publish(health.TOPIC, changed)
        interval = self._agent.health_interval_s
        if ts // interval != self._health_at:
            self._health_at = ts // interval
            rows = self._board.rows(round(self._health_at * interval, 3))
            if rows:
                self._publisher.publish(health.TOPIC, rows)

    def _publish_step(self, now: float) -> None:
        """At once at every step. After one back, the word for it goes at the end of the old time, where it is seen."""
        step_s, state = self._steps.look()
        ts = round(max(now, now - step_s), 3)
        changed = self._board.report("clock", ts, None, state)
        health.tell(self._log, changed)
        if changed or step_s:
            self._publisher.publish(health.TOPIC, changed or [self._board.row("clock", ts)])
