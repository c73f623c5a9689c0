"""What the GPU did with its time: busy and idle, computation, communication, memory, and what hid behind what."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from warpmeter.analysis.intervals import Intervals, measure, union
from warpmeter.analysis.names import is_communication
from warpmeter.analysis.trace import GpuEvents, Int8s, Int64s, Kind


class Sort(IntEnum):
    """What a GPU event is for: kernels by their name, copies and sets by their category."""

    COMPUTE = 0
    COMM = 1
    MEMCPY = 2
    MEMSET = 3


SORTS: Final = ("compute", "comm", "memcpy", "memset")
"""The names of the sorts, by their number."""


MAIN: Final = (
    "gpu_events",
    "span_ns",
    "busy_ns",
    "idle_ns",
    "compute_ns",
    "comm_ns",
    "mem_ns",
    "comm_compute_overlap_ns",
    "exposed_comm_ns",
    "exposed_mem_ns",
)
"""The figures of a breakdown that are told of each step: in its row, and in their spread between steps."""


@dataclass(frozen=True)
class Breakdown:
    """Lengths of unions of intervals over all devices, in ns. All of them are None where there is no GPU event at all.

    busy = compute + exposed_comm + exposed_mem, idle = span - busy. Of a window, the span is the window's length, the
    lengths are those of the parts that lie in it, and the counts are of the events that begin in it.
    """

    gpu_events: int
    compute_events: int
    comm_events: int
    memcpy_events: int
    memset_events: int
    start_ns: int | None = None
    span_ns: int | None = None
    busy_ns: int | None = None
    idle_ns: int | None = None
    compute_ns: int | None = None
    comm_ns: int | None = None
    mem_ns: int | None = None
    memcpy_ns: int | None = None
    memset_ns: int | None = None
    comm_compute_overlap_ns: int | None = None
    mem_compute_overlap_ns: int | None = None
    mem_comm_overlap_ns: int | None = None
    exposed_comm_ns: int | None = None
    exposed_mem_ns: int | None = None
    total_ns: int | None = None
    """The sum of all durations, overlaps counted each time; of a window, of the events that begin in it."""


@dataclass(frozen=True)
class DeviceBreakdown:
    """The same of one device of the trace alone."""

    device: int
    totals: Breakdown


def sorts(gpu: GpuEvents, names: Sequence[str]) -> Int8s:
    """The `Sort` of each GPU event."""
    used = np.flatnonzero(np.bincount(gpu.name, minlength=1))
    comm = np.zeros(len(names) + 1, np.bool_)
    comm[used] = [is_communication(names[name]) for name in used.tolist()]
    kernel = np.where(comm[gpu.name], Sort.COMM, Sort.COMPUTE)
    other = np.where(gpu.kind == Kind.MEMSET, Sort.MEMSET, Sort.MEMCPY)
    return np.where(gpu.kind == Kind.KERNEL, kernel, other).astype(np.int8)


def breakdown(gpu: GpuEvents, sort: Int8s) -> Breakdown:
    """The whole of the given events, from the first start to the last end; `sort` is `sorts(…)` of the same events."""
    if not len(gpu):
        return Breakdown(0, 0, 0, 0, 0)
    counts = np.bincount(sort, minlength=len(SORTS)).tolist()
    start, end = int(gpu.start.min()), int(gpu.end.max())
    lengths = {name: covered.length for name, covered in _unions(gpu, sort)}
    return _breakdown(counts, (start, end), lengths, int(gpu.duration.sum()))


def breakdowns(gpu: GpuEvents, sort: Int8s, starts: Int64s, ends: Int64s) -> list[Breakdown]:
    """Each of many windows (they may overlap), n log n in events and windows together."""
    lengths = {name: measure(covered, starts, ends).tolist() for name, covered in _unions(gpu, sort)}
    counts = [_begun(gpu.start[sort == each], starts, ends).tolist() for each in Sort]
    total = np.concatenate([[0], np.cumsum(gpu.duration)])
    totals = total[np.searchsorted(gpu.start, np.maximum(ends, starts))] - total[np.searchsorted(gpu.start, starts)]
    return [
        _breakdown(
            [count[i] for count in counts],
            (start, max(start, end)),
            {name: length[i] for name, length in lengths.items()},
            int(totals[i]),
        )
        for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True))
    ]


def devices(gpu: GpuEvents, sort: Int8s) -> list[DeviceBreakdown]:
    """Each device of the trace by itself, by its number."""
    found = np.unique(gpu.device).tolist()
    return [
        DeviceBreakdown(device, breakdown(gpu.take(here), sort[here]))
        for device, here in ((device, gpu.device == device) for device in found)
    ]


def _begun(sorted_starts: Int64s, starts: Int64s, ends: Int64s) -> Int64s:
    after = np.searchsorted(sorted_starts, np.maximum(ends, starts), side="left")
    return after - np.searchsorted(sorted_starts, starts, side="left")


def _unions(gpu: GpuEvents, sort: Int8s) -> Iterator[tuple[str, Intervals]]:
    compute, comm, memcpy, memset = (union(gpu.start[here], gpu.end[here]) for here in (sort == each for each in Sort))
    mem = memcpy | memset
    kernels = compute | comm
    yield from {"compute": compute, "comm": comm, "memcpy": memcpy, "memset": memset, "mem": mem}.items()
    yield "busy", kernels | mem
    yield "kernels", kernels
    yield "comm_compute", comm & compute
    yield "mem_compute", mem & compute
    yield "mem_comm", mem & comm


def _breakdown(counts: list[int], window: tuple[int, int], lengths: dict[str, int], total: int) -> Breakdown:
    span = window[1] - window[0]
    compute, comm, memcpy, memset = counts
    return Breakdown(
        gpu_events=sum(counts),
        compute_events=compute,
        comm_events=comm,
        memcpy_events=memcpy,
        memset_events=memset,
        start_ns=window[0],
        span_ns=span,
        busy_ns=lengths["busy"],
        idle_ns=span - lengths["busy"],
        compute_ns=lengths["compute"],
        comm_ns=lengths["comm"],
        mem_ns=lengths["mem"],
        memcpy_ns=lengths["memcpy"],
        memset_ns=lengths["memset"],
        comm_compute_overlap_ns=lengths["comm_compute"],
        mem_compute_overlap_ns=lengths["mem_compute"],
        mem_comm_overlap_ns=lengths["mem_comm"],
        exposed_comm_ns=lengths["comm"] - lengths["comm_compute"],
        exposed_mem_ns=lengths["busy"] - lengths["kernels"],
        total_ns=total,
    )
