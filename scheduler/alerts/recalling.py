"""What was published before, and what people say: of the bus, which is exact, and of the store, which remembers longer.

Every row that is told of is acknowledged by the bus first, so the topic has the last word on each alert that it still
has. The embedded broker forgets with its process, and no broker keeps words for as long as a silence may last: the
store has the rest. Of both together the latest row of each alert holds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Protocol, cast

from warpmeter.alerts import Alert, AlertRow, Word
from warpmeter.captures.asking import Sender
from warpmeter.captures.reading import Events
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Kafka, Store
from warpmeter.store import client

ALERTS: Final = TOPICS["alerts"]
WORDS: Final = TOPICS["alert-words"]
KEPT_S: Final = 15 * 86_400.0
"""Alerts that go on are published again several times a day: one that was not for so long has been given up."""
FLUSH_S: Final = 5.0
ROWS: Final = 500
"""Alerts of one message."""
_PATIENCE_S: Final = 15
_LIMITS: Final[Mapping[str, Any]] = {"readonly": 1, "max_execution_time": 10}
_OPEN: Final = """
SELECT * FROM alerts AS a
WHERE a.ts >= {since:DateTime64(3, 'UTC')} AND (a.fired_at >= {fired:DateTime64(3, 'UTC')} OR a.alert_id IN (
    SELECT alert_id FROM alerts WHERE ts >= {since:DateTime64(3, 'UTC')}
    GROUP BY alert_id HAVING argMax(state, ts) IN ('pending', 'firing')))
ORDER BY a.ts DESC LIMIT 1 BY a.alert_id"""
_SAID: Final = """
SELECT * FROM alert_words AS w
WHERE w.action NOT IN ('silence', 'unsilence') AND w.ts >= {since:DateTime64(3, 'UTC')}
    OR w.action IN ('silence', 'unsilence')
ORDER BY w.ts DESC LIMIT 1 BY w.subject, w.action"""


@dataclass(frozen=True)
class Stored:
    """What the store remembers."""

    alerts: Sequence[Alert]
    words: Sequence[Word]


class Memory(Protocol):
    """Where alerts and words are kept, and published. All calls from one thread.

    Reading the bus raises ReadingError and KafkaException; asking the store ClickHouseError.
    """

    def published(self, now: float, still: Callable[[], bool]) -> list[Alert]:
        """All alerts that the bus has; ends early when `still` is no more."""

    def said(self, now: float, still: Callable[[], bool]) -> list[Word]:
        """All words that the bus has; `heard` goes on from there."""

    def heard(self) -> list[Word]:
        """Words that have come since; does not wait."""

    def stored(self, now: float, flap_s: float) -> Stored:
        """What the store remembers of what goes on, fired within `flap_s`, or was said."""

    def publish(self, alerts: Sequence[Alert]) -> bool:
        """Put rows onto the bus; whether it has all that were put so far. Raises KafkaException, RegistryError."""

    def stop(self) -> None:
        """Read no more until the next election."""

    def close(self) -> None:
        """Let go of the bus."""


class Kept:
    """On the real bus and store. Raises KafkaException for options that librdkafka refuses."""

    def __init__(self, kafka: Kafka, store: Store) -> None:
        self._kafka, self._store = kafka, store
        self._words = Events(kafka, "scheduler", WORDS)
        self._sender = Sender(kafka, "scheduler")

    def published(self, now: float, still: Callable[[], bool]) -> list[Alert]:
        """See `Memory`."""
        reader = Events(self._kafka, "scheduler", ALERTS)
        try:
            return [Alert.of_row(cast(AlertRow, row)) for row in reader.start(now - KEPT_S, still)]
        finally:
            reader.close()

    def said(self, now: float, still: Callable[[], bool]) -> list[Word]:
        """See `Memory`."""
        return [cast(Word, row) for row in self._words.start(now - KEPT_S, still)]

    def heard(self) -> list[Word]:
        """See `Memory`."""
        return [cast(Word, row) for row in self._words.read(0.0)]

    def stored(self, now: float, flap_s: float) -> Stored:
        """See `Memory`."""
        on = client(self._store, patience_s=_PATIENCE_S)
        times = {"since": _moment(now - KEPT_S), "fired": _moment(now - flap_s)}
        alerts = on.query(_OPEN, times, settings=dict(_LIMITS)).named_results()
        words = on.query(_SAID, {"since": times["since"]}, settings=dict(_LIMITS)).named_results()
        return Stored([alert(row) for row in alerts], [word(row) for row in words])

    def publish(self, alerts: Sequence[Alert]) -> bool:
        """See `Memory`. An alert's rows stay in order: they have one key."""
        for each in alerts:
            self._sender.put(ALERTS, each.alert_id, [each.row()])
        return self._sender.flush(FLUSH_S)

    def stop(self) -> None:
        """See `Memory`."""
        self._words.stop()

    def close(self) -> None:
        """See `Memory`."""
        self._words.close()


@dataclass
class InMemory:
    """The same in this process: what was published and said, which outlives one watch and the next."""

    rows: list[Alert] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    _heard: int = 0

    def published(self, now: float, still: Callable[[], bool]) -> list[Alert]:  # noqa: ARG002 - the port's
        """See `Memory`."""
        return list(self.rows)

    def said(self, now: float, still: Callable[[], bool]) -> list[Word]:  # noqa: ARG002 - the port's
        """See `Memory`."""
        self._heard = len(self.words)
        return list(self.words)

    def heard(self) -> list[Word]:
        """See `Memory`."""
        found, self._heard = self.words[self._heard :], len(self.words)
        return found

    def stored(self, now: float, flap_s: float) -> Stored:  # noqa: ARG002 - the port's
        """See `Memory`."""
        return Stored([], [])

    def publish(self, alerts: Sequence[Alert]) -> bool:
        """See `Memory`."""
        self.rows += alerts
        return True

    def stop(self) -> None:
        """See `Memory`."""

    def close(self) -> None:
        """See `Memory`."""


def alert(row: Mapping[str, Any]) -> Alert:
    """A row of the table `alerts`."""
    known = dict(row)
    for name in ("ts", "started_at", "fired_at", "resolved_at"):
        known[name] = _seconds(known[name])
    known["labels"], known["findings"] = dict(known["labels"]), tuple(known["findings"])
    return Alert(**known)


def word(row: Mapping[str, Any]) -> Word:
    """A row of the table `alert_words`."""
    times = {name: _seconds(row[name]) for name in ("starts_at", "ends_at") if row[name] is not None}
    return Word(
        subject=row["subject"], ts=_seconds(row["ts"]), action=row["action"], said_by=row["said_by"],
        matchers=dict(row["matchers"]), comment=row["comment"], **times,
    )  # fmt: skip


def _seconds(at: datetime | None) -> float | None:
    if at is None:
        return None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp(), 3)


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
