"""The latest row of everything that is measured, for as long as it is the state of things.

A row stands for its period and GRACE_S more, the time that the next read may take. A source that stopped has no value
then, and what a read could not tell is absent from its row, so nothing old is ever shown as new.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

from google.protobuf.message import Message

from warpmeter.clock import Clock
from warpmeter.settings import Agent

GRACE_S: Final = 1.0
SWEEP_S: Final = 10.0
KEYS: Final[Mapping[str, Callable[[Any], tuple[object, ...]]]] = {
    "gpu-samples": lambda row: (row.uuid,),
    "gpu-processes": lambda row: (row.uuid, row.pid),
    "gpu-events": lambda row: (row.uuid, row.kind, row.code),
    "host-samples": lambda _: (),
    "device-samples": lambda row: (row.kind, row.device),
    "job-events": lambda row: (row.job_id, row.pid),
    "source-health": lambda row: (row.source, row.subject),
}
"""What tells two rows of a topic apart. `metric-samples` are not kept: who wants them scrapes their exporter."""
ENDS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "gpu-events": lambda row: row.state == "cleared",
    "job-events": lambda row: row.event == "ended",
    "source-health": lambda row: row.subject != "" and row.state == "ok",
}
"""Rows that say that there is nothing more to say."""


@dataclass(frozen=True)
class Kept:
    """A row and how long it stands, by the monotonic clock. `number`: it grows with every row that comes."""

    topic: str
    row: Any
    until: float
    number: int


class Latest:
    """Rows by what they are about; used from all threads."""

    def __init__(self, agent: Agent, clock: Clock) -> None:
        self._clock = clock
        self._least_s = {"job-events": agent.job_event_interval_s, "gpu-events": math.inf}
        self._kept: dict[tuple[object, ...], Kept] = {}
        self._numbers = itertools.count(1)
        self._swept = clock.monotonic()
        self._lock = Lock()

    def publish(self, topic: str, rows: Sequence[Message]) -> None:
        """Take the rows of one tick."""
        if (key := KEYS.get(topic)) is None:
            return
        now, ends = self._clock.monotonic(), ENDS.get(topic)
        with self._lock:
            for row in rows:
                about = (topic, *key(row))
                if ends is not None and ends(row):
                    self._kept.pop(about, None)
                else:
                    self._kept[about] = Kept(topic, row, now + self._stands_s(topic, row), next(self._numbers))
            if now - self._swept > SWEEP_S:
                self._sweep(now)

    def _stands_s(self, topic: str, row: Any) -> float:
        least = self._least_s.get(topic, 0.0)
        return GRACE_S + (least if math.isinf(least) else max(least, row.period_ms / 1000))

    def rows(self, after: int = 0) -> list[Kept]:
        """What stands now and came after row number `after`, in the order in which it was first seen."""
        now = self._clock.monotonic()
        with self._lock:
            self._sweep(now)
            return [kept for kept in self._kept.values() if kept.number > after]

    def _sweep(self, now: float) -> None:
        self._swept = now
        for about in [about for about, kept in self._kept.items() if kept.until < now]:
            del self._kept[about]
