"""What one rank's trace gives to the analysis of its job: small, so that the ranks of a large job fit together.

A row a collective and a figure a rank, no events. Times are nanoseconds of the rank's own clock since the epoch.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from warpmeter.analysis.intervals import Intervals, measure, union
from warpmeter.analysis.job.collectives import Group, Meeting, by_input, by_inputs, meeting
from warpmeter.analysis.links import Links
from warpmeter.analysis.names import is_communication
from warpmeter.analysis.trace import (
    NONE,
    Booleans,
    Collective,
    Columns,
    Inputs,
    Int32s,
    Int64s,
    Kind,
    Places,
    Spans,
    Trace,
)

HOST_COLLECTIVE: Final = re.compile(r"(gloo|mpi|ucc):")
"""Annotations of backends that communicate on the host; `nccl:` ranges only enqueue."""

INPUT: Final = re.compile(r"enumerate\(DataLoader\)|DataLoader.*__next__")
"""Ranges in which the program waits for its next batch."""

_NO_WORK: Final = re.compile(rf"c10d::|record_param_comms|{INPUT.pattern}")

STEP: Final = re.compile(r"ProfilerStep\s*#?(\d+)")

ACTIVITIES: Final = ("compute", "communication", "memory", "input", "host")
"""What a rank may have been at, each moment counted once, in this order: kernels that compute; else kernels of other
collectives; else copies and sets; else nothing on the GPU while the program waits for its next batch; else nothing."""


@dataclass(frozen=True, eq=False)
class Collectives(Columns):
    """A row a collective of this rank, in order of start. `what` indexes `RankExtract.meetings`.

    `since` is when the one before it in its lane ended (the rank was in step with the others then), -1 for the first:
    from there to `start` the rank was at `compute`, …, `host` nanoseconds, together the whole of it, and ran
    `kernels` kernels that compute.
    """

    end: Int64s
    what: Int32s
    since: Int64s
    compute: Int64s
    communication: Int64s
    memory: Int64s
    input: Int64s
    host: Int64s
    kernels: Int64s


@dataclass(frozen=True)
class Figures:
    """Of the whole trace. GPU figures are 0 on a rank without GPU events; `steps` is the number of profiler steps."""

    span_ns: int
    busy_ns: int
    compute_ns: int
    comm_ns: int
    exposed_comm_ns: int
    mem_ns: int
    idle_ns: int
    input_ns: int
    kernels: int
    steps: int
    step_ns: int | None
    """Mean length of its steps."""


@dataclass(frozen=True, eq=False)
class RankExtract:
    """One rank, as the job's analysis needs it."""

    rank: int
    file: str
    world_size: int | None
    host: str | None
    device: str
    local_devices: int
    groups: tuple[Group, ...]
    meetings: tuple[Meeting, ...]
    collectives: Collectives
    step_numbers: Int64s
    step_starts: Int64s
    kernels: dict[str, tuple[int, int]]
    """Count and total nanoseconds of each kernel that computes; without a GPU of operators."""
    figures: Figures
    resolution_ns: int
    """1,000 where all of the trace's times are whole microseconds, else 1."""


def extract(trace: Trace, links: Links, rank: int | None = None) -> RankExtract:
    """What the job's analysis needs of one rank; `rank` where the trace itself does not tell it."""
    known = trace.rank if rank is None or trace.distributed is not None else rank
    hosted = bool(_named(trace, trace.annotations, HOST_COLLECTIVE).any())
    busy = _Activities.of(trace, with_host=hosted)
    own = _Activities.of(trace, with_host=False) if hosted and len(trace.gpu) else busy
    rows, meetings = _rows(trace, links, known)
    numbers, starts, step_ns = _steps(trace)
    told = trace.distributed
    return RankExtract(
        rank=known,
        file=trace.file,
        world_size=(told.world_size or None) if told else None,
        host=_host(trace),
        device=_device(trace),
        local_devices=len(trace.devices),
        groups=_groups(trace),
        meetings=meetings,
        collectives=busy.filled(trace, rows, meetings),
        step_numbers=numbers,
        step_starts=starts + trace.epoch_ns,
        kernels=_totals(_computing(trace), trace.names),
        figures=own.figures(trace, len(numbers), step_ns),
        resolution_ns=_resolution(trace),
    )


