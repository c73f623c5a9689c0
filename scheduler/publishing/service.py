"""Reports by themselves, in the elected scheduler: on a thread of its own, with one more for each target.

What was said of reports, by their topic and by what of it has landed, is all that is remembered. So a scheduler that is
killed anywhere goes on: what is not known to be rendered is looked for where reports are kept, and else rendered; what
is not known to be delivered is sent, under the same name as before.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import Final, Protocol

from confluent_kafka import KafkaException

from warpmeter import log, selfmetrics
from warpmeter.captures.reading import ReadingError
from warpmeter.registry import RegistryError
from warpmeter.reports import periods
from warpmeter.reports.archive import ArchiveError
from warpmeter.reports.said import DELIVERED, FAILED, GAVE_UP, LATE, QUEUED, RENDERED, ReportEvent
from warpmeter.scheduler.publishing import due
from warpmeter.scheduler.publishing.book import Book
from warpmeter.scheduler.publishing.due import Wanted
from warpmeter.scheduler.publishing.making import CannotError, LaterError
from warpmeter.scheduler.service import ScheduleError
from warpmeter.sending import Message, Outcome, Refused, Sent, TryAgain
from warpmeter.settings import Reports, Target
from warpmeter.store import ClickHouseError, cause

TURN_EVERY_S: Final = 0.25
LOOK_EVERY_S: Final = 20.0
PRUNE_EVERY_S: Final = 86_400.0
AGAIN_S: Final = 5.0
LONGEST_AWAY_S: Final = 14 * 86_400.0
"""What was rendered so long ago, and not sent because no scheduler was there, is not sent any more."""
END_S: Final = 5.0
"""So long a delivery under way has to be acknowledged when the scheduler is stopped."""


class Topic(Protocol):
    """The events of reports. All calls but `tell` from one thread."""

    def recall(self, still: Callable[[], bool]) -> Sequence[ReportEvent]:
        """All that was said so far. Raises ReadingError, KafkaException, ClickHouseError."""

    def heard(self) -> Sequence[ReportEvent]:
        """What was said since. Raises ReadingError, KafkaException."""

    def tell(self, events: Sequence[ReportEvent]) -> None:
        """Say it of one report, as one message, and wait a moment. Raises KafkaException, RegistryError."""

    def stop(self) -> None:
        """Listen no more, until the next `recall`."""

    def close(self) -> None:
        """Let go of the broker."""


@dataclass(frozen=True)
class Ports:
    """What publishing works on. `make` keeps a report, and raises CannotError, LaterError; `kept` gives one that is
    kept, and raises ArchiveError, as `prune` does, which removes old ones. `landed`, `jobs`: see `asking`.
    """

    topic: Topic
    make: Callable[[Wanted, Callable[[], bool]], None]
    kept: Callable[[str], Message | None]
    send: Callable[[Target, Message], Outcome]
    jobs: due.Jobs
    landed: Callable[[], float]
    prune: Callable[[float], int] = lambda _: 0
    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic


class Publisher:
    """One scheduler's reports; at work while it is elected. Raises ScheduleError at its making."""

    def __init__(self, reports: Reports, ports: Ports) -> None:
        for schedule in reports.schedules:
            if why := periods.objection(schedule):
                raise ScheduleError(f"reports.schedules {schedule.name!r}: {why}")
        self._reports, self._ports = reports, ports
        self._targets = {target.name: target for target in reports.targets}
        self._senders = {name: ThreadPoolExecutor(1, f"send-{name}") for name in self._targets}
        self._flying: dict[str, Future[None]] = {}
        self._pauses: dict[str, float] = {}
        self._book = Book()
        self._active, self._over = Event(), Event()
        self._looked: float | None = None
        self._pruned: float | None = None
        self._log = log.get("reports")
        self._thread = Thread(target=self._run, name="reports", daemon=True)
        if reports.schedules:
            self._thread.start()

    def elected(self, active: bool) -> None:
        """This process is the active scheduler, or no more."""
        if active:
            self._active.set()
        else:
            self._active.clear()

    def close(self) -> None:
        """No more. What is being sent has a moment to be acknowledged."""
        self._active.clear()
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(END_S)

    def _still(self) -> bool:
        return self._active.is_set() and not self._over.is_set()

    def _run(self) -> None:
        while not self._over.is_set():
            if not self._active.wait(0.2):
                continue
            try:
                self._while_active()
            except (ReadingError, KafkaException, RegistryError) as error:
                self._log.warning("reports wait for the bus", why=str(error))
            except ClickHouseError as error:
                self._log.warning("reports wait for the store", why=cause(error))
            except Exception:  # noqa: BLE001 - a thread's edge: captures go on, and so do reports
                self._log.exception("reports begin anew")
            self._over.wait(AGAIN_S if self._still() else 0.0)
        self._land()

    def _while_active(self) -> None:
        self._book, self._looked = Book(), None
        for event in self._ports.topic.recall(self._still):
            self._book.hear(event)
        for schedule in self._reports.schedules:
            if self._still() and self._book.since(schedule.name) is None:
                self._tell(due.new(schedule, self._ports.now()))
        while self._still():
            self.turn()
            self._over.wait(TURN_EVERY_S)
        self._ports.topic.stop()

    def _land(self) -> None:
        until = time.monotonic() + END_S / 2
        for future in self._flying.values():
            with suppress(Exception):  # it has said what it has to say
                future.result(max(until - time.monotonic(), 0))
        for sender in self._senders.values():
            sender.shutdown(wait=False, cancel_futures=True)
        self._ports.topic.close()

    def turn(self) -> None:
        """Hear what was said, render what is due, and send what can be sent. Raises as `Ports` do."""
        for event in self._ports.topic.heard():
            self._book.hear(event)
        self._deliver()
        if self._looked is None or self._ports.monotonic() - self._looked >= LOOK_EVERY_S:
            self._looked = self._ports.monotonic()
            self._render_due()
            self._prune()

    def _prune(self) -> None:
        now = self._ports.monotonic()
        if self._pruned is not None and now - self._pruned < PRUNE_EVERY_S:
            return
        self._pruned = now
        try:
            if removed := self._ports.prune(self._ports.now()):
                self._log.info("removed old reports", reports=removed)
        except ArchiveError as error:
            self._log.warning("old reports stay", why=str(error))

    def _tell(self, *events: ReportEvent) -> None:
        """Known here first: whatever becomes of the broker, this process does not do it twice."""
        for event in events:
            self._book.hear(event)
            _count(event)
        self._ports.topic.tell(events)

    def _render_due(self) -> None:
        settings = self._reports
        found = due.wanted(settings.schedules, self._book, self._ports.now(), settings.settle_s, self._ports.jobs)
        for wanted in list(found):
            if self._still() and self._is_complete(wanted):
                self._render(wanted)
                self._deliver()

    def _is_complete(self, wanted: Wanted) -> bool:
        """Whether the rows of the period have landed, or are not waited for any longer; and no rendering failed just
        now."""
        now, known = self._ports.now(), self._book.known(wanted.report_id)
        if known.rendering.due(self._reports.retry_s) > now:
            return False
        until = self._ready(wanted) + self._reports.late_s
        if wanted.subject or now >= until or self._ports.landed() >= wanted.end.timestamp():
            return True
        if not known.late:
            why = f"no row after the period has landed: waited for until {_stamp(until)}, then made of what is there"
            self._tell(wanted.event(LATE, now, why=why))
        return False

    def _ready(self, wanted: Wanted) -> float:
        """When it could have been made first."""
        settled = wanted.end.timestamp() + self._reports.settle_s
        return settled if wanted.run is None else max(settled, wanted.run.timestamp())

    def _render(self, wanted: Wanted) -> None:
        tries = self._book.known(wanted.report_id).rendering
        try:
            self._ports.make(wanted, lambda: not self._still())
            kept = self._ports.kept(wanted.report_id)
        except CannotError as error:
            self._failed(wanted.event(GAVE_UP, self._ports.now(), attempt=tries.failed + 1, why=str(error)))
        except (LaterError, ArchiveError) as error:
            if self._still():
                over = self._ports.now() > self._ready(wanted) + self._reports.late_s + self._reports.give_up_s
                state = GAVE_UP if over else FAILED
                self._failed(wanted.event(state, self._ports.now(), attempt=tries.failed + 1, why=str(error)))
        else:
            if kept is not None:
                self._tell(*rendered(wanted, kept, self._ports.now(), self._reports))
                self._log.info("rendered", report=wanted.report_id)

    def _failed(self, event: ReportEvent) -> None:
        self._tell(event)
        self._log.warning(
            "given up" if event.state == GAVE_UP else "failed: tried again", report=event.report_id,
            target=event.target, attempt=event.attempt, why=event.why,
        )  # fmt: skip

    def _deliver(self) -> None:
        """To each target what it has waited for longest; one that is slow keeps no other waiting."""
        now = self._ports.now()
        for event, name in self._book.open(now - self._reports.give_up_s - LONGEST_AWAY_S):
            if name not in self._targets or (name in self._flying and not self._flying[name].done()):
                continue
            tries = self._book.tries(event.report_id, name)
            if max(tries.due(self._reports.retry_s), self._pauses.get(name, 0.0)) <= now:
                self._flying[name] = self._senders[name].submit(self._attempt, event, name)

    def _attempt(self, event: ReportEvent, name: str) -> None:
        """On the target's thread: one attempt, and what became of it, at once."""
        if not self._still() or self._book.tries(event.report_id, name).over:
            return
        number = self._book.tries(event.report_id, name).failed + 1
        try:
            said = self._sent(event, self._targets[name])
            now = self._ports.now()
            if isinstance(said, TryAgain):
                self._pauses[name] = now + said.after_s
            outcome = delivery(event, name, said, now > event.ts + self._reports.give_up_s)
            outcome.ts, outcome.attempt = round(now, 3), number
            if outcome.state == DELIVERED:
                self._tell(outcome)
                self._log.info("delivered", report=event.report_id, target=name, attempt=number)
            else:
                self._failed(outcome)
        except Exception as error:  # noqa: BLE001 - a thread's edge
            self._log.warning("not told", report=event.report_id, target=name, why=str(error))

    def _sent(self, event: ReportEvent, target: Target) -> Outcome:
        try:
            kept = self._ports.kept(event.report_id)
        except ArchiveError as error:
            return TryAgain(str(error))
        if kept is None:
            again = f"`warpmeter reports send {event.schedule} --to {target.name}` makes it anew"
            return Refused(f"the report is not where reports are kept ({event.url}): {again}")
        return self._ports.send(target, kept)


