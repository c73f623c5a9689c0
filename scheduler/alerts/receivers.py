"""Who is told of alerts: a thread a receiver, so that one that hangs holds up nobody else, the evaluation least of all.

What is to be told follows from what fires and what the receiver was told before (`told.py`), so nothing is queued that
grows: a receiver that was away for an hour is told how things are, and once of what it missed. Delivery is at least
once. What is told again after a failure or a restart has the same key.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from warpmeter import log, selfmetrics
from warpmeter.alerts import Alert
from warpmeter.alerts.words import matches
from warpmeter.scheduler.alerts.notices import Notice, ordered, page
from warpmeter.scheduler.alerts.outgoing import at_once, deliver, repeat_s
from warpmeter.scheduler.alerts.told import Memory, Standing, Told
from warpmeter.sending import Outcome, Refused, Sent, TryAgain
from warpmeter.settings import Receiver, Settings

MOST: Final = 20_000
"""Alerts that a receiver knows or is to know, at most: of more that fire at once the gravest are told."""
FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 300.0
"""Between two tries; a refusal, which somebody must mend, waits so long at once."""
REFUSALS: Final = 3
"""So many alerts in a row, each by itself, and it is not the alerts that are refused."""
LATE_S: Final = 86_400.0
"""What has ended before it could be told of is told of within so long."""
STORE_AWAY: Final = "store-away"
MOST_SAID: Final = 2000
JOIN_S: Final = 2.0
Deliver = Callable[[Receiver, Sequence[Notice], float], Outcome]


@dataclass
class News:
    """What the evaluation has said: what fires, and what began and ended since a receiver's thread last looked.

    `recalled`: what fired at the begin; None where that is not known, for the store was away.
    """

    recalled: frozenset[str] | None = frozenset()
    firing: Mapping[str, Alert] = field(default_factory=dict)
    begun: dict[str, Alert] = field(default_factory=dict)
    ended: dict[str, Alert] = field(default_factory=dict)


def waits_s(failures: int, asked_s: float, chance: float) -> float:
    """Seconds until the next try after so many failures: doubled each time, from half to all of that by `chance` (0 to
    1), so that receivers that failed together are not tried together; what the receiver asked for at least."""
    longest = min(FIRST_WAIT_S * 2.0 ** min(failures - 1, 20), LONGEST_WAIT_S)
    return max(longest * (0.5 + chance / 2), asked_s)


@dataclass(frozen=True)
class Taken:
    """What came of the news: alerts that are `owed` now; those that were, and are `quiet` before they were told; and
    how many there is no room for."""

    owed: list[Told]
    quiet: list[str]
    dropped: int


@dataclass
class Account:
    """What one receiver knows, and what it is to be told. Pure: no clock, no I/O."""

    receiver: Receiver
    address: str
    known: dict[str, Told]
    news: News = field(default_factory=News)

    def wants(self, alert: Alert) -> bool:
        """Whether any of its routes leads there."""
        return not self.receiver.routes or any(matches(route, alert) for route in self.receiver.routes)

    def take(self, news: News, now: float) -> Taken:
        """Hear of how things are."""
        self.news = news
        firing = {**news.begun, **news.firing}
        owing = [name for name, each in self.known.items() if not each.number]
        quiet = [name for name in owing if name not in firing and name not in news.ended]
        for name in quiet:
            del self.known[name]
        for name, alert in news.firing.items():
            if (told := self.known.get(name)) is not None:
                if alert.findings and alert.findings != told.alert.findings:
                    told.at = float("-inf")  # what a capture found is told at once, as one more time
                told.alert = alert
        new = [alert for name, alert in firing.items() if name not in self.known and self.wants(alert)]
        room = max(MOST - len(self.known), 0)
        grave = [each.alert for each in ordered(Notice(alert, "firing") for alert in new)][:room]
        owed = [Told(alert, 0, now) for alert in grave]
        self.known |= {each.alert.alert_id: each for each in owed}
        return Taken(owed, quiet, len(new) - len(grave))

    def due(self, now: float) -> list[Notice]:
        """What is to be told now, the gravest first."""
        return ordered(self._due(now))

    def _due(self, now: float) -> Iterator[Notice]:
        again_s = repeat_s(self.receiver)
        firing = self.news.firing
        for name, told in self.known.items():
            url = page(self.address, name)
            if name in self.news.ended:
                if self._tells_of_end(told, now):
                    yield Notice(self.news.ended[name], "resolved", told.number, url)
            elif not told.number:
                yield Notice(told.alert, "firing", 1, url)
            elif now - told.at >= again_s and (name in firing or self.receiver.kind == "alertmanager"):
                yield Notice(told.alert, "firing", told.number + 1, url)  # also of what is quiet: it has not ended

    def _tells_of_end(self, told: Told, now: float) -> bool:
        return self.receiver.send_resolved if told.number else now - told.at <= LATE_S

    def ended_untold(self, now: float) -> list[str]:
        """What has ended and of whose end it is not told."""
        known = self.known
        return [name for name in self.news.ended if name in known and not self._tells_of_end(known[name], now)]

    def delivered(self, notices: Sequence[Notice], now: float) -> tuple[list[Told], list[str]]:
        """It knows these now; what is to be kept of it, and to be forgotten."""
        kept, gone = [], []
        for notice in notices:
            name = notice.alert.alert_id
            if notice.state == "resolved":
                self.known.pop(name, None)
                gone.append(name)
                continue
            self.known[name] = Told(notice.alert, notice.number, now)
            if notice.number == 1 or self.receiver.kind != "alertmanager":
                kept.append(self.known[name])
        return kept, gone


class Way:
    """The thread of one receiver."""

    def __init__(self, receiver: Receiver, memory: Memory, address: str, send: Deliver = deliver) -> None:
        self._receiver, self._name, self._memory, self._send = receiver, receiver.name, memory, send
        self._address = address
        self._lock = threading.Condition()
        self._news, self._fresh, self._ended = News(), False, False
        self._failures, self._refusals, self._alone = 0, 0, False
        self._held: dict[str, float] = {}
        self._not_before = self._since = 0.0
        self._log = log.get("scheduler")
        self._thread = threading.Thread(target=self._run, name=f"alerts to {receiver.name}", daemon=True)
        self._thread.start()

    # From the evaluation's thread.

    def recall(self, firing: Sequence[Alert]) -> None:
        """What fires at the begin."""
        with self._lock:
            known = all(alert.rule != STORE_AWAY for alert in firing)
            self._news.recalled = frozenset(alert.alert_id for alert in firing) if known else None

    def turn(self, changed: Sequence[Alert], firing: Mapping[str, Alert]) -> None:
        """How things are now."""
        with self._lock:
            self._news.firing = firing
            self._news.begun |= {
                alert.alert_id: alert for alert in changed if alert.state == "firing" and not alert.quiet
            }
            self._news.ended |= {alert.alert_id: alert for alert in changed if not alert.open}
            self._fresh = True
            self._lock.notify()

    def end(self) -> None:
        """Stop, once what is being sent is sent or given up."""
        with self._lock:
            self._ended = True
            self._lock.notify()

    def join(self, within_s: float) -> None:
        """Wait for that."""
        self._thread.join(within_s)

    # Its own thread.

    def _run(self) -> None:
        account = self._begun()
        again_s = 0.0
        while account is not None and (news := self._heard(again_s)) is not None:
            try:
                again_s = self._turn(account, news)
            except Exception as error:  # noqa: BLE001 - a thread's edge: it must not go silent for ever
                self._not_before = time.monotonic() + LONGEST_WAIT_S
                self._failed("cannot be told, for a reason that nobody thought of", repr(error), 1, LONGEST_WAIT_S)

    def _begun(self) -> Account | None:
        """What it knows, once the memory answers and the evaluation has spoken; None at the end."""
        while self._heard(0.0) is not None:
            try:
                known = self._memory.of(self._name)
            except (SQLAlchemyError, OSError) as error:
                self._log.warning(
                    "what a receiver was told cannot be read: nobody is told until it can",
                    receiver=self._name, why=_line(error),
                )  # fmt: skip
                if not self._rest(FIRST_WAIT_S * 10):
                    return None
                self._fresh = True
                continue
            with self._lock:
                recalled = known.keys() if self._news.recalled is None else self._news.recalled
                missed = [each for name, each in known.items() if name not in recalled]
                self._news.ended = {each.alert.alert_id: _ended(each.alert) for each in missed} | self._news.ended
                self._fresh = True
            return Account(self._receiver, self._address, known)
        return None

    def _heard(self, again_s: float) -> News | None:
        """The news, when there are any, or `again_s` (0: no time) has passed; None at the end."""
        with self._lock:
            self._lock.wait_for(lambda: self._fresh or self._ended, again_s or None)
            self._fresh = False
            return (
                None if self._ended else replace(self._news, begun=dict(self._news.begun), ended=dict(self._news.ended))
            )

    def _rest(self, seconds: float) -> bool:
        """Wait; whether it goes on."""
        with self._lock:
            self._lock.wait_for(lambda: self._ended, seconds)
            return not self._ended

    def _turn(self, account: Account, news: News) -> float:
        """Tell what is to be told; after how many seconds to try again, 0: with the next news."""
        now = time.time()
        taken = account.take(news, now)
        self._keep(taken.owed, taken.quiet)
        self._forget(self._news.begun, list(news.begun))
        if taken.dropped:
            self._count("dropped", taken.dropped)
            self._log.error("too many alerts: the mildest are not told", receiver=self._name, dropped=taken.dropped)
        while not self._ended:
            self._leave_out(account, news, now)
            due = [each for each in account.due(now) if self._held.get(each.key, 0.0) <= now]
            selfmetrics.gauge("warpmeter_alert_notices_owed").labels(self._name).set(len(due))
            if not due:
                self._alone = False
                self._held = {key: until for key, until in self._held.items() if until > now}
                return 0.0
            if (rest_s := self._not_before - time.monotonic()) > 0:
                return rest_s
            batch = due[: 1 if self._alone else at_once(self._receiver)]
            self._not_before = time.monotonic() + self._told(account, batch, self._send(self._receiver, batch, now))
            now = time.time()
        return 0.0

    def _leave_out(self, account: Account, news: News, now: float) -> None:
        """Be done with ends that are not told of."""
        untold = account.ended_untold(now)
        for name in untold:
            del account.known[name]
        self._keep([], untold)
        self._forget(self._news.ended, [name for name in news.ended if name not in account.known])

    def _told(self, account: Account, batch: Sequence[Notice], outcome: Outcome) -> float:
        """What came of a message; seconds to wait before the next, 0: none."""
        match outcome:
            case Sent():
                self._sent(account, batch, outcome)
                return 0.0
            case TryAgain():
                self._failures += 1
                wait_s = waits_s(self._failures, outcome.after_s, random.random())
                self._failed("cannot be told now: tried again", outcome.why, len(batch), wait_s)
                return wait_s
            case Refused() if len(batch) > 1:  # one of them may be what it does not take
                self._alone, self._refusals = True, 0
                return 0.0
            case Refused():
                return self._refused(batch[0], outcome.why)

    def _sent(self, account: Account, batch: Sequence[Notice], outcome: Sent) -> None:
        if self._failures:
            self._log.info("a receiver takes alerts again", receiver=self._name, failures=self._failures)
        self._failures = self._refusals = 0
        new = [each for each in batch if each.number == 1 or each.state == "resolved"]
        if new or self._since:
            self._stands("")
        self._count("sent", len(batch))
        kept, gone = account.delivered(batch, time.time())
        self._keep(kept, gone)
        self._forget(self._news.ended, gone)
        if new:
            self._log.info("told of alerts", receiver=self._name, alerts=len(new), first=new[0].key, note=outcome.note)

    def _refused(self, notice: Notice, why: str) -> float:
        """One that takes not this alert is told of the others; one that takes none is left alone for a while."""
        self._refusals += 1
        self._held[notice.key] = time.time() + LONGEST_WAIT_S
        if self._refusals < REFUSALS:
            self._failed("refuses an alert", why, 1, LONGEST_WAIT_S, notice.key)
            return 0.0
        self._failures += 1
        self._held.clear()
        self._alone, self._refusals = False, 0
        self._failed("refuses alerts: somebody must act", why, 1, LONGEST_WAIT_S)
        return LONGEST_WAIT_S

    def _failed(self, what: str, why: str, count: int, wait_s: float, key: str = "") -> None:
        self._count("refused" if "refuses" in what else "failed", count)
        self._stands(why)
        self._log.warning(
            what, receiver=self._name, why=why, alerts=count, again_s=round(wait_s, 1), **({"key": key} if key else {})
        )

    def _stands(self, why: str) -> None:
        """Since when it fails, and why; '' when it does not."""
        now = time.time()
        self._since = (self._since or now) if why else 0.0
        selfmetrics.gauge("warpmeter_alert_receiver_failing_since_timestamp_seconds").labels(self._name).set(
            self._since
        )
        with suppress(SQLAlchemyError, OSError):  # it is in the log as well
            self._memory.stands(self._name, Standing(now, self._since, why[:MOST_SAID]))

    def _count(self, outcome: str, alerts: int) -> None:
        selfmetrics.counter("warpmeter_alert_notices_total").labels(self._name, outcome).inc(alerts)

    def _keep(self, told: Sequence[Told], gone: Sequence[str]) -> None:
        """A memory that is away costs a repetition after a restart, no more."""
        if not told and not gone:
            return
        try:
            self._memory.put(self._name, told, gone)
        except (SQLAlchemyError, OSError) as error:
            self._log.warning("what a receiver was told cannot be kept", receiver=self._name, why=_line(error))

    def _forget(self, said: dict[str, Alert], names: Sequence[str]) -> None:
        """News that are dealt with."""
        with self._lock:
            for name in names:
                said.pop(name, None)


def _ended(alert: Alert) -> Alert:
    """It ended while nobody was there to see when."""
    at = time.time()
    return replace(alert, state="resolved", ts=at, resolved_at=at)


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


class Outlets:
    """All receivers: the port `Receivers` of the evaluation."""

    def __init__(self, receivers: Sequence[Receiver], memory: Memory, address: str, send: Deliver = deliver) -> None:
        self._receivers, self._memory, self._address, self._send = receivers, memory, address, send
        self._ways: list[Way] = []

    def recall(self, firing: Sequence[Alert]) -> None:
        """Begin, with what fires."""
        self.drop()
        self._ways = [Way(each, self._memory, self._address, self._send) for each in self._receivers]
        for way in self._ways:
            way.recall(firing)

    def turn(self, now: float, changed: Sequence[Alert], firing: Sequence[Alert]) -> None:  # noqa: ARG002
        """How things are; returns at once."""
        by_id = {alert.alert_id: alert for alert in firing}
        for way in self._ways:
            way.turn(changed, by_id)

    def drop(self) -> None:
        """No more, for now; what is being sent may still arrive."""
        for way in self._ways:
            way.end()
        until = time.monotonic() + JOIN_S
        for way in self._ways:
            way.join(max(until - time.monotonic(), 0.0))
        self._ways = []

    def close(self) -> None:
        """No more."""
        self.drop()
        with suppress(SQLAlchemyError):
            self._memory.close()


def outlets(settings: Settings) -> Outlets:
    """The receivers of the settings."""
    return Outlets(settings.alerts.receivers, Memory(settings.scheduler), settings.page)
