"""Why the GPU stood still, and which collective the program waited for: what findings are made of.

Here the GPU idles when no device of the trace runs anything. Such a gap ends with an event, and its launching call is
what the gap waited for. Where that call began after the gap did, the host was late: within the gap, the time in which
it fetched input is *input*; the rest is *sync* when the GPU had run dry while the host waited for it in a call that
blocks, *allocation* when it was in a call that takes memory from the device or gives it back, and else *launching*.
Where the call came first, the device itself was late: *device*.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from warpmeter.analysis.breakdown import Sort
from warpmeter.analysis.intervals import Intervals, measure, union
from warpmeter.analysis.links import Links
from warpmeter.analysis.trace import Booleans, Int8s, Int64s, Places, Spans, Trace

INPUT: Final = re.compile(r"enumerate\(DataLoader\)|DataLoader.*__next__")
"""Ranges in which the program waits for its next batch."""

BLOCKING: Final = re.compile(
    r"(cuda|hip|cu)(Device|Stream|Event|Ctx)Synchronize(_v\d+)?|(cuda|hip)Memcpy|(cuda|hip)MemcpyWithStream"
)
"""Calls that return when the device has done what it had to."""

ALLOCATING: Final = re.compile(
    r"(cuda|hip|cu)(Malloc|Free|Mem(Alloc|Create|Map|Unmap|Release)|HostAlloc|HostFree|ExtMalloc).*"
)
"""Calls that take memory from the device, or pinned memory of the host, or give it back; most wait for the device."""


@dataclass(frozen=True, eq=False)
class Gaps:
    """Stretches of time in which no device ran anything, each up to the event `next` (an index of the GPU events).

    `call` is that event's call, -1 where it is not known. `input`, `sync`, `allocation`, `launching` and `device` are
    ns of each gap, together its length where the call is known. `within` is the blocking or allocating call, or -1.
    """

    start: Int64s
    end: Int64s
    call: Places
    input: Int64s
    sync: Int64s
    allocation: Int64s
    launching: Int64s
    device: Int64s
    within: Places


def named(trace: Trace, spans: Spans, pattern: re.Pattern[str]) -> Places:
    """Those whose names match from their beginning."""
    names = [index for index in np.unique(spans.name).tolist() if pattern.match(trace.names[index])]
    return np.flatnonzero(np.isin(spans.name, np.array(names, np.int32)))


def fetching(trace: Trace) -> Intervals:
    """When some thread fetched input."""
    tables: Sequence[Spans] = (trace.annotations, trace.operators)
    found = [table.take(named(trace, table, INPUT)) for table in tables]
    return union(np.concatenate([each.start for each in found]), np.concatenate([each.end for each in found]))


def gaps(trace: Trace, links: Links) -> Gaps:
    """Every gap of the trace with its cause, n log n."""
    gpu = trace.gpu
    busy = union(gpu.start, gpu.end)
    start, end = busy.end[:-1], busy.start[1:]
    length = end - start
    event = np.searchsorted(gpu.start, end, side="left")
    call = links.call[event] if len(gpu) else np.zeros(0, np.intp)
    known = call >= 0
    at = np.append(trace.calls.start, 0)[call]
    late = known & (at > start)
    zero = np.zeros(len(start), np.int64)
    fetched = np.where(late, measure(fetching(trace), start, np.minimum(at, end)), zero)
    blocked = _within(trace, named(trace, trace.calls, BLOCKING), start, late)
    taking = _within(trace, named(trace, trace.calls, ALLOCATING), start, late)
    rest = np.where(late, length - fetched, zero)
    is_sync, is_taking = blocked >= 0, (taking >= 0) & (blocked < 0)
    return Gaps(
        start,
        end,
        call,
        input=fetched,
        sync=np.where(is_sync, rest, zero),
        allocation=np.where(is_taking, rest, zero),
        launching=np.where(is_sync | is_taking, zero, rest),
        device=np.where(known & ~late, length, zero),
        within=np.where(is_sync, blocked, taking),
    )


def _within(trace: Trace, calls: Places, at: Int64s, wanted: Booleans) -> Places:
    """Of the calls the last one that began before each moment, where it had not ended then; else -1."""
    found = np.full(len(at), -1, np.intp)
    if not len(calls):
        return found
    before = np.searchsorted(trace.calls.start[calls], at, side="right") - 1
    reach = np.maximum.accumulate(trace.calls.end[calls])
    last = np.maximum(before, 0)
    inside = wanted & (before >= 0) & (reach[last] >= at)
    found[inside] = calls[last[inside]]
    return found


@dataclass(frozen=True)
class Exposed:
    """Communication that nothing hid, by the kernel that made it; several at once share it by their own names."""

    name: str
    count: int
    exposed_ns: int


def exposed_communication(trace: Trace, sort: Int8s) -> list[Exposed]:
    """Which collectives nothing ran beside, the longest first; sums to the exposed communication at least."""
    gpu = trace.gpu
    comm, compute = gpu.take(sort == Sort.COMM), gpu.take(sort == Sort.COMPUTE)
    alone = union(comm.start, comm.end) - union(compute.start, compute.end)
    lengths = measure(alone, comm.start, comm.end)
    total = np.bincount(comm.name, lengths.astype(np.float64), minlength=1).astype(np.int64)
    count = np.bincount(comm.name)
    found = [Exposed(trace.names[name], int(count[name]), int(total[name])) for name in np.flatnonzero(total).tolist()]
    return sorted(found, key=lambda each: (-each.exposed_ns, each.name))
