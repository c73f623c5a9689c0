"""From the trees of one tick to events: started, running (with what was used since the event before), ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from warpmeter.producers.jobs.trees import Key, Rules, Tree
from warpmeter.producers.jobs.usage import GpuHold, TreeUsage, cores_milli, io_between
from warpmeter.schemas.generated.job_events_pb2 import Envelope

JobEvent = Envelope.JobEvent
Event = Literal["started", "running", "ended"]
MEBIBYTE: Final = 1 << 20


@dataclass(frozen=True)
class Seen:
    """One tick: the trees, and for an event tick what each of them uses.

    `usage`: by top, None between event ticks. `gpus`: by top, None when the GPU source has nothing fresh to say.
    """

    ts: float
    monotonic: float
    trees: Sequence[Tree]
    usage: Mapping[Key, TreeUsage] | None
    gpus: Mapping[Key, GpuHold] | None
    labels: Mapping[Key, Mapping[str, str]]


@dataclass(frozen=True)
class _Known:
    tree: Tree
    labels: Mapping[str, str]
    baseline: TreeUsage | None


class Tracker:
    """Remembers which trees ran. The same ticks in the same order give the same events."""

    def __init__(self, rules: Rules, page_bytes: int) -> None:
        self._rules, self._page_bytes = rules, page_bytes
        self._known: dict[Key, _Known] = {}
        self._last: float | None = None

    def events(self, seen: Seen) -> list[JobEvent]:
        """The events of one tick: first what ended, then what started, then what runs.

        A process that is of another job now (its pod was told, or it became another program) ends the one it was of.
        """
        now = {tree.top.key: tree for tree in seen.trees}
        gone = [key for key, known in self._known.items() if key not in now or now[key].job_id != known.tree.job_id]
        ended = [self._ended(seen, key) for key in gone]
        started = [self._started(seen, tree) for key, tree in now.items() if key not in self._known]
        running: list[JobEvent] = []
        if seen.usage is not None:
            running = [self._running(seen, tree, seen.usage) for tree in seen.trees if tree.top.key in seen.usage]
        self._last = seen.monotonic
        return [*ended, *started, *running]

    def _ended(self, seen: Seen, key: Key) -> JobEvent:
        known = self._known.pop(key)
        return self._event(seen, "ended", known.tree, known.labels)

    def _started(self, seen: Seen, tree: Tree) -> JobEvent:
        """Its rates count from its start when that was since the last tick, else from the first look at it."""
        labels = _labels(seen, tree)
        age = seen.ts - self._rules.started_at(tree.top)
        new = self._last is not None and age <= seen.monotonic - self._last + 1
        zero = TreeUsage(seen.monotonic - max(0.0, age), 0, 0, (0, 0)) if new else None
        self._known[tree.top.key] = _Known(tree, labels, zero)
        return self._event(seen, "started", tree, labels)

    def _running(self, seen: Seen, tree: Tree, usage: Mapping[Key, TreeUsage]) -> JobEvent:
        known, now = self._known[tree.top.key], usage[tree.top.key]
        labels = _labels(seen, tree)
        event = self._event(seen, "running", tree, labels)
        event.processes, event.rss_mebibytes = len(tree.pids), now.rss_pages * self._page_bytes // MEBIBYTE
        if known.baseline is not None:
            self._rates(event, known.baseline, now)
        if seen.gpus is not None:
            _gpus(event, seen.gpus[tree.top.key])
        self._known[tree.top.key] = _Known(tree, labels, now)
        return event

    def _rates(self, event: JobEvent, before: TreeUsage, now: TreeUsage) -> None:
        event.period_ms = round((now.monotonic - before.monotonic) * 1000)
        cores = cores_milli(before, now, self._rules.hertz)
        if cores is not None:
            event.cpu_cores_milli = cores
        if (io := io_between(before, now)) is not None:
            event.read_bytes, event.written_bytes = io

    def _event(self, seen: Seen, event: Event, tree: Tree, labels: Mapping[str, str]) -> JobEvent:
        place = tree.rank
        row = JobEvent(
            host=self._rules.host,
            ts=seen.ts,
            job_id=tree.job_id,
            event=event,
            name=tree.name,
            command=tree.top.command,
            user=tree.user,
            scheduler=tree.scheduler,
            pid=tree.top.pid,
            started_at=round(self._rules.started_at(tree.top), 2),
            rank=place.rank,
            world_size=place.world_size,
            tree_id=tree.top.tree_id,
            labels=labels,
        )
        if place.rank is not None and place.local_rank is not None:
            row.ranks.append(place.rank)
            row.local_ranks.append(place.local_rank)
            row.rank_pids.append(tree.top.pid)
        return row


def _labels(seen: Seen, tree: Tree) -> Mapping[str, str]:
    return {**seen.labels.get(tree.top.key, {}), **tree.labels}


def _gpus(event: JobEvent, hold: GpuHold) -> None:
    if hold.memory_mebibytes is not None:
        event.gpu_memory_mebibytes = hold.memory_mebibytes
    event.gpus.extend(hold.gpus)
    event.gpu_uuids.extend(hold.uuids)
