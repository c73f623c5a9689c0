"""What the API knows of captures: rows of the store, with what was heard since."""

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from warpmeter.captures import REASONS, stored
from warpmeter.captures.asking import Asker
from warpmeter.captures.progress import Progress
from warpmeter.captures.wishes import Request
from warpmeter.settings import Settings
from warpmeter.web.captures.live import Live
from warpmeter.web.request import paging
from warpmeter.web.store.reads import Reads

Row = dict[str, Any]
KEPT_S: Final = 4.0
"""So long rows of the store serve all who follow a capture: what is newer is heard."""
KEPT: Final = 200
SHOWN_S: Final = 0.3
LATELY_S: Final = 60.0
"""What was asked for longer ago has landed, or the store is away."""
LONGEST_AGO: Final = "2020-01-01"
ASKED: Final = ("duration_ms", "iterations", "count", "interval_s", "shapes", "memory", "stacks", "flops", "modules",
                "max_count", "max_bytes", "max_seconds")  # fmt: skip
"""What a capture's row in the list has as its request has it."""


@dataclass
class Known:
    """A capture by the store: its row of `captures_listed`, None where it has none yet, and its processes."""

    row: Row | None
    processes: list[Row]
    read_at: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class Shown:
    """A capture and its processes at a moment; `states`: how many of them are in each."""

    row: Row
    processes: list[Row]
    states: dict[str, int]
    at: float = field(default_factory=time.monotonic)


@dataclass
class Captures:
    """Of one process of the web: asks for captures, and says how they stand."""

    settings: Settings
    reads: Reads
    live: Live
    _kept: dict[str, Known] = field(default_factory=dict)
    _shown: dict[str, Shown] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _asker: Asker | None = None

    @property
    def asker(self) -> Asker:
        """The way onto the bus, made when it is needed. Raises KafkaException for options that librdkafka refuses."""
        with self._lock:
            if self._asker is None:
                self._asker = Asker(self.settings.kafka, "web")
            return self._asker

    def ask(self, request: Request) -> None:
        """Onto the bus; raises NotTakenError, KafkaException."""
        self.asker.ask(request)
        if request.action == "start":
            self.live.note(request)

    def known(self, capture_id: str) -> Known:
        """What the store has of it, lately."""
        with self._lock:
            kept = self._kept.get(capture_id)
        if kept is not None and time.monotonic() - kept.read_at < KEPT_S:
            return kept
        rows, _ = paging.rows(self.reads, "captures_listed", capture_id=capture_id, since=LONGEST_AGO, limit=1)
        processes, _ = paging.rows(self.reads, "capture_states", capture_id=capture_id)
        found = Known(rows[0] if rows else None, processes)
        with self._lock:
            self._kept[capture_id] = found
            while len(self._kept) > KEPT:
                self._kept.pop(next(iter(self._kept)))
        return found

    def progress(self, capture_id: str) -> tuple[Row, Progress] | None:
        """How it stands: its row, as the list has it, and each process; None where there is no such capture."""
        heard = self.live.events(capture_id)
        request = next((each for each in self.live.asked() if each.capture_id == capture_id), None)
        known = self.known(capture_id)
        if known.row is None and request is None:
            return None
        progress = Progress(capture_id, request)
        for event in (*stored.events(capture_id, known.row, known.processes), *heard):
            progress.hear(event)
        return _row(known.row if known.row is not None else _new(request or Request()), progress), progress

    def shown(self, capture_id: str) -> Shown | None:
        """The same with its processes, once for all who look at the same moment; None where there is none."""
        with self._lock:
            kept = self._shown.get(capture_id)
        if kept is not None and time.monotonic() - kept.at < SHOWN_S:
            return kept
        if (found := self.progress(capture_id)) is None:
            return None
        rows = processes(found[1])
        shown = Shown(found[0], rows, dict(Counter(row["state"] for row in rows)))
        with self._lock:
            self._shown[capture_id] = shown
            while len(self._shown) > KEPT:
                self._shown.pop(next(iter(self._shown)))
        return shown

    def fresh(self, row: Row) -> Row:
        """A row of the list with what was heard since."""
        events = self.live.events(row["capture_id"])
        if not events:
            return row
        progress = Progress(row["capture_id"])
        for event in events:
            progress.hear(event)
        return _heard(row, progress)

    def unlisted(self, listed: Sequence[Row]) -> list[Row]:
        """Rows of what this process asked for in the last minute and the store did not list yet, the newest first."""
        names, lately = {row["capture_id"] for row in listed}, time.time() - LATELY_S
        new = [each for each in self.live.asked() if each.ts > lately and each.capture_id not in names]
        return [self.fresh(self.known(each.capture_id).row or _new(each)) for each in new]


