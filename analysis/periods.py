"""Finding the period of a program that does not mark its steps for the profiler.

In this order: a range of the program that repeats and holds nearly all launches, optimizer steps, fetches of the data
loader, calls of the model, a sequence of kernels that repeats. Whole periods only: what the trace's ends cut off
belongs to none.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from warpmeter.analysis.stacks import MODULE, modules
from warpmeter.analysis.trace import Booleans, Int32s, Int64s, Kind, Places, Spans, Trace

COVERED: Final = 0.9
"""Share of all launches that a repeated range must hold to be the step."""

ALIKE: Final = 0.9
"""Share of kernels whose name must equal that of the kernel one period later."""

UNEVEN: Final = 0.05
"""How much the distance between occurrences of a kernel may vary for it to mark a period."""

LONGEST_CANDIDATES: Final = 64
"""Periods that are held against the sequence, longest first."""

LIBRARY = re.compile(
    r"(nccl|gloo|mpi|ucc):|Optimizer\.|## Call Compiled|enumerate\(DataLoader\)|ProfilerStep|autograd::"
)
"""Ranges that libraries open: parts of a step, never the step."""

ALONE = re.compile(r"execute_context|execute_model|iteration|train_step|\bstep\b|\bbatch\b", re.IGNORECASE)
"""Ranges that are a step even when the trace holds one of them."""


@dataclass(frozen=True, eq=False)
class Found:
    """Steps found: what repeats (`label`), and their windows in order of time without overlap."""

    source: str
    label: str
    names: tuple[str, ...]
    numbers: tuple[int | None, ...]
    start: Int64s
    end: Int64s

    @classmethod
    def of(cls, source: str, label: str, trace: Trace, spans: Spans, numbers: Mapping[int, int] | None = None) -> Self:
        """The outermost of some ranges; an end that sticks out into the next one is cut there."""
        spans = spans.take(outermost(spans.start, spans.end))
        end = spans.end
        end[:-1] = np.minimum(end[:-1], spans.start[1:])
        names = tuple(trace.names[name] for name in spans.name.tolist())
        numbered = tuple((numbers or {}).get(name) for name in spans.name.tolist())
        return cls(source, label, names, numbered, spans.start, end)

    @classmethod
    def between(cls, source: str, label: str, marks: Int64s) -> Self:
        """Each step from one mark to the next."""
        names = tuple(f"step {i}" for i in range(len(marks) - 1))
        return cls(source, label, names, tuple(range(len(marks) - 1)), marks[:-1], marks[1:])


def outermost(start: Int64s, end: Int64s) -> Places:
    """Those of some ranges, in order of start, that do not begin within an earlier one that ends no sooner."""
    if not len(start):
        return np.empty(0, np.intp)
    reach = np.maximum.accumulate(end)
    inside = np.zeros(len(start), np.bool_)
    inside[1:] = (start[1:] < reach[:-1]) & (end[1:] <= reach[:-1])
    return np.flatnonzero(~inside)


def by_annotation(trace: Trace, launches: Int64s) -> Found | None:
    """The program's range that repeats and holds at least `COVERED` of all launches, else of all operators.

    Numbers in names do not count (`execute_context_1(888_…)` is one range with `execute_context_2(16_…)`). Of those
    that hold as much as the best to 1 %, the most numerous: the iteration and not the epoch.
    """
    instants = np.sort(launches) if len(launches) else trace.operators.start
    if not len(instants) or not len(trace.annotations):
        return None
    groups = [(label, spans) for label, spans in _labelled(trace) if _apart(spans)]
    shares = [_covered(spans, instants) for _, spans in groups]
    best = max(shares, default=0.0)
    fit = [i for i, share in enumerate(shares) if share >= max(COVERED, best - 0.01)]
    fit = [i for i in fit if len(groups[i][1]) > 1 or ALONE.search(groups[i][0])]
    if not fit:
        return None
    label, spans = groups[max(fit, key=lambda i: (len(groups[i][1]), int(groups[i][1].duration.sum())))]
    return Found.of("annotation", label, trace, spans)


def _labelled(trace: Trace) -> Iterator[tuple[str, Spans]]:
    """Outermost annotations by name without numbers and by thread."""
    spans = trace.annotations
    used = {name: trace.names[name] for name in np.unique(spans.name).tolist()}
    texts = {name: re.sub(r"\d+", "#", text) for name, text in used.items() if not LIBRARY.match(text)}
    ids = {text: i for i, text in enumerate(dict.fromkeys(texts.values()))}
    of_name = np.full(len(trace.names), -1, np.int64)
    for name, text in texts.items():
        of_name[name] = ids[text]
    keys = np.where(of_name[spans.name] < 0, -1, of_name[spans.name] * len(trace.threads) + spans.thread)
    order = np.argsort(keys, kind="stable")
    for where in np.split(order, np.flatnonzero(np.diff(keys[order])) + 1):
        if keys[where[0]] >= 0:
            group = spans.take(where)
            yield texts[int(group.name[0])], group.take(outermost(group.start, group.end))


def _apart(spans: Spans) -> bool:
    return bool((spans.end[:-1] <= spans.start[1:] + 1000).all())


def _covered(spans: Spans, instants: Int64s) -> float:
    inside = np.searchsorted(instants, spans.end, "right") - np.searchsorted(instants, spans.start, "left")
    return float(inside.sum() / len(instants))


def by_optimizer(trace: Trace) -> Found | None:
    """Between the ends of optimizer steps; those with no backward pass between them are one step's."""
    steps = _named(trace, "Optimizer.step#")
    if len(steps) < 2:
        return None
    backward = trace.operators.start[_starting(trace, trace.operators, "autograd::engine::evaluate_function")]
    ends = steps.end
    if len(backward):
        passed = np.searchsorted(backward, ends)
        ends = ends[np.append(passed[1:] > passed[:-1], True)]
    return Found.between("optimizer", trace.names[int(steps.name[0])], ends) if len(ends) > 1 else None


