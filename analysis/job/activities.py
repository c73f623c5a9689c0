"""What a rank was at, as sets of moments."""

import re
from dataclasses import dataclass
from typing import Final

from warpmeter.analysis.intervals import Intervals, union
from warpmeter.analysis.job.told import HOST_COLLECTIVE, communicates, named
from warpmeter.analysis.trace import Booleans, Kind, Spans, Trace

INPUT: Final = re.compile(r"enumerate\(DataLoader\)|DataLoader.*__next__")
"""Ranges in which the program waits for its next batch."""

_NO_WORK: Final = re.compile(rf"c10d::|record_param_comms|{INPUT.pattern}")

ACTIVITIES: Final = ("compute", "communication", "memory", "input", "host")
"""What a rank may have been at, each moment counted once, in this order: kernels that compute; else kernels of other
collectives; else copies and sets; else nothing on the GPU while the program waits for its next batch; else nothing."""


def union_of(spans: Spans, where: Booleans) -> Intervals:
    """The moments that the chosen spans cover."""
    start = spans.start[where]
    return union(start, start + spans.duration[where])


@dataclass(frozen=True, eq=False)
class Activities:
    """Sets of moments, disjoint but for `comm_all`, on the trace's own time."""

    compute: Intervals
    comm_all: Intervals
    communication: Intervals
    memory: Intervals
    busy: Intervals
    input: Intervals

    @classmethod
    def of(cls, trace: Trace, *, with_host: bool) -> "Activities":
        """`with_host`: collectives that the host carries out are communication too."""
        comm = communicates(trace)
        kernels = trace.gpu.kind == Kind.KERNEL
        comm_all = union_of(trace.gpu, comm)
        if with_host:
            comm_all |= union_of(trace.annotations, named(trace, trace.annotations, HOST_COLLECTIVE))
        computing = computing_spans(trace)
        compute = union(computing.start, computing.end)
        copies = union_of(trace.gpu, ~kernels)
        covered = compute | comm_all
        waits = union_of(trace.annotations, named(trace, trace.annotations, INPUT))
        waits |= union_of(trace.operators, named(trace, trace.operators, INPUT))
        busy = covered | copies
        return cls(compute, comm_all, comm_all - compute, copies - covered, busy, waits - busy)


def computing_spans(trace: Trace) -> Spans:
    """Kernels that compute; without a GPU operators that neither communicate nor fetch input."""
    if len(trace.gpu):
        spans: Spans = trace.gpu
        where = (trace.gpu.kind == Kind.KERNEL) & ~communicates(trace)
    else:
        spans = trace.operators
        where = ~named(trace, trace.operators, _NO_WORK)
    return Spans(spans.start[where], spans.duration[where], spans.name[where])
