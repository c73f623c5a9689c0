"""Steps as windows of host time, and which GPU event belongs to which.

A GPU event belongs to the step in whose window its launching call began, however late the device ran it. Without a
call it goes by the operator that carries its external id; without that, by the event before it on the same stream
(streams run in order of launch): what runs before all events of known launch was launched before the recording began,
and is no step's. Where nothing on the stream is known, its own start decides.
"""

import re
from dataclasses import dataclass, field

import numpy as np

from warpmeter.analysis.links import Links
from warpmeter.analysis.periods import Found, by_annotation, by_kernels, by_loader, by_module, by_optimizer
from warpmeter.analysis.trace import NONE, Booleans, Int64s, Places, Trace

PROFILER_STEP = re.compile(r"ProfilerStep\s*#?(\d+)")


@dataclass(frozen=True, eq=False)
class Windows:
    """Steps in order of time, none over another; `end` is where the step's own range ends.

    `source`: "ProfilerStep" (the profiler's own ranges), "annotation" (a repeated range of the program), "optimizer"
    (between ends of optimizer steps), "loader" (between fetches of the data loader), "module" (calls of the model),
    "kernels" (a sequence of kernels that repeats), "" (no steps found). `label` is what repeats. `of_gpu` is the step
    of each GPU event, -1 for work launched outside of all.
    """

    source: str
    label: str
    names: tuple[str, ...]
    numbers: tuple[int | None, ...]
    start: Int64s
    end: Int64s
    of_gpu: Places = field(repr=False)

    def __len__(self) -> int:
        return len(self.start)


def windows(trace: Trace, links: Links) -> Windows:
    """The steps of a trace: as the profiler marked them, else as the program's own repetition shows them."""
    at, known = launched_at(trace, links)
    found = _profiler_steps(trace)
    if found is None:
        found = by_annotation(trace, at[known]) or by_optimizer(trace) or by_loader(trace)
        found = found or by_module(trace, at[known]) or by_kernels(trace, at, known)
    if found is None:
        nothing = np.empty(0, np.int64)
        return Windows("", "", (), (), nothing, nothing, np.full(len(trace.gpu), NONE, np.intp))
    belongs = _belongs(trace, found.start, found.end, at, known)
    return Windows(found.source, found.label, found.names, found.numbers, found.start, found.end, belongs)


def launched_at(trace: Trace, links: Links) -> tuple[Int64s, Booleans]:
    """When the host launched each GPU event, and whether that is known (the start of its call, else its operator)."""
    at = np.zeros(len(trace.gpu), np.int64)
    known = np.zeros(len(trace.gpu), np.bool_)
    for index, start in ((links.operator, trace.operators.start), (links.call, trace.calls.start)):
        there = index >= 0
        at[there] = start[index[there]]
        known |= there
    return at, known


def place(at: Int64s, start: Int64s, end: Int64s) -> Places:
    """The window in which each instant lies, -1 for none. Windows are in order and do not overlap."""
    if not len(start):
        return np.full(len(at), NONE, np.intp)
    index = np.searchsorted(start, at, "right") - 1
    outside = (index < 0) | (at > end[np.maximum(index, 0)])
    return np.where(outside, NONE, index)


def _belongs(trace: Trace, start: Int64s, end: Int64s, at: Int64s, known: Booleans) -> Places:
    step = place(np.where(known, at, trace.gpu.start), start, end)
    if known.all():
        return step
    before, any_known = _before(trace, known)
    guessed = ~known & any_known
    step[guessed] = np.where(before[guessed] >= 0, step[before[guessed]], NONE)
    return step


def _before(trace: Trace, known: Booleans) -> tuple[Places, Booleans]:
    """For each GPU event the last one before it on its stream whose launch is known (-1), and if any there is known."""
    gpu = trace.gpu
    order = np.lexsort((gpu.start, gpu.stream, gpu.device))
    device, stream, told = gpu.device[order], gpu.stream[order], known[order]
    opens = np.ones(len(order), np.bool_)
    opens[1:] = (device[1:] != device[:-1]) | (stream[1:] != stream[:-1])
    number = np.cumsum(opens) - 1
    latest = np.maximum.accumulate(np.where(told, np.arange(len(order)), NONE))
    before = np.full(len(order), NONE, np.intp)
    before[order] = np.where(latest >= np.flatnonzero(opens)[number], order[latest], NONE)
    any_known = np.empty(len(order), np.bool_)
    any_known[order] = np.logical_or.reduceat(told, np.flatnonzero(opens))[number]
    return before, any_known


def _profiler_steps(trace: Trace) -> Found | None:
    """`ProfilerStep#N` ranges: annotations, or operators as old profilers wrote them; of the busiest thread only."""
    numbers = {i: int(match[1]) for i, name in enumerate(trace.names) if (match := PROFILER_STEP.fullmatch(name))}
    if not numbers:
        return None
    for table in (trace.annotations, trace.operators):
        where = np.flatnonzero(np.isin(table.name, np.fromiter(numbers, np.int32)))
        if len(where):
            threads, counts = np.unique(table.thread[where], return_counts=True)
            where = where[table.thread[where] == threads[np.argmax(counts)]]
            return Found.of("ProfilerStep", "ProfilerStep", trace, table.take(where), numbers)
    return None