def communicates(trace: Trace) -> Booleans:
    """Which GPU events communicate."""
    names = np.array([is_communication(name) for name in trace.names], np.bool_)
    return (trace.gpu.kind == Kind.KERNEL) & names[trace.gpu.name] if len(names) else np.zeros(len(trace.gpu), np.bool_)


def _named(trace: Trace, spans: Spans, pattern: re.Pattern[str]) -> Booleans:
    names = np.array([bool(pattern.match(name)) for name in trace.names], np.bool_)
    return names[spans.name] if len(spans) else np.zeros(0, np.bool_)


def _union(spans: Spans, where: Booleans) -> Intervals:
    start = spans.start[where]
    return union(start, start + spans.duration[where])


@dataclass(frozen=True, eq=False)
class _Activities:
    """Sets of moments, disjoint but for `comm_all`, on the trace's own time."""

    compute: Intervals
    comm_all: Intervals
    communication: Intervals
    memory: Intervals
    busy: Intervals
    input: Intervals

    @classmethod
    def of(cls, trace: Trace, *, with_host: bool) -> "_Activities":
        """`with_host`: collectives that the host carries out are communication too."""
        comm = communicates(trace)
        kernels = trace.gpu.kind == Kind.KERNEL
        comm_all = _union(trace.gpu, comm)
        if with_host:
            comm_all |= _union(trace.annotations, _named(trace, trace.annotations, HOST_COLLECTIVE))
        computing = _computing(trace)
        compute = union(computing.start, computing.end)
        copies = _union(trace.gpu, ~kernels)
        covered = compute | comm_all
        waits = _union(trace.annotations, _named(trace, trace.annotations, INPUT))
        waits |= _union(trace.operators, _named(trace, trace.operators, INPUT))
        busy = covered | copies
        return cls(compute, comm_all, comm_all - compute, copies - covered, busy, waits - busy)

    def filled(self, trace: Trace, rows: "_Rows", meetings: Sequence[Meeting]) -> Collectives:
        """The rows, with what the rank did before each of them."""
        since = _since(rows, meetings)
        known = since != NONE
        begin = np.where(known, since, rows.start)
        length = rows.start - begin
        starts = _computing(trace).start
        parts = {
            name: measure(getattr(self, name), begin, rows.start)
            for name in ("compute", "communication", "memory", "input")
        }
        return Collectives(
            start=rows.start + trace.epoch_ns,
            end=rows.end + trace.epoch_ns,
            what=rows.what,
            since=np.where(known, since + trace.epoch_ns, NONE),
            host=length - sum(parts.values()),
            kernels=np.searchsorted(starts, rows.start) - np.searchsorted(starts, begin),
            **parts,
        )

    def figures(self, trace: Trace, steps: int, step_ns: int | None) -> Figures:
        """Lengths over the whole trace."""
        span = int(self.busy.end[-1] - self.busy.start[0]) if len(self.busy) else 0
        within = self.input.clip(int(self.busy.start[0]), int(self.busy.end[-1])) if len(self.busy) else self.input
        return Figures(
            span_ns=span,
            busy_ns=self.busy.length,
            compute_ns=self.compute.length,
            comm_ns=self.comm_all.length,
            exposed_comm_ns=self.communication.length,
            mem_ns=_union(trace.gpu, trace.gpu.kind != Kind.KERNEL).length,
            idle_ns=span - self.busy.length,
            input_ns=within.length,
            kernels=int((trace.gpu.kind == Kind.KERNEL).sum()),
            steps=steps,
            step_ns=step_ns,
        )


def _computing(trace: Trace) -> Spans:
    """Kernels that compute; without a GPU operators that neither communicate nor fetch input."""
    if len(trace.gpu):
        spans: Spans = trace.gpu
        where = (trace.gpu.kind == Kind.KERNEL) & ~communicates(trace)
    else:
        spans = trace.operators
        where = ~_named(trace, trace.operators, _NO_WORK)
    return Spans(spans.start[where], spans.duration[where], spans.name[where])


