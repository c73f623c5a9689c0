"""Who was busy when: the whole trace in a few hundred stretches of time, for devices, streams and threads."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from warpmeter.analysis.breakdown import Sort
from warpmeter.analysis.intervals import Intervals, measure, union
from warpmeter.analysis.nesting import in_order
from warpmeter.analysis.trace import Calls, GpuEvents, Int8s, Int64s, Operators, Spans, Trace

STRETCHES: Final = 300
LANES: Final = 16
"""Streams, and threads, that have a lane of their own: those that were busy longest."""


@dataclass(frozen=True)
class Lane:
    """One track: in each stretch how long it computed, communicated, moved memory (parts that nothing before hides).

    Of a thread (`kind` "thread") the parts are: in the GPU's library waiting for the device, in its other calls, in
    operators otherwise.
    """

    kind: str
    name: str
    device: int | None
    busy_ns: int
    parts: dict[str, list[int]]


@dataclass(frozen=True)
class Overview:
    """Lanes of devices, then streams, then threads. Stretch i begins at `start_ns + i·stretch_ns`; the last ends early.

    `left_out`: streams and threads without a lane.
    """

    start_ns: int
    end_ns: int
    stretch_ns: int
    lanes: list[Lane]
    left_out: int


@dataclass(frozen=True, eq=False)
class _Stretches:
    starts: Int64s
    ends: Int64s

    def lane(self, kind: str, name: str, device: int | None, sets: dict[str, Intervals]) -> Lane:
        """Sets in order of rank: what an earlier one has, a later one has not."""
        taken, parts = Intervals.none(), {}
        for part, covered in sets.items():
            parts[part] = measure(covered - taken, self.starts, self.ends).tolist()
            taken = taken | covered
        return Lane(kind, name, device, taken.length, parts)


def overview(trace: Trace, sort: Int8s) -> Overview | None:
    """The trace at a glance, n log n; None where nothing has a duration."""
    tables: list[Spans] = [trace.gpu, trace.calls, trace.operators]
    there = [table for table in tables if len(table)]
    if not there:
        return None
    start = min(int(table.start[0]) for table in there)
    end = max(int(table.end.max()) for table in there)
    stretch = max(1, -(-(end - start) // STRETCHES))
    starts = start + stretch * np.arange(-(-(end - start) // stretch), dtype=np.int64)
    stretches = _Stretches(starts, np.minimum(starts + stretch, end))
    devices = list(_devices(trace.gpu, sort, stretches))
    streams, threads = list(_streams(trace.gpu, sort, stretches)), list(_threads(trace, stretches))
    lanes = [*devices, *_largest(streams), *_largest(threads)]
    return Overview(start, end, stretch, lanes, len(devices) + len(streams) + len(threads) - len(lanes))


def _largest(lanes: list[Lane]) -> list[Lane]:
    """Those that were busy longest, in their order."""
    chosen = sorted(range(len(lanes)), key=lambda i: -lanes[i].busy_ns)[:LANES]
    return [lanes[i] for i in sorted(chosen)]


def _sets(gpu: GpuEvents, sort: Int8s) -> dict[str, Intervals]:
    compute, comm = (union(gpu.start[here], gpu.end[here]) for here in (sort == Sort.COMPUTE, sort == Sort.COMM))
    rest = sort >= Sort.MEMCPY
    return {"compute": compute, "comm": comm, "mem": union(gpu.start[rest], gpu.end[rest])}


def _devices(gpu: GpuEvents, sort: Int8s, stretches: _Stretches) -> Iterator[Lane]:
    for device in np.unique(gpu.device).tolist():
        here = gpu.device == device
        yield stretches.lane("device", f"GPU {device}", device, _sets(gpu.take(here), sort[here]))


def _streams(gpu: GpuEvents, sort: Int8s, stretches: _Stretches) -> Iterator[Lane]:
    order = np.lexsort((gpu.stream, gpu.device))
    changes = (np.diff(gpu.stream[order]) != 0) | (np.diff(gpu.device[order]) != 0)
    for here in np.split(order, np.flatnonzero(changes) + 1) if len(order) else ():
        device, stream = int(gpu.device[here[0]]), int(gpu.stream[here[0]])
        yield stretches.lane("stream", f"stream {stream}", device, _sets(gpu.take(here), sort[here]))


def _threads(trace: Trace, stretches: _Stretches) -> Iterator[Lane]:
    waits = np.array([i for i, name in enumerate(trace.names) if "Synchronize" in name], np.int32)
    waiting = np.isin(trace.calls.name, waits)
    tables: list[Calls | Operators] = [trace.calls.take(waiting), trace.calls.take(~waiting), trace.operators]
    orders = [in_order(table.thread) for table in tables]
    threads = [table.thread[order] for table, order in zip(tables, orders, strict=True)]
    for thread in np.unique(np.concatenate(threads)).tolist():
        sets = {}
        for part, table, order, sorted_ in zip(("wait", "calls", "operators"), tables, orders, threads, strict=True):
            low, high = np.searchsorted(sorted_, [thread, thread + 1])
            spans = table.take(order[low:high])
            sets[part] = union(spans.start, spans.end)
        known = trace.threads[thread]
        yield stretches.lane("thread", known.name or f"thread {known.tid}", None, sets)