def processes(progress: Progress) -> list[Row]:
    """Each process of each round, and each host without any: state, why, what that means, and where its trace is.

    The latest round first; in it those without a trace, then by rank.
    """
    document = progress.document()
    of_hosts = [
        {**_PROCESS, "sequence": number, "host": host, "state": event.state, "reason": event.reason, "why": event.why}
        for (number, host), event in sorted(progress.hosts.items())
        if not any(key[:2] == (number, host) for key in progress.ranks)
    ]
    told = [_process(row) for row in document["ranks"]] + of_hosts
    for row in told:
        row["meaning"] = REASONS.get(row["reason"], "")
        row["clock"] = progress.warnings.get(row["host"], "")
    return sorted(told, key=_order)


def _order(row: Row) -> tuple[int, bool, bool, int, str, int]:
    lost = row["state"] in ("failed", "cancelled")
    return -row["sequence"], not lost, row["rank"] is None, row["rank"] or 0, row["host"], row["pid"] or 0


_PROCESS: Final[Mapping[str, Any]] = {
    "pid": None, "rank": None, "job_id": "", "start_at": None, "traced_from": None, "traced_until": None,
    "bytes": None, "raw_bytes": None, "slowdown_permille": None, "stored": False,
}  # fmt: skip


def _process(row: Mapping[str, Any]) -> Row:
    times = {name: _time(row[name]) for name in ("start_at", "traced_from", "traced_until")}
    kept = {name: row[name] for name in row if name not in ("url", "sha256")}
    return {**kept, **times, "stored": bool(row["url"])}


def _time(seconds: float | None) -> str | None:
    """As the engine writes times in JSON."""
    if not seconds:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _new(request: Request) -> Row:
    """The row of a capture that the store does not know yet."""
    return {
        "capture_id": request.capture_id, "name": request.name, "requested_by": request.requested_by,
        "requested_at": _time(request.ts), "state": "requested", "reason": "", "why": "", "job_id": request.job_id,
        "mode": request.mode or "trace", "begun_at": None, "ended_at": None, "rounds": 0, "hosts": [], "processes": 0,
        "captured": 0, "analysed": 0, "failed": 0, "hosts_failed": [], "clocks_off": [], "bytes": 0,
        **{name: getattr(request, name) for name in ASKED}, "asked_hosts": list(request.hosts),
        "pids": list(request.pids), "condition": request.where,
    }  # fmt: skip


def _heard(row: Row, progress: Progress) -> Row:
    """A row of the list with what `progress` knows on top: the state goes on, and counts grow."""
    new = dict(row)
    if progress.ended is not None:
        new |= {"state": "ended", "reason": progress.ended.reason, "why": progress.ended.why}
        new["ended_at"] = row["ended_at"] or _time(progress.ended.ts)
    elif progress.begun is not None and row["state"] == "requested":
        new["state"] = "running"
    if progress.begun is not None:
        new["begun_at"] = row["begun_at"] or _time(progress.begun.ts)
    ranks = progress.ranks.values()
    counts = {
        "processes": len(ranks),
        "captured": len(progress.captured),
        "analysed": sum(rank.state == "analysed" and not rank.last.reason for rank in ranks),
        "failed": sum(rank.captured is None and rank.state in ("failed", "cancelled") for rank in ranks),
        "rounds": max((number for number, _, _ in progress.ranks), default=0),
        "bytes": sum(event.bytes for event in progress.captured),
    }
    new |= {name: max(row[name] or 0, count) for name, count in counts.items()}
    new["hosts"] = sorted({*row["hosts"], *(rank.host for rank in ranks), *(host for _, host in progress.hosts)})
    alone = (host for number, host in progress.hosts if not any(key[:2] == (number, host) for key in progress.ranks))
    new["hosts_failed"] = sorted({*row["hosts_failed"], *alone})
    return new


def _row(row: Row, progress: Progress) -> Row:
    return _heard(row, progress) | {"summary": progress.summary() if row["state"] != "lost" else row["why"]}
