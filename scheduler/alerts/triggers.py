"""Alerts that ask for captures, and what came of these, attached to them.

An alert that begins to fire and that a trigger of the settings is about is captured once in its episode: its capture is
named by the alert, so whoever asks again, after a restart as well, asks for the same one. It is asked for by the topic,
as anybody does. When it has ended, what its analysis found is attached to the alert; where nothing was captured, why.

Nothing here waits: the store and the bus are asked on a thread of its own.
"""

import queue
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from warpmeter import log, selfmetrics
from warpmeter.alerts import Alert
from warpmeter.alerts.triggering import ASKER, request_of
from warpmeter.alerts.words import matches
from warpmeter.captures.wishes import Request
from warpmeter.scheduler.alerts.budget import Budget, Spent
from warpmeter.scheduler.alerts.desk import Desk, StoreDesk
from warpmeter.scheduler.alerts.ports import Attached
from warpmeter.settings import Settings, Trigger
from warpmeter.store import ClickHouseError, cause

LATE_S: Final = 600.0
"""An alert that has fired for longer is not captured any more: what it is about may be over."""
LOOK_EVERY_S: Final = 5.0
GIVEN_UP_S: Final = 4 * 3600.0
"""A capture that has no end by then is waited for no longer."""
KEPT: Final = 10_000
AGAIN_S: Final = 10.0
"""After the store or the bus did not answer."""


@dataclass(frozen=True)
class _Answer:
    """Of the thread that waits: what became of asking for a capture, or of looking at one. `failed`: to be done again.

    `words`: to be attached.
    """

    alert_id: str
    capture_id: str = ""
    words: tuple[str, ...] = ()
    failed: bool = False


@dataclass
class _Waiting:
    """A capture whose end is waited for."""

    capture_id: str
    since: float
    next: float = float("-inf")


class Triggers:
    """All triggers of the settings. Calls come from one thread; `ports.Triggers` says what each promises.

    `most`: captures of all triggers in a day; `desk` is made on the thread that waits.
    """

    def __init__(self, triggers: Sequence[Trigger], most: int, desk: Callable[[], Desk]) -> None:
        self._triggers, self._most, self._make = triggers, most, desk
        self._desk: Desk | None = None
        self._pool = ThreadPoolExecutor(1, "triggers")
        self._own: list[Spent] = []
        """What was asked for here, which the store may not know yet. The waiting thread's."""
        self._log = log.get("triggers")
        self.drop()

    def drop(self) -> None:
        """Forget: whoever is elected now goes on by what was published."""
        self._seen: set[str] = set()
        self._again: dict[str, float] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()

    def close(self) -> None:
        """No more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def recall(self, firing: Sequence[Alert]) -> None:
        """Go on with what was asked for and has no end yet."""
        self.drop()
        for alert in firing:
            if alert.capture_id or alert.findings:
                self._seen.add(alert.alert_id)
            if alert.capture_id and not alert.findings:
                self._waiting[alert.alert_id] = _Waiting(alert.capture_id, alert.fired_at or alert.started_at)

    def turn(self, now: float, changed: Sequence[Alert], firing: Sequence[Alert]) -> Sequence[Attached]:  # noqa: ARG002
        """Ask for what is due; what is new of what was asked for."""
        attached = [each for each in self._answered(now) if each.capture_id or each.findings]
        self._seen &= {alert.alert_id for alert in firing}
        for alert in firing:
            if alert.alert_id not in self._seen and now >= self._again.get(alert.alert_id, float("-inf")):
                self._seen.add(alert.alert_id)
                attached += self._consider(alert, now)
        for alert_id, waiting in list(self._waiting.items()):
            self._wait_for(alert_id, waiting, now)
        return attached

    # --- on the alerts' thread -------------------------------------------------------------------------------

    def _consider(self, alert: Alert, now: float) -> Sequence[Attached]:
        trigger = next((each for each in self._triggers if matches(each.match, alert)), None)
        if trigger is None or now - (alert.fired_at or alert.started_at) > LATE_S:
            return ()
        request = request_of(trigger, alert, now)
        if request is None:
            return [Attached(alert.alert_id, findings=("not captured: the alert names no job and no host",))]
        asking = partial(self._ask, trigger, alert.alert_id, request, now)
        self._pool.submit(self._answer, alert.alert_id, asking, self._answers)
        return ()

    def _wait_for(self, alert_id: str, waiting: _Waiting, now: float) -> None:
        if now - waiting.since > GIVEN_UP_S:
            del self._waiting[alert_id]
            self._answers.put(_Answer(alert_id, waiting.capture_id, ("nobody said how the capture ended",)))
        elif now >= waiting.next:
            waiting.next = float("inf")  # until the answer
            looking = partial(self._look, alert_id, waiting.capture_id)
            self._pool.submit(self._answer, alert_id, looking, self._answers)

    def _answered(self, now: float) -> Iterator[Attached]:
        while not self._answers.empty():
            answer = self._answers.get()
            waiting = self._waiting.get(answer.alert_id)
            if answer.failed and waiting is None:
                self._again[answer.alert_id] = now + AGAIN_S
                self._seen.discard(answer.alert_id)
                continue
            if answer.words:
                self._waiting.pop(answer.alert_id, None)
            elif waiting is not None:
                waiting.next = now + (AGAIN_S if answer.failed else LOOK_EVERY_S)
                continue
            elif answer.capture_id:
                self._waiting[answer.alert_id] = _Waiting(answer.capture_id, now)
            yield Attached(answer.alert_id, answer.capture_id, answer.words)

    # --- on the thread that waits ----------------------------------------------------------------------------

    def _answer(self, alert_id: str, asks: Callable[[Desk], _Answer], answers: "queue.SimpleQueue[_Answer]") -> None:
        try:
            if self._desk is None:
                self._desk = self._make()
            answers.put(asks(self._desk))
        except Exception as error:  # noqa: BLE001 - a thread's edge: what cannot be done now is tried again
            known = isinstance(error, ClickHouseError)
            why = cause(error) if known else f"{type(error).__name__}: {error}"
            self._log.warning("store or bus do not answer a trigger: tried again", alert=alert_id, why=why)
            answers.put(_Answer(alert_id, failed=True))

    def _ask(self, trigger: Trigger, alert_id: str, request: Request, now: float, desk: Desk) -> _Answer:
        known = {each.capture_id: each for each in (*self._own, *desk.spent(now))}
        if request.capture_id in known:
            return _Answer(alert_id, request.capture_id)
        rule, subject = request.requested_by.removeprefix(ASKER), request.job_id or request.hosts[0]
        if why := Budget(tuple(known.values()), now, self._most).refusal(trigger, rule, subject):
            selfmetrics.counter("warpmeter_alerts_captures_refused_total").inc()
            return _Answer(alert_id, words=(f"not captured: {why}",))
        desk.ask(request)
        selfmetrics.counter("warpmeter_alerts_captures_total").inc()
        self._log.info("asked for a capture", alert=alert_id, capture=request.capture_id, of=subject)
        self._own = [*self._own, Spent(request.capture_id, rule, subject, now)][-KEPT:]
        return _Answer(alert_id, request.capture_id)

    @staticmethod
    def _look(alert_id: str, capture_id: str, desk: Desk) -> _Answer:
        return _Answer(alert_id, capture_id, desk.outcome(capture_id))


def triggers(settings: Settings) -> Triggers:
    """Those of the settings, on the real store and bus."""
    return Triggers(settings.alerts.triggers, settings.alerts.captures_per_day, partial(StoreDesk, settings))
