"""How every source of this agent fares: a board that the sources report to, and the rows that are published from it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from warpmeter.log import Logger
from warpmeter.producers import files
from warpmeter.producers.source import Health
from warpmeter.schemas.generated.source_health_pb2 import Envelope

SourceHealth = Envelope.SourceHealth
TOPIC: Final = "source-health"
OK: Final = Health("", "ok")
TOLD_MAX: Final = 1000
"""Characters of a subject, and of why."""
UNSUPPORTED_S: Final = 600.0
"""What a host does not have is repeated so often; it does not change, and there may be a hundred of it."""


@dataclass
class _Entry:
    seconds: float | None = None
    source: Health = OK
    subjects: Mapping[str, Health] = field(default_factory=dict)


class Board:
    """The last word of every source; used from all threads.

    A source that is not ok has nothing to say of its subjects, so their rows rest until it is ok again.
    """

    def __init__(self, host: str, interval_s: float) -> None:
        self._host = host
        self._period_ms = round(interval_s * 1000)
        self._entries: dict[str, _Entry] = {}
        self._lock = Lock()
        self._unsupported_at: float | None = None

    def report(
        self, name: str, ts: float, seconds: float | None, source: Health = OK, subjects: Sequence[Health] = ()
    ) -> list[SourceHealth]:
        """Take the word of source `name`; returns the rows of what changed its state. `seconds`: what the read took."""
        with self._lock:
            before = self._entries.get(name)
            now = _Entry(seconds, source, {health.subject: health for health in subjects})
            if source.state != "ok" and before is not None:
                now.subjects = before.subjects
            self._entries[name] = now
        return [self._row(name, ts, seconds, health) for health in _changed(before, now)]

    def state(self, name: str) -> str:
        """State of a source, '' when it has not reported yet."""
        with self._lock:
            entry = self._entries.get(name)
        return entry.source.state if entry else ""

    def row(self, name: str, ts: float) -> SourceHealth:
        """The last word of source `name` once more; raises KeyError when it has not reported yet."""
        with self._lock:
            entry = self._entries[name]
        return self._row(name, ts, entry.seconds, entry.source)

    def rows(self, ts: float) -> list[SourceHealth]:
        """A row for every source and each of its subjects that is not ok; of `unsupported` subjects each 10 min."""
        with self._lock:
            entries = list(self._entries.items())
            due = ts // UNSUPPORTED_S
            everything, self._unsupported_at = due != self._unsupported_at, due
        standing = [(name, entry.seconds, health) for name, entry in entries for health in _standing(entry)]
        return [self._row(name, ts, s, health) for name, s, health in standing if everything or not _lasting(health)]

    def _row(self, name: str, ts: float, seconds: float | None, health: Health) -> SourceHealth:
        return SourceHealth(
            host=self._host,
            ts=ts,
            period_ms=max(self._period_ms, round(UNSUPPORTED_S * 1000)) if _lasting(health) else self._period_ms,
            source=name,
            subject=_told(health.subject),
            state=health.state,
            seconds=None if health.subject else seconds,
            why=_told(health.why),
            count=health.count,
        )


def _told(text: str) -> str:
    """What others said may be in it: of any length, and no text at all, which no message takes."""
    whole = text if len(text) <= TOLD_MAX else f"{text[: TOLD_MAX - 1]}…"
    return files.plain(whole)


def tell(logger: Logger, changed: Iterable[SourceHealth]) -> None:
    """Log what changed."""
    for row in changed:
        level = logger.info if row.state in ("ok", "unsupported") else logger.warning
        level("source_health", source=row.source, subject=row.subject, state=row.state, why=row.why)


def _lasting(health: Health) -> bool:
    return health.state == "unsupported" and health.subject != ""


def _standing(entry: _Entry) -> Iterable[Health]:
    yield entry.source
    if entry.source.state == "ok":
        yield from entry.subjects.values()


def _changed(before: _Entry | None, now: _Entry) -> Iterable[Health]:
    """What is to be published at once: new states, and subjects that are well again."""
    if before is None or before.source.state != now.source.state:
        yield now.source
    if now.source.state != "ok" or (before is not None and before.subjects == now.subjects):
        return
    old = before.subjects if before else {}
    for subject, health in now.subjects.items():
        if subject not in old or old[subject].state != health.state:
            yield health
    for subject in old.keys() - now.subjects.keys():
        yield Health(subject, "ok")
