"""What is known of reports: which were rendered, and how each delivery stands. Told by events, in any order.

Nothing else is remembered: who is elected next hears the same events, and goes on.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from warpmeter.reports.said import FAILED, FINAL, LATE, RENDERED, SKIPPED, ReportEvent

LONGEST_WAIT_S: Final = 3600.0


@dataclass
class Tries:
    """Attempts at one thing: how many have failed, when the last one did, and whether there is no more to be done."""

    failed: int = 0
    last: float = 0.0
    over: bool = False

    def due(self, first_wait_s: float) -> float:
        """When to try again: at once at first, then after waits that double."""
        if not self.failed:
            return 0.0
        return self.last + min(first_wait_s * 2.0 ** min(self.failed - 1, 20), LONGEST_WAIT_S)


@dataclass
class Known:
    """A report: what its rendering said, if it was rendered, and its deliveries by target."""

    rendered: ReportEvent | None = None
    rendering: Tries = field(default_factory=Tries)
    late: bool = False
    targets: dict[str, Tries] = field(default_factory=dict)


class Book:
    """All of it. Threads may share it."""

    def __init__(self) -> None:
        self._reports: dict[str, Known] = {}
        self._since: dict[str, float] = {}
        self._open: set[tuple[str, str]] = set()
        self._lock = Lock()

    def hear(self, event: ReportEvent) -> None:
        """One more event."""
        with self._lock:
            if event.schedule:
                self._since[event.schedule] = min(self._since.get(event.schedule, event.ts), event.ts)
            known = self._reports.setdefault(event.report_id, Known())
            if event.target:
                tries = known.targets.setdefault(event.target, Tries())
                _take(tries, event)
                (self._open.discard if tries.over else self._open.add)((event.report_id, event.target))
            else:
                self._of_report(known, event)

    def _of_report(self, known: Known, event: ReportEvent) -> None:
        if event.state == RENDERED:
            known.rendered = event
        elif event.state == LATE:
            known.late = True
        else:
            _take(known.rendering, event)

    def since(self, schedule: str) -> float | None:
        """When a schedule was first heard of, None for one that is new."""
        with self._lock:
            return self._since.get(schedule)

    def known(self, report_id: str) -> Known:
        """How a report stands."""
        with self._lock:
            return self._reports.get(report_id, Known())

    def tries(self, report_id: str, target: str) -> Tries:
        """How a delivery stands."""
        with self._lock:
            return self._reports.get(report_id, Known()).targets.get(target, Tries())

    def open(self, after: float) -> Iterator[tuple[ReportEvent, str]]:
        """Deliveries that are not over, of reports rendered after a time, the oldest first: report and target."""
        with self._lock:
            told = [(self._reports[report_id].rendered, target) for report_id, target in self._open]
        found = [(rendered, target) for rendered, target in told if rendered is not None and rendered.ts > after]
        yield from sorted(found, key=lambda each: each[0].ts)


def _take(tries: Tries, event: ReportEvent) -> None:
    if event.state in FINAL or event.state == SKIPPED:
        tries.over = True
    elif event.state == FAILED:
        tries.failed = max(tries.failed, event.attempt)
    tries.last = max(tries.last, event.ts)
