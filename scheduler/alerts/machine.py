"""What becomes of alerts: pure. Subjects of rules, words and the time in; alerts that have changed out.

An episode of a subject begins `pending` and fires when its condition has held for the rule's `for_s`; what is gone
before is `dropped`. What fires is `resolved` when the condition has been gone for `keep_s`. A subject that fired
`flaps` times within `flap_s` is flapping: its alert goes on until the condition has been gone for `flap_keep_s`. What a
rule does not say, because it could not be evaluated, changes nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from warpmeter.alerts import Alert, Rule, Words, fingerprint
from warpmeter.alerts.rule import NAMED
from warpmeter.quantity import quantity
from warpmeter.scheduler.alerts.ports import Attached
from warpmeter.settings import Alerts

TICK_S: Final = 0.001
"""Rows of one alert are told apart by their times."""
LONGEST_TEXT: Final = 1000


@dataclass(frozen=True)
class Subject:
    """What a rule says of one subject: the labels that tell it apart, the value, and details that a summary may name.

    `starts` False: the condition keeps an alert that is there, and begins none. `still`: what must not change while the
    condition holds, '' for nothing: a host of which old rows still arrive is late, not silent.
    """

    labels: Mapping[str, str]
    value: float | None = None
    details: Mapping[str, str] = field(default_factory=dict)
    starts: bool = True
    still: str = ""


@dataclass
class _Episode:
    """One that goes on: the alert as it stands, since when its condition is gone, and what `still` was, if known."""

    alert: Alert
    gone_since: float | None = None
    still: str | None = None


@dataclass(frozen=True)
class News:
    """What has changed: `rows` are to be published; `told` of them receivers hear of (`ports.Receivers`), and `fired`
    are those that began to fire or are resolved, silenced or not.
    """

    rows: Sequence[Alert]
    told: Sequence[Alert]
    edges: Sequence[Alert]


class Machine:
    """All open alerts. Times are seconds since the epoch, and go forward."""

    def __init__(self, limits: Alerts) -> None:
        self._limits = limits
        self._open: dict[str, dict[str, _Episode]] = {}
        self._fired: dict[str, dict[str, float]] = {}
        """By fingerprint, when its alerts fired."""
        self._known: dict[str, Alert] = {}
        """What was read at the election, until `forget`."""
        self._rows: dict[str, Alert] = {}
        self._edges: set[str] = set()

    def __len__(self) -> int:
        return sum(len(each) for each in self._open.values())

    def open(self) -> Iterator[Alert]:
        """All that goes on."""
        return (episode.alert for episodes in self._open.values() for episode in episodes.values())

    def firing(self, quiet: bool = False) -> list[Alert]:
        """What fires; `quiet`: also what is silenced or taken care of."""
        return [alert for alert in self.open() if alert.state == "firing" and (quiet or not alert.quiet)]

    def marks(self, rule: str) -> AbstractSet[str]:
        """The fingerprints of a rule's alerts that go on."""
        return self._open.get(rule, {}).keys()

    # What was known before.

    def recall(self, alerts: Iterable[Alert]) -> None:
        """Go on from what was published: rows in any order, of the bus and of the store, some of them twice. What no
        alert can be is passed over.
        """
        news: dict[str, Alert] = {}
        for alert in (each for each in alerts if each.meant):
            before = self._known.get(alert.alert_id)
            if before is None or (alert.ts, not alert.open) > (before.ts, not before.open):
                self._known[alert.alert_id] = news[alert.alert_id] = alert
            if alert.fired_at is not None:
                self._fired.setdefault(alert.fingerprint, {})[alert.alert_id] = alert.fired_at
        for alert in sorted(news.values(), key=lambda each: each.started_at):
            self._take_up(alert)

    def _take_up(self, alert: Alert) -> None:
        episodes = self._open.setdefault(alert.rule, {})
        current = episodes.get(alert.fingerprint)
        if alert.open and (current is None or current.alert.alert_id == alert.alert_id):
            if current is None or current.alert.ts < alert.ts:
                episodes[alert.fingerprint] = _Episode(alert)
        elif alert.open:  # an episode beside it goes on: of two schedulers that both took themselves for elected
            self._end(_Episode(alert), alert.ts)
        elif current is not None and current.alert.alert_id == alert.alert_id and current.alert.ts <= alert.ts:
            del episodes[alert.fingerprint]

    def forget(self) -> None:
        """All that could be recalled has been."""
        self._known.clear()

    # What is found now.

    def evaluated(
        self, rule: Rule, subjects: Sequence[Subject], now: float, unknown: AbstractSet[str] = frozenset()
    ) -> None:
        """A rule was evaluated: these subjects, and no others, are in its condition.

        `unknown`: fingerprints of subjects of which it could not be said; they stay as they are.
        """
        found = {fingerprint(rule.name, subject.labels): subject for subject in subjects}
        episodes = self._open.setdefault(rule.name, {})
        for mark, subject in found.items():
            self._holds(rule, mark, subject, now)
        for mark in [each for each in episodes if each not in found and each not in unknown]:
            self._gone(rule, mark, now)

    def _holds(self, rule: Rule, mark: str, subject: Subject, now: float) -> None:
        episodes = self._open[rule.name]
        episode = episodes.get(mark)
        if episode is None:
            if not subject.starts:
                return
            episode = episodes[mark] = _Episode(_begun(rule, mark, subject, now))
            self._publish(episode)
        elif not subject.starts and episode.alert.state == "pending":
            return self._gone(rule, mark, now)
        elif subject.still != (episode.still or ""):
            if episode.alert.state == "firing" and episode.still is not None:
                episode.still = subject.still
                return self._gone(rule, mark, now)
            if episode.alert.state == "pending":
                episode.alert = replace(episode.alert, started_at=now)
        episode.gone_since, episode.still = None, subject.still
        episode.alert = _told(episode.alert, rule, subject)
        if episode.alert.state == "pending" and now - episode.alert.started_at >= rule.for_s:
            self._fire(episode, now)

    def _fire(self, episode: _Episode, now: float) -> None:
        mark, since = episode.alert.fingerprint, now - self._limits.flap_s
        fired = {each: at for each, at in self._fired.get(mark, {}).items() if at > since}
        fired[episode.alert.alert_id] = now
        self._fired[mark] = fired
        episode.alert = replace(
            episode.alert, state="firing", fired_at=now, flapping=len(fired) >= self._limits.flaps
        )  # fmt: skip
        self._publish(episode, edge=True)

    def _gone(self, rule: Rule, mark: str, now: float) -> None:
        episode = self._open[rule.name][mark]
        if episode.alert.state == "firing":
            if episode.gone_since is None:
                episode.gone_since = now
            keep_s = max(rule.keep_s, self._limits.flap_keep_s) if episode.alert.flapping else rule.keep_s
            if now - episode.gone_since < keep_s:
                return
        del self._open[rule.name][mark]
        self._end(episode, now)

    def _end(self, episode: _Episode, now: float) -> None:
        if episode.alert.state == "firing":
            episode.alert = replace(episode.alert, state="resolved", resolved_at=now)
            self._publish(episode, edge=True)
        else:
            episode.alert = replace(episode.alert, state="dropped")
            self._publish(episode)

    def retire(self, rules: AbstractSet[str], now: float) -> None:
        """Alerts of rules that are none of these end."""
        for name in self._open.keys() - rules:
            for episode in self._open.pop(name).values():
                self._end(episode, now)

    # What is said, and what is attached.

    def heed(self, words: Words, now: float) -> None:
        """Silences that hold now, and who takes care of what."""
        for episode in self._episodes():
            alert = episode.alert
            heard = replace(alert, silenced_by=words.silencing(alert, now), acknowledged_by=words.carer(alert.alert_id))
            if (heard.silenced_by, heard.acknowledged_by) != (alert.silenced_by, alert.acknowledged_by):
                episode.alert = heard
                self._publish(episode, edge=alert.quiet and not heard.quiet and alert.state == "firing")

    def attach(self, attached: Attached) -> None:
        """A capture, and what it found, belong to an alert from now on; of one that has ended nothing is told."""
        for episode in self._episodes():
            if episode.alert.alert_id == attached.alert_id:
                capture_id = attached.capture_id or episode.alert.capture_id
                findings = attached.findings or episode.alert.findings
                episode.alert = replace(episode.alert, capture_id=capture_id, findings=findings)
                self._publish(episode)

    def _episodes(self) -> Iterator[_Episode]:
        return (episode for episodes in self._open.values() for episode in episodes.values())

    # What is to be told.

    def _publish(self, episode: _Episode, edge: bool = False) -> None:
        self._rows[episode.alert.alert_id] = episode.alert
        if edge:
            self._edges.add(episode.alert.alert_id)

    def news(self, now: float) -> News:
        """What has changed since the last call, each alert once, and what goes on and is to be published again."""
        for episode in self._episodes():
            if episode.alert.alert_id in self._rows or now - episode.alert.ts >= self._limits.repeat_s:
                episode.alert = replace(episode.alert, ts=max(now, episode.alert.ts + TICK_S))
                self._rows[episode.alert.alert_id] = episode.alert
        rows = [
            alert if alert.open else replace(alert, ts=max(now, alert.ts + TICK_S)) for alert in self._rows.values()
        ]
        edges = [alert for alert in rows if alert.alert_id in self._edges]
        self._rows, self._edges = {}, set()
        self._fired = {mark: fired for mark, fired in self._fired.items() if self._recent(fired, now)}
        return News(rows, [alert for alert in edges if not (alert.quiet and alert.open)], edges)

    def _recent(self, fired: Mapping[str, float], now: float) -> bool:
        return any(at > now - self._limits.flap_s for at in fired.values())


def _begun(rule: Rule, mark: str, subject: Subject, now: float) -> Alert:
    begin = datetime.fromtimestamp(now, UTC)
    return Alert(
        alert_id=f"{rule.name}-{mark}-{begin:%Y%m%dT%H%M%S}", rule=rule.name, severity=rule.severity, state="pending",
        fingerprint=mark, labels={**rule.labels, **subject.labels}, summary="", ts=0.0, started_at=now,
    )  # fmt: skip


def _told(alert: Alert, rule: Rule, subject: Subject) -> Alert:
    """With what the rule says now. Its labels stay as they were when the episode began."""
    named = {**rule.labels, **rule.values(), **subject.details, **subject.labels}
    named["value"] = "" if subject.value is None else quantity(subject.value, rule.unit)
    return replace(
        alert, severity=rule.severity, summary=filled(rule.summary, named), value=subject.value, unit=rule.unit,
        description=filled(rule.description, named),
    )  # fmt: skip


def filled(text: str, named: Mapping[str, str]) -> str:
    """A text with what it names in braces; what is not known stays as it is."""
    found = NAMED.sub(lambda match: named.get(match[1], match[0]), text)
    return found if len(found) <= LONGEST_TEXT else f"{found[: LONGEST_TEXT - 1]}…"