def _count(event: ReportEvent) -> None:
    if event.state in (RENDERED, DELIVERED, FAILED, GAVE_UP):
        counted = (
            ("warpmeter_report_deliveries_total", event.target)
            if event.target
            else ("warpmeter_reports_rendered_total",)
        )
        selfmetrics.counter(counted[0]).labels(*counted[1:], event.state).inc()


def _stamp(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))


def size(message: Message) -> int:
    """Bytes of all that is kept of a report."""
    return len(message.html.encode()) + sum(len(file.data) for file in (*message.files, *message.inline))


def rendered(wanted: Wanted, kept: Message, now: float, reports: Reports) -> list[ReportEvent]:
    """That a report is kept, and waits to be sent to its targets."""
    url = f"{reports.url.rstrip('/')}/{wanted.report_id}"
    made = wanted.event(RENDERED, now, bytes=size(kept), url=url, title=kept.title)
    return [made, *(wanted.event(QUEUED, now, target=name, title=kept.title) for name in wanted.schedule.targets)]


def delivery(event: ReportEvent, target: str, said: Outcome, over: bool) -> ReportEvent:
    """What is said of an attempt to send a report that was rendered; time and number are left to be set. `over`: it was
    tried for long enough."""
    made = ReportEvent(
        report_id=event.report_id, ts=event.ts, schedule=event.schedule, report=event.report, subject=event.subject,
        period_start=event.period_start, period_end=event.period_end, target=target, title=event.title,
    )  # fmt: skip
    match said:
        case Sent(note=note, url=url):
            made.state, made.why, made.url, made.bytes = DELIVERED, note, url, event.bytes
        case TryAgain(why=why):
            made.state, made.why = (GAVE_UP, f"tried for long enough; the last: {why}") if over else (FAILED, why)
        case Refused(why=why):
            made.state, made.why = GAVE_UP, why
    return made