@dataclass(frozen=True, eq=False)
class _Rows:
    start: Int64s
    end: Int64s
    what: Int32s


def _rows(trace: Trace, links: Links, rank: int) -> tuple[_Rows, tuple[Meeting, ...]]:
    """The rank's collectives in order of start, and what they are."""
    on_gpu, on_host = _gpu_meetings(trace, links, rank), _host_meetings(trace)
    table: dict[Meeting, int] = {}
    what = [table.setdefault(each, len(table)) for each in (*on_gpu[1], *on_host[1])]
    gpu, host = trace.gpu.take(on_gpu[0]), trace.annotations.take(on_host[0])
    start, end = np.concatenate([gpu.start, host.start]), np.concatenate([gpu.end, host.end])
    of_gpu, of_host = on_gpu[2], on_host[2] + len(on_gpu[1])
    codes = np.array(what, np.int32)[np.concatenate([of_gpu, of_host])] if what else np.zeros(0, np.int32)
    order = np.argsort(start, kind="stable")
    return _Rows(start[order], end[order], codes[order]), tuple(table)


Found = tuple[Places, list[Meeting], Places]
"""Which events, the distinct things they may be, and which of these each is."""


def _gpu_meetings(trace: Trace, links: Links, rank: int) -> Found:
    """Collectives on the GPU: what the kernel says of itself, else what the operator that launched it does."""
    places = np.flatnonzero(communicates(trace))
    gpu = trace.gpu.take(places)
    operator = links.operator[places]
    said = _said(trace, links, gpu.collective, operator)
    outer = _outer(trace, links, operator)
    inputs = np.where(outer >= 0, trace.operators.inputs[outer], NONE) if len(trace.operators) else outer
    around = np.where(outer >= 0, trace.operators.name[outer], NONE) if len(trace.operators) else outer
    silent = np.where(said < 0, np.stack([around, gpu.stream, inputs]), 0)
    keys = np.stack([gpu.name, said, *silent], axis=1).astype(np.int64)
    distinct, which = np.unique(keys, axis=0, return_inverse=True)
    groups = {group.name: group for group in _groups(trace)}
    found = [_of_kernel(trace, tuple(row), groups, rank) for row in distinct.tolist()]
    return places, found, which.reshape(-1)


def _said(trace: Trace, links: Links, own: Int32s, operator: Places) -> Int64s:
    """The index of what is told of each collective, -1 where nothing is: by itself, its operator, or the one around."""
    said = own.astype(np.int64)
    for _ in range(2):
        lacks = np.flatnonzero((said < 0) & (operator >= 0))
        said[lacks] = trace.operators.collective[operator[lacks]]
        operator = (
            np.where(operator >= 0, links.operator_parent[np.maximum(operator, 0)], NONE)
            if len(trace.operators)
            else operator
        )
    return said


def _outer(trace: Trace, links: Links, operator: Places) -> Places:
    """The operator that launched each, past `record_param_comms` to the one around it; -1 for none."""
    there = np.flatnonzero(operator >= 0)
    outer = operator.copy()
    inner = np.array([text == "record_param_comms" for text in trace.names], np.bool_)
    above = links.operator_parent[operator[there]]
    past = inner[trace.operators.name[operator[there]]] & (above >= 0)
    outer[there[past]] = above[past]
    return outer


def _of_kernel(trace: Trace, row: tuple[int, ...], groups: dict[str, Group], rank: int) -> Meeting:
    kernel, said, outer, stream, inputs = row
    if said >= 0:
        told = trace.collectives[said]
        return meeting(told, _group(told, groups), trace.names[kernel], rank)
    name = trace.names[outer] if outer >= 0 and trace.names[outer].startswith("c10d::") else ""
    told = by_inputs(name, trace.inputs[inputs] if inputs >= 0 else Inputs())
    return meeting(told, Group("", description=f"stream {stream}"), trace.names[kernel], rank)


