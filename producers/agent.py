"""The agent: sources, runner, shipper and health, put together; and its life from start to signal."""

import dataclasses
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Thread
from typing import Any, Final

from warpmeter import __version__, log, selfmetrics
from warpmeter.clock import Clock, SystemClock
from warpmeter.producers import devices, gpu, health, host, jobs, mounts, numa, paces, perf, rdma, scrape, stacks
from warpmeter.producers.health import Board
from warpmeter.producers.kineto.service import Profiling
from warpmeter.producers.out import several
from warpmeter.producers.out.several import Several
from warpmeter.producers.output import Collector, Printer, Tally
from warpmeter.producers.runner import Loop, Runner
from warpmeter.producers.schedule import Tick
from warpmeter.producers.source import AnySource, Attribution
from warpmeter.producers.steps import StepWatch
from warpmeter.settings import Agent, Settings

SIGNALS: Final = frozenset({signal.SIGTERM, signal.SIGINT})
WAKE_S: Final = 1.0
BUSY_S: Final = 0.02
"""Pause between two looks at the producer while the spool empties."""
STOP_SOURCES_S: Final = 1.0
STOP_PROFILING_S: Final = 0.5
FLUSH_S: Final = 3.0
"""With STOP_SOURCES_S, and what taking back and the spool take, a stop is done in 5 s."""
ONCE_S: Final = 1.0
"""Longest pause between the two reads of `--once`."""


@dataclass(frozen=True)
class Options:
    """How to run: `once`: one tick to standard output; `dry_run`: no output but that; `as_json`: rows as JSON lines."""

    once: bool = False
    as_json: bool = False
    dry_run: bool = False


def all_sources(agent: Agent, attribution: Attribution | None = None) -> list[AnySource]:
    """Every source that the settings ask for; `attribution`: where they meet, for others that ask there."""
    attribution = attribution or Attribution()
    modules = (host, devices, rdma, mounts, numa, perf, gpu, jobs, paces, scrape, stacks)
    return [source for module in modules for source in module.sources(agent, attribution)]


def run(settings: Settings, options: Options, clock: Clock | None = None) -> int:
    """Run until a signal (or one tick) by `clock`, the machine's unless given; returns the exit status."""
    clock = clock or SystemClock()
    if options.once:
        return once(settings.agent, Printer(options.as_json, dynolog=settings.agent.names == "dynolog"), clock)
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # before any thread: they inherit it
    outputs = _dry(settings, options, clock) if options.dry_run else several.of_settings(settings, clock)
    if options.dry_run or "prometheus" not in settings.agent.outputs:
        selfmetrics.serve(settings.metrics, "agent")
    attribution = Attribution()
    offered = settings.agent.kineto and not options.dry_run
    profiling = Profiling(settings, attribution, outputs.publish, clock) if offered else None
    life = _Life(settings, attribution, outputs, profiling, clock)
    life.started(**_facts(settings, options))
    life.until_signal()
    stuck = life.stop_sources()
    outputs.close(FLUSH_S)
    return life.ended(stuck)


def _dry(settings: Settings, options: Options, clock: Clock) -> Several:
    return Several([several.stdout(settings, clock) if options.as_json else Tally(settings.agent.interval_s)])


def _facts(settings: Settings, options: Options) -> dict[str, Any]:
    if options.dry_run:
        return {"outputs": [], "broker": "none: dry run"}
    facts: dict[str, Any] = {"outputs": list(settings.agent.outputs)}
    if "kafka" in settings.agent.outputs:
        facts |= {"broker": settings.kafka.bootstrap_servers, "spool": str(settings.agent.spool_dir)}
    return facts


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
    try:
        collector.print_to(printer)
        printer.publish(health.TOPIC, board.rows(round(clock.now(), 3)))
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is not tried again at the exit
        if isinstance(error, BrokenPipeError):  # `| head` has seen enough
            return 0
        log.get("agent").error("standard output cannot be written", why=error.strerror)
        return 1
    return 0


def _twice(loop: Loop[Any], collector: Collector, clock: Clock, pause: float) -> None:
    loop.tick(Tick(float(int(clock.now())), 0))
    clock.sleep(pause)
    loop.publisher = collector
    loop.tick(Tick(float(int(clock.now())), 0))
    loop.source.close()


class _Life:
    """Start, main loop and end."""

    def __init__(
        self, settings: Settings, attribution: Attribution, outputs: Several, profiling: Profiling | None, clock: Clock
    ) -> None:
        agent = settings.agent
        self._agent, self._outputs, self._clock = agent, outputs, clock
        self._profiling = profiling
        self._board = Board(agent.host, agent.health_interval_s)
        self._runner = Runner(all_sources(agent, attribution), self._board, outputs, clock)
        self._log = log.get("agent")
        self._health_at = clock.now() // agent.health_interval_s
        self._steps = StepWatch(clock)

    def started(self, **facts: Any) -> None:
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
        if self._profiling is not None:
            self._profiling.start()

    def until_signal(self) -> None:
        """Do what is due about once a second until SIGTERM or SIGINT, after which another ends the process at once.

        Or until nobody takes anything any more.
        """
        wait, received = WAKE_S, None
        while not self._outputs.gone and (received := signal.sigtimedwait(SIGNALS, wait)) is None:
            wait = BUSY_S if self._outputs.pump() else WAKE_S
            self._runner.watch()
            if self._profiling is not None:
                self._profiling.watch()
            self._publish_health()
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        self._log.info("agent_stopping", signal=signal.Signals(received.si_signo).name if received else "none")

    def stop_sources(self) -> list[str]:
        """Stop the sources; names of those that are stuck in a read."""
        if self._profiling is not None:
            self._profiling.stopping()
        stuck = self._runner.stop(STOP_SOURCES_S)
        if self._profiling is not None:
            self._profiling.stop(STOP_PROFILING_S)
        return stuck

    def ended(self, stuck: Sequence[str]) -> int:
        """Say so; a thread that is stuck in a driver must not hold the process. 1 when nobody took the rows."""
        status = int(self._outputs.gone)
        self._log.info("agent_stopped", stuck=list(stuck), why="the reader is gone" if status else "")
        if stuck:
            sys.stdout.flush()
            os._exit(status)
        return status

    def _publish_health(self) -> None:
        ts = round(self._clock.now(), 3)
        self._publish_step(ts)
        told = [(output.name, output.health()) for output in self._outputs.outputs]
        if self._profiling is not None:
            told.append((self._profiling.name, self._profiling.health()))
        for name, (state, subjects) in told:
            changed = self._board.report(name, ts, None, state, subjects)
            health.tell(self._log, changed)
            if changed:
                self._outputs.publish(health.TOPIC, changed)
        interval = self._agent.health_interval_s
        if ts // interval != self._health_at:
            self._health_at = ts // interval
            rows = self._board.rows(round(self._health_at * interval, 3))
            if rows:
                self._outputs.publish(health.TOPIC, rows)

    def _publish_step(self, now: float) -> None:
        """At once at every step. After one back, the word for it goes at the end of the old time, where it is seen."""
        step_s, state = self._steps.look()
        ts = round(max(now, now - step_s), 3)
        changed = self._board.report("clock", ts, None, state)
        health.tell(self._log, changed)
        if changed or step_s:
            self._outputs.publish(health.TOPIC, changed or [self._board.row("clock", ts)])