def by_loader(trace: Trace) -> Found | None:
    """Between the beginnings of the data loader's fetches."""
    fetches = _named(trace, "enumerate(DataLoader)")
    if len(fetches) < 2:
        return None
    return Found.between("loader", trace.names[int(fetches.name[0])], fetches.start)


def by_module(trace: Trace, launches: Int64s) -> Found | None:
    """Calls of the outermost `nn.Module` that takes most time: those alone where they hold all but a tenth of the
    launches (inference), else from one's beginning to the next one's.
    """
    frames = trace.frames.take(modules(trace))
    best = frames.take(slice(0, 0))
    for thread in np.unique(frames.thread).tolist():
        those = frames.take(frames.thread == thread)
        those = those.take(outermost(those.start, those.end))
        longest = np.argmax(np.bincount(those.name, weights=those.duration))
        calls = those.take(those.name == longest)
        best = calls if int(calls.duration.sum()) > int(best.duration.sum()) else best
    if len(best) < 2:
        return None
    label = trace.names[int(best.name[0])].removeprefix(MODULE)
    if len(launches) and _covered(best, np.sort(launches)) >= COVERED:
        return Found.of("module", label, trace, best)
    return Found.between("module", label, best.start)


def _named(trace: Trace, prefix: str) -> Spans:
    """Outermost annotations whose name begins so, of the thread that has most; else such operators."""
    for table in (trace.annotations, trace.operators):
        where = _starting(trace, table, prefix)
        if len(where):
            threads, counts = np.unique(table.thread[where], return_counts=True)
            spans = table.take(where[table.thread[where] == threads[np.argmax(counts)]])
            return spans.take(outermost(spans.start, spans.end))
    return trace.annotations.take(slice(0, 0))


def _starting(trace: Trace, spans: Spans, prefix: str) -> Places:
    names = [i for i, name in enumerate(trace.names) if name.startswith(prefix)]
    return np.flatnonzero(np.isin(spans.name, np.array(names, np.int32)))


