"""The scheduler at work: elected or standing by, it reads, lets the captures decide, and says what they say."""

import queue
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, Protocol, cast

from warpmeter import log, selfmetrics
from warpmeter.captures.ranks import Event
from warpmeter.captures.reading import Events
from warpmeter.captures.wishes import Request
from warpmeter.scheduler.capture import Analyse, Resolve, Resolved, Turn
from warpmeter.scheduler.captures import Captures
from warpmeter.scheduler.reading import Requests
from warpmeter.scheduler.saying import Voice
from warpmeter.settings import Scheduler

WAIT_S: Final = 0.05
TURN_EVERY_S: Final = 0.2
STILL: Final = 0.7
"""Of a session: the last heartbeat may have been a quarter of it before."""


class Analyst(Protocol):
    """Who analyses what was captured; its events are fetched with `said`."""

    def analyse(self, wanted: Analyse) -> None:
        """Begin, or queue, the analysis of a round."""

    def said(self) -> list[Event]:
        """Events of analyses since the last call."""

    def drop(self) -> None:
        """End what is under way: somebody else does it now."""


class ScheduleError(Exception):
    """A schedule, or the store of their times, cannot be used; the message says which, and why."""


class Timer(Protocol):
    """Whose requests come by themselves."""

    def elected(self, active: bool) -> None:
        """This process is the active scheduler, or no more."""

    def due(self) -> list[Request]:
        """Requests whose time has come since the last call."""

    def close(self) -> None:
        """No more."""


class Beside(Protocol):
    """What the active scheduler does beside captures, on threads of its own: reports, alerts. No call takes long."""

    def elected(self, active: bool) -> None:
        """This process is the active scheduler, or no more."""

    def close(self) -> None:
        """No more."""


@dataclass
class Ports:
    """What the service works on. `timer` None: there are no schedules."""

    requests: Requests
    events: Events
    voice: Voice
    resolve: Callable[[Request], Resolved]
    analyst: Analyst
    timer: Timer | None = None
    beside: tuple[Beside, ...] = ()
    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic


@dataclass
class Service:
    """One scheduler. `step` is called again and again, from one thread; `close` at the end."""

    ports: Ports
    limits: Scheduler
    captures: Captures | None = None
    _answers: "queue.SimpleQueue[Resolved]" = field(default_factory=queue.SimpleQueue)
    _asking: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "resolve"))
    _turned: float = 0.0
    _stepped: float = field(default_factory=time.monotonic)
    _doubts_until: float = 0.0
    _log: log.Logger = field(default_factory=lambda: log.get("scheduler"))

    def step(self) -> None:
        """Read what has come and do what is due. Raises ReadingError, KafkaException, RegistryError."""
        self._look_at_watch()
        for request in self.ports.requests.read(0.0 if self.captures is not None else WAIT_S):
            self._take(request)
        if not self.ports.requests.held or self.ports.monotonic() < self._doubts_until:
            self._stand_by()
        elif self.captures is None or not self.ports.requests.caught_up:
            self._take_over()
        else:
            self._work(self.captures)

    def _look_at_watch(self) -> None:
        """Who stood still for a session (a stopped machine) may have been replaced, and hears of it a moment later."""
        now, before = self.ports.monotonic(), self._stepped
        self._stepped = now
        if self.captures is not None and now - before > STILL * self.limits.session_timeout_s:
            self._log.warning(
                "stood still: in doubt whether this is the active scheduler", seconds=round(now - before, 1)
            )
            self._doubts_until = now + self.limits.session_timeout_s

    def _take(self, request: object) -> None:
        if self.captures is not None:
            self.captures.request(cast(Request, request), self.ports.now())

    def _stand_by(self) -> None:
        if self.captures is not None:
            self.captures = None
            self.ports.events.stop()
            self.ports.analyst.drop()
            self._tell_elected(False)
            self._log.info("standing by")
            if self.ports.requests.held:
                self.ports.requests.again()

    def _take_over(self) -> None:
        """Become the active one: know what was asked for, and what came of it."""
        began, captures, now = self.ports.monotonic(), Captures(self.limits), self.ports.now()
        self.ports.analyst.drop()
        requests = [cast(Request, each) for each in self.ports.requests.read_all()]
        for request in requests:
            captures.request(request, now)
        since = min((request.ts for request in requests), default=None)
        for event in self.ports.events.start(since, lambda: self._is_still_it(captures)):
            captures.hear(cast(Event, event))
        if self.ports.requests.held:
            self.captures = captures
            took_s = round(self.ports.monotonic() - began, 3)
            self._log.info("active", captures=len(captures), took_s=took_s)
            self._tell_elected(True)

    def _tell_elected(self, active: bool) -> None:
        selfmetrics.gauge("warpmeter_scheduler_active").set(active)
        for each in self._others():
            each.elected(active)

    def _others(self) -> list[Beside]:
        return [*([] if self.ports.timer is None else [self.ports.timer]), *self.ports.beside]

    def _is_still_it(self, captures: Captures) -> bool:
        for request in self.ports.requests.read():
            captures.request(cast(Request, request), self.ports.now())
        return self.ports.requests.held

    def _work(self, captures: Captures) -> None:
        heard = self.ports.events.read(WAIT_S)
        at = self.ports.now()
        for event in heard:
            captures.hear(cast(Event, event), at)
        while not self._answers.empty():
            captures.resolved(self._answers.get())
        if said := self.ports.analyst.said():
            self.ports.voice.tell(said)
        self._begin_due(captures)
        if heard or self.ports.monotonic() - self._turned >= TURN_EVERY_S:
            self._turned = self.ports.monotonic()
            self._do(captures.turn(self.ports.now()))
            selfmetrics.gauge("warpmeter_scheduler_captures").set(len(captures))

    def _begin_due(self, captures: Captures) -> None:
        """Ask for what schedules want now, by the topic as anybody does."""
        for request in [] if self.ports.timer is None else self.ports.timer.due():
            if captures.asked_by(request.requested_by):
                self._log.warning("skipped: the capture of the run before goes on", schedule=request.name)
                continue
            request.ts = self.ports.now()
            self.ports.voice.request(request)
            captures.request(request, request.ts)  # so that the next run sees it, before it has come by the topic

    def _do(self, turn: Turn) -> None:
        if turn.commands or turn.events:
            self.ports.voice.say(turn)
        for wanted in turn.resolve:
            self._asking.submit(self._ask, wanted)
        for analysis in turn.analyse:
            self.ports.analyst.analyse(analysis)

    def _ask(self, wanted: Resolve) -> None:
        """On the thread that waits for the store."""
        try:
            self._answers.put(self.ports.resolve(wanted.request))
        except Exception as error:  # noqa: BLE001 - a thread's edge: the capture ends with the reason
            self._answers.put(Resolved(wanted.request.capture_id, (), "store_away", f"{type(error).__name__}: {error}"))

    def close(self) -> None:
        """Leave: another is elected at once."""
        self.ports.analyst.drop()
        for each in self._others():
            each.close()
        self.ports.requests.close()
        self.ports.events.close()
        self._asking.shutdown(wait=False, cancel_futures=True)