def _group(told: Collective, groups: dict[str, Group]) -> Group:
    """The group that a collective names, with the ranks that `distributedInfo` lists where it cuts them short."""
    listed = groups.get(told.group_name)
    if listed is not None and listed.size in (0, told.group_size, len(listed.ranks)):
        return listed
    ranks = told.group_ranks if len(told.group_ranks) == told.group_size else ()
    return Group(told.group_name, tuple(sorted(ranks)), told.group_size, told.group_description)


def _groups(trace: Trace) -> tuple[Group, ...]:
    if trace.distributed is None:
        return ()
    return tuple(
        Group(each.name, tuple(sorted(each.ranks)), each.size or len(each.ranks), each.description)
        for each in trace.distributed.groups
    )


def _host_meetings(trace: Trace) -> Found:
    """Collectives of a backend on the host, which tells their inputs at most: not its group."""
    places = np.flatnonzero(_named(trace, trace.annotations, HOST_COLLECTIVE))
    keys = np.stack([trace.annotations.name[places], trace.annotations.inputs[places]], axis=1)
    distinct, which = np.unique(keys, axis=0, return_inverse=True)
    return places, [_on_host(trace, *row) for row in distinct.tolist()], which.reshape(-1)


def _on_host(trace: Trace, name: int, inputs: int) -> Meeting:
    backend, _, collective = trace.names[name].partition(":")
    told = by_input(collective, trace.inputs[inputs] if inputs >= 0 else Inputs())
    return meeting(told, Group("", description=backend), "", NONE)


def _since(rows: _Rows, meetings: Sequence[Meeting]) -> Int64s:
    """When the collective before each one in its lane ended, at most the one's own start; -1 for the first."""
    since = np.full(len(rows.start), NONE, np.int64)
    lanes: dict[object, int] = {}
    lane = np.array([lanes.setdefault(each.lane, len(lanes)) for each in meetings], np.int64)
    if not len(since):
        return since
    of_row = lane[rows.what]
    order = np.argsort(of_row, kind="stable")
    for block in np.split(order, np.flatnonzero(np.diff(of_row[order])) + 1):
        ended = np.maximum.accumulate(rows.end[block])[:-1]
        since[block[1:]] = np.minimum(ended, rows.start[block[1:]])
    return since


def _steps(trace: Trace) -> tuple[Int64s, Int64s, int | None]:
    """Numbers and starts of the profiler's steps, and their mean length."""
    numbered = {i: int(found[1]) for i, name in enumerate(trace.names) if (found := STEP.match(name))}
    steps = trace.annotations.take(np.isin(trace.annotations.name, np.array(list(numbered), np.int32)))
    numbers = np.array([numbered[name] for name in steps.name.tolist()], np.int64)
    numbers, first = np.unique(numbers, return_index=True)
    mean = round(int(steps.duration[first].sum()) / len(first)) if len(first) else None
    return numbers, steps.start[first], mean


def _totals(computing: Spans, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    counts = np.bincount(computing.name)
    totals = np.zeros(len(counts), np.int64)
    np.add.at(totals, computing.name, computing.duration)
    found = np.flatnonzero(counts)
    each = zip(found.tolist(), counts[found].tolist(), totals[found].tolist(), strict=True)
    return {names[place]: (count, total) for place, count, total in each}


def _host(trace: Trace) -> str | None:
    inner = trace.metadata.get("metadata")
    for values in (trace.metadata, inner if isinstance(inner, dict) else {}):
        for key in ("host_name", "hostname"):
            if values.get(key):
                return str(values[key])
    return None


def _device(trace: Trace) -> str:
    names = {device.id: device.name for device in trace.devices}
    used = int(np.bincount(trace.gpu.device[trace.gpu.device >= 0]).argmax()) if (trace.gpu.device >= 0).any() else 0
    return names.get(used) or next(iter(names.values()), "")


def _resolution(trace: Trace) -> int:
    """Kineto wrote whole microseconds until 2024."""
    for table in (trace.gpu, trace.annotations, trace.operators):
        if len(table):
            return 1 if (table.start % 1000).any() or (table.duration % 1000).any() else 1000
    return 1