def by_kernels(trace: Trace, at: Int64s, known: Booleans) -> Found | None:
    """A sequence of kernel names that repeats, on the device with most kernels, in order of launch.

    Layers of a model repeat, too: a period counts as a step only when nearly each holds a copy to or from the host or
    a call that waits for the device, as an iteration does and a layer does not. Each step begins at that kernel
    occurring once a period before which the host paused longest.
    """
    where = np.flatnonzero((trace.gpu.kind == Kind.KERNEL) & known)
    if len(where) < 8:
        return None
    devices, counts = np.unique(trace.gpu.device[where], return_counts=True)
    where = where[trace.gpu.device[where] == devices[np.argmax(counts)]]
    where = where[np.argsort(at[where], kind="stable")]
    sequence, times = _Sequence.of(trace.gpu.name[where]), at[where]
    for period in sequence.periods():
        marks = sequence.marks(times, period)
        if len(marks) > 1 and _touch_host(trace, at, known, times[marks]):
            return Found.between("kernels", trace.names[int(sequence.names[marks[0]])], times[marks])
    return None


@dataclass(frozen=True, eq=False)
class _Sequence:
    """Kernel names in order of launch. For each name: its places (`places` from `opens`, `count` of them), and the
    least and greatest distance from one to the next."""

    names: Int32s
    places: Places
    opens: Places
    count: Places
    low: Int64s
    high: Int64s

    @classmethod
    def of(cls, names: Int32s) -> Self:
        places = np.argsort(names, kind="stable")
        opens = np.flatnonzero(np.append(True, np.diff(names[places]) != 0))
        count = np.diff(np.append(opens, len(places)))
        low = np.append(np.diff(places), 0)
        high = low.copy()
        closes = opens + count - 1
        low[closes], high[closes] = np.iinfo(np.int64).max, 0
        return cls(names, places, opens, count, np.minimum.reduceat(low, opens), np.maximum.reduceat(high, opens))

    def periods(self) -> list[int]:
        """Distances after which the sequence repeats, longest first."""
        even = (self.count > 1) & (self.high - self.low <= np.maximum(2, UNEVEN * self.high))
        even &= self.count * self.high >= len(self.names) / 2
        lengths = np.unique(self.high[even])[::-1][:LONGEST_CANDIDATES].tolist()
        return [length for length in lengths if length > 3 and self._alike(length) >= ALIKE]

    def _alike(self, length: int) -> float:
        return float((self.names[length:] == self.names[:-length]).mean()) if length < len(self.names) else 0.0

    def marks(self, times: Int64s, period: int) -> Places:
        """Places of the kernel that comes once a period and before which the host paused longest."""
        room = max(2, UNEVEN * period)
        once = (self.count > 1) & (np.abs(self.low - period) <= room) & (np.abs(self.high - period) <= room)
        pause = np.diff(times, prepend=times[:1])
        longest, marks = -1.0, np.empty(0, np.intp)
        for opens, count in zip(self.opens[once].tolist(), self.count[once].tolist(), strict=True):
            places = self.places[opens : opens + count]
            if (paused := float(np.median(pause[places[1:]]))) > longest:
                longest, marks = paused, places
        return marks


def _touch_host(trace: Trace, at: Int64s, known: Booleans, marks: Int64s) -> bool:
    """Whether nearly all periods copy to or from the host, or wait for the device."""
    copies = np.flatnonzero([("HtoD" in name or "DtoH" in name) for name in trace.names])
    waits = np.flatnonzero(["Synchronize" in name for name in trace.names])
    instants = np.concatenate(
        [at[known & np.isin(trace.gpu.name, copies)], trace.calls.start[np.isin(trace.calls.name, waits)]]
    )
    held = np.diff(np.searchsorted(np.sort(instants), marks))
    return bool(len(held) and (held > 0).mean() >= COVERED)
