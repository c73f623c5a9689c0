"""Words of alerts, said through this process: onto the bus, and remembered until the store has them.

The store lags by the age of a batch, and the scheduler answers at its next look: whoever silences an alert here sees it
at once. What another process was told is seen when the store has it.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from warpmeter.alerts.words import CARING, Word
from warpmeter.captures.asking import Asker
from warpmeter.schemas.topics import TOPICS

TOPIC: Final = TOPICS["alert-words"]
KEPT_S: Final = 60.0
Row = dict[str, Any]


@dataclass
class Said:
    """What was said lately. Any thread may use it."""

    _words: dict[tuple[str, bool], tuple[float, Word]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def say(self, asker: Asker, word: Word) -> None:
        """Onto the bus; raises NotTakenError, KafkaException."""
        asker.put(TOPIC, {word.subject: word})
        now = time.monotonic()
        with self._lock:
            self._words = {key: each for key, each in self._words.items() if now - each[0] < KEPT_S}
            self._words[word.subject, word.action in CARING] = now, word

    def alerts(self, rows: Sequence[Row]) -> list[Row]:
        """Alerts of the store, with who takes care of them as it was said here."""
        words = self._lately(caring=True)
        return [_cared_for(row, words.get(row["alert_id"])) for row in rows]

    def silences(self, rows: Sequence[Row], silence_id: str = "") -> list[Row]:
        """Silences of the store, with those that were made here, and without those that were ended here."""
        words = self._lately(caring=False)
        ended = {name for name, word in words.items() if word.action == "unsilence"}
        there = {row["silence_id"] for row in rows}
        made = [
            _silence(word) for name, word in words.items()
            if word.action == "silence" and name not in there and silence_id in ("", name)
        ]  # fmt: skip
        return [*made, *(row for row in rows if row["silence_id"] not in ended)]

    def _lately(self, caring: bool) -> Mapping[str, Word]:
        now = time.monotonic()
        with self._lock:
            return {
                subject: word for (subject, cares), (at, word) in self._words.items()
                if cares is caring and now - at < KEPT_S
            }  # fmt: skip


def _cared_for(row: Row, word: Word | None) -> Row:
    if word is None:
        return row
    return {**row, "acknowledged_by": word.said_by if word.action == "acknowledge" else ""}


def _silence(word: Word) -> Row:
    ahead = word.starts_at > time.time()
    return {
        "silence_id": word.subject, "said_at": _time(word.ts), "said_by": word.said_by,
        "matchers": dict(word.matchers), "starts_at": _time(word.starts_at), "ends_at": _time(word.ends_at),
        "comment": word.comment, "state": "ahead" if ahead else "holds",
    }  # fmt: skip


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
