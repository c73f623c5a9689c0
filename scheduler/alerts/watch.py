"""The evaluation of all rules: what is asked when, what becomes of it, and who hears of it. One thread's."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

from clickhouse_connect.driver.exceptions import DataError, InternalError, NotSupportedError, ProgrammingError
from confluent_kafka import KafkaException

from warpmeter import log, selfmetrics
from warpmeter.alerts import Alert, Rule, RuleError, Words, fingerprint
from warpmeter.captures.reading import ReadingError
from warpmeter.registry import RegistryError
from warpmeter.scheduler.alerts.asking import Ask
from warpmeter.scheduler.alerts.machine import Machine, Subject
from warpmeter.scheduler.alerts.ports import NoReceivers, NoTriggers, Receivers, Triggers
from warpmeter.scheduler.alerts.recalling import Memory
from warpmeter.settings import Alerts
from warpmeter.store import ClickHouseError, cause, code

SHARE: Final = 0.8
"""Of the time between two evaluations, which one may take: the rules that are left come first in the next."""
NOBODYS: Final = frozenset({None, 81, 192, 193, 202, 209, 210, 279, 516})
"""Codes of the store's errors that are of no single rule: no ClickHouse, no such database or user, a wrong password,
too many queries, and what a cluster says of a node that is away.
https://github.com/ClickHouse/ClickHouse/blob/master/src/Common/ErrorCodes.cpp
"""
OWN: Final = (NotSupportedError, ProgrammingError, DataError, InternalError)
"""Errors of the client's own, as of a type that it cannot read: of that rule, though they have no code."""
STORE_AWAY: Final = "store-away"
BROKEN: Final = "rule-broken"
HOW: Final = "is evaluated in part", "cannot be evaluated"
BUS: Final = (KafkaException, RegistryError, ReadingError, BufferError)


@dataclass
class Ports:
    """What a watch works on."""

    ask: Ask
    memory: Memory
    receivers: Receivers = field(default_factory=NoReceivers)
    triggers: Triggers = field(default_factory=NoTriggers)
    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic


@dataclass
class _Asked:
    """Of one rule, when it was asked last, what went wrong with it, and what of its answer was left out or cut: ''
    where nothing was.
    """

    at: float = float("-inf")
    why: str = ""
    partly: str = ""


