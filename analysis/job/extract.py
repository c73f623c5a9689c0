"""What one rank's trace gives to the analysis of its job: small, so that the ranks of a large job fit together.

A row a collective and a figure a rank, no events. Times are nanoseconds of the rank's own clock since the epoch.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from warpmeter.analysis.intervals import measure
from warpmeter.analysis.job.activities import Activities, computing_spans, union_of
from warpmeter.analysis.job.collectives import Group, Meeting
from warpmeter.analysis.job.told import HOST_COLLECTIVE, Rows, groups_of, named, rows_of
from warpmeter.analysis.links import Links
from warpmeter.analysis.trace import NONE, Columns, Int32s, Int64s, Kind, Spans, Trace

STEP: Final = re.compile(r"ProfilerStep\s*#?(\d+)")


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
    hosted = bool(named(trace, trace.annotations, HOST_COLLECTIVE).any())
    busy = Activities.of(trace, with_host=hosted)
    own = Activities.of(trace, with_host=False) if hosted and len(trace.gpu) else busy
    rows, meetings = rows_of(trace, links, known)
    numbers, starts, step_ns = _steps(trace)
    told = trace.distributed
    return RankExtract(
        rank=known,
        file=trace.file,
        world_size=(told.world_size or None) if told else None,
        host=_host(trace),
        device=_device(trace),
        local_devices=len(trace.devices),
        groups=groups_of(trace),
        meetings=meetings,
        collectives=_filled(busy, trace, rows, meetings),
        step_numbers=numbers,
        step_starts=starts + trace.epoch_ns,
        kernels=_totals(computing_spans(trace), trace.names),
        figures=_figures(own, trace, len(numbers), step_ns),
        resolution_ns=_resolution(trace),
    )


def _filled(busy: Activities, trace: Trace, rows: Rows, meetings: Sequence[Meeting]) -> Collectives:
    """The rows, with what the rank did before each of them."""
    since = _since(rows, meetings)
    known = since != NONE
    begin = np.where(known, since, rows.start)
    length = rows.start - begin
    starts = computing_spans(trace).start
    parts = {
        name: measure(getattr(busy, name), begin, rows.start)
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


def _figures(own: Activities, trace: Trace, steps: int, step_ns: int | None) -> Figures:
    """Lengths over the whole trace."""
    span = int(own.busy.end[-1] - own.busy.start[0]) if len(own.busy) else 0
    within = own.input.clip(int(own.busy.start[0]), int(own.busy.end[-1])) if len(own.busy) else own.input
    return Figures(
        span_ns=span,
        busy_ns=own.busy.length,
        compute_ns=own.compute.length,
        comm_ns=own.comm_all.length,
        exposed_comm_ns=own.communication.length,
        mem_ns=union_of(trace.gpu, trace.gpu.kind != Kind.KERNEL).length,
        idle_ns=span - own.busy.length,
        input_ns=within.length,
        kernels=int((trace.gpu.kind == Kind.KERNEL).sum()),
        steps=steps,
        step_ns=step_ns,
    )


def _since(rows: Rows, meetings: Sequence[Meeting]) -> Int64s:
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