def turn(rule: Rule, limits: Alerts) -> int:
    """Of a rule that is not asked at each evaluation, by how many the second is sooner than its `every_s` says."""
    turns = int(rule.every_s // limits.evaluate_s)
    return crc32(rule.name.encode()) % turns if turns > 1 else 0


class Watch:
    """Alerts from one election to the next: `begin`, then `turn` again and again.

    `turn` heeds words and triggers, and evaluates the rules when that is due. Raises what the bus raises (BUS): then
    begin anew.
    """

    def __init__(self, rules: Sequence[Rule], limits: Alerts, ports: Ports) -> None:
        self._rules = {rule.name: rule for rule in rules}
        self._limits, self._ports = limits, ports
        self._machine, self._words = Machine(limits), Words()
        self._asked = {rule.name: _Asked() for rule in rules}
        self._next = float("-inf")
        self._recalled = self._introduced = False
        self._away = ""
        self._untold: tuple[list[Alert], list[Alert]] = [], []
        self._log = log.get("alerts")

    def __len__(self) -> int:
        return len(self._machine)

    @property
    def machine(self) -> Machine:
        """What is known of alerts."""
        return self._machine

    def begin(self, still: Callable[[], bool]) -> None:
        """Know what was published and said; ends early when `still` is no more."""
        now = self._ports.now()
        self._machine.recall(self._ports.memory.published(now, still))
        for word in self._ports.memory.said(now, still):
            self._words.hear(word)

    def turn(self, still: Callable[[], bool] = lambda: True) -> None:
        """What is due now. What is found while this process is the active one no more (`still`) is nobody's."""
        now = self._ports.now()
        for word in self._ports.memory.heard():
            self._words.hear(word)
        if self._ports.monotonic() >= self._next:
            self._next = self._after(self._ports.monotonic())
            self._evaluate(now)
        self._machine.heed(self._words, now)
        if still():
            self._tell(now)

    def _after(self, monotonic: float) -> float:
        """The next evaluation: late ones are left out, never caught up."""
        every_s = self._limits.evaluate_s
        planned = self._next + every_s
        if planned > monotonic:
            return planned
        if self._next > float("-inf"):
            selfmetrics.counter("warpmeter_alerts_late_evaluations_total").inc()
        return monotonic + every_s

    # Evaluation.

    def _evaluate(self, now: float) -> None:
        began = self._ports.monotonic()
        self._away = ""
        if self._recall_stored(now):
            self._machine.retire(self._rules.keys(), now)
            self._ask_all(now, began)
        self._say_of_itself(now)
        selfmetrics.gauge("warpmeter_alerts_evaluation_seconds").set(self._ports.monotonic() - began)
        selfmetrics.gauge("warpmeter_alerts_evaluated_timestamp_seconds").set(now)

    def _recall_stored(self, now: float) -> bool:
        """What the store remembers, once after an election: before that nothing can be said to be new."""
        if self._recalled:
            return True
        try:
            stored = self._ports.memory.stored(now, self._limits.flap_s)
        except ClickHouseError as error:
            self._away = cause(error)
            return False
        for word in stored.words:
            self._words.hear(word)
        self._machine.recall(stored.alerts)
        self._machine.forget()
        self._recalled = True
        self._introduce()
        self._log.info("watching", rules=len(self._rules), open=len(self._machine))
        return True

    def _introduce(self) -> None:
        """Receivers and triggers hear of what went on at the election, once, before they hear of anything new."""
        if not self._introduced:
            self._introduced = True
            firing = self._machine.firing(quiet=True)
            self._ports.receivers.recall(firing)
            self._ports.triggers.recall(firing)

    def _ask_all(self, now: float, began: float) -> None:
        """Gates first; while one has a subject, what the others would read is old, and they are not asked."""
        asked = [rule for rule in self._rules.values() if rule.sql]
        closed = False
        for rule in (each for each in asked if each.gate):
            found = self._ask(rule, now)
            closed = closed or bool(found)
            if self._away:
                return
        due = [each for each in asked if not each.gate and now - self._asked[each.name].at >= each.every_s - 1]
        for rule in sorted(due, key=lambda each: self._asked[each.name].at):
            if closed and not rule.always:
                continue
            if self._ports.monotonic() - began > SHARE * self._limits.evaluate_s:
                self._log.warning("no time for all rules: the rest comes first in the next evaluation", rule=rule.name)
                selfmetrics.counter("warpmeter_alerts_skipped_total").inc()
                return
            self._ask(rule, now)
            if self._away:
                return

    def _ask(self, rule: Rule, now: float) -> Sequence[Subject]:
        """Ask one; what goes wrong with it is its own, unless the store is away."""
        began, asked = self._ports.monotonic(), self._asked[rule.name]
        try:
            answer = self._ports.ask(rule, now)
        except ClickHouseError as error:
            if code(error) in NOBODYS and not isinstance(error, OWN):
                self._away = cause(error)
                return ()
            return self._broken(rule, asked, now, cause(error))
        except RuleError as error:
            return self._broken(rule, asked, now, str(error))
        except Exception as error:  # noqa: BLE001 - a rule's edge: whatever its text makes of the client, others go on
            return self._broken(rule, asked, now, repr(error))
        if asked.why:
            self._log.info("evaluated again", rule=rule.name)
        taken = answer.within(rule.name, self._machine.marks(rule.name))
        if taken.why and not asked.partly:
            self._log.warning("a rule is evaluated in part", rule=rule.name, why=taken.why)
        asked.at, asked.why, asked.partly = self._due_from(rule, asked, now), "", taken.why
        self._machine.evaluated(rule, taken.subjects, now, taken.unknown)
        selfmetrics.histogram("warpmeter_alerts_rule_seconds").labels(rule.name).observe(
            self._ports.monotonic() - began
        )
        return taken.subjects

    def _due_from(self, rule: Rule, asked: _Asked, now: float) -> float:
        """When it counts as asked. After the first time, rules that are not asked each time take turns, so that no
        evaluation has all of them.
        """
        first = asked.at == float("-inf")
        return now - turn(rule, self._limits) * self._limits.evaluate_s if first else now

    def _broken(self, rule: Rule, asked: _Asked, now: float, why: str) -> Sequence[Subject]:
        if why != asked.why:
            self._log.warning("a rule cannot be evaluated: its alerts stand as they are", rule=rule.name, why=why)
        asked.at, asked.why, asked.partly = now, why, ""
        selfmetrics.counter("warpmeter_alerts_rule_errors_total").labels(rule.name).inc()
        return ()

    def _say_of_itself(self, now: float) -> None:
        """The two rules that are no SQL."""
        if self._away:
            self._log.warning("the store is away: no rule is evaluated, what fires goes on", why=self._away)
            selfmetrics.counter("warpmeter_alerts_store_away_total").inc()
        if (away := self._rules.get(STORE_AWAY)) is not None:
            self._machine.evaluated(away, [Subject({}, details={"why": self._away})] if self._away else [], now)
        if (broken := self._rules.get(BROKEN)) is not None and not self._away:
            found = [
                Subject({"broken": name}, details={"how": HOW[bool(asked.why)], "why": asked.why or asked.partly})
                for name, asked in self._asked.items()
                if asked.why or asked.partly
            ]
            unasked = {
                fingerprint(BROKEN, {"broken": name})
                for name, asked in self._asked.items()
                if asked.at == float("-inf")
            }
            self._machine.evaluated(broken, found, now, unasked)

    # Telling.

    def _tell(self, now: float) -> None:
        news = self._machine.news(now)
        self._untold[0].extend(news.told)
        self._untold[1].extend(news.edges)
        if not self._ports.memory.publish(news.rows):
            self._log.warning("the bus has not taken all: nobody is told yet", waiting=len(self._untold[1]))
            return
        (told, edges), self._untold = self._untold, ([], [])
        for alert in edges:
            self._log.info(alert.state, alert=alert.alert_id, summary=alert.summary, silenced_by=alert.silenced_by)
            selfmetrics.counter("warpmeter_alerts_changes_total").labels(alert.rule, alert.state).inc()
        for severity, count in self._counts().items():
            selfmetrics.gauge("warpmeter_alerts_firing").labels(severity).set(count)
        self._hand_over(now, told, edges)

    def _hand_over(self, now: float, told: Sequence[Alert], edges: Sequence[Alert]) -> None:
        """To receivers and triggers; while the store is away since the election only where there is news."""
        if not self._introduced and not told:
            return
        self._introduce()
        self._ports.receivers.turn(now, told, self._machine.firing())
        attached = self._ports.triggers.turn(now, edges, self._machine.firing(quiet=True))
        for each in attached:
            self._machine.attach(each)
        if attached:
            self._ports.memory.publish(self._machine.news(now).rows)

    def _counts(self) -> dict[str, int]:
        counts = {"info": 0, "warning": 0, "critical": 0}
        for alert in self._machine.firing(quiet=True):
            counts[alert.severity] += 1
        return counts
