"""Each step's figures, and how much they differ from step to step."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from warpmeter.analysis.breakdown import MAIN, Breakdown, breakdowns, sorts
from warpmeter.analysis.intervals import measure, union
from warpmeter.analysis.links import Links
from warpmeter.analysis.trace import GpuEvents, Int8s, Int64s, Spans, Trace
from warpmeter.analysis.windows import Windows

LOADER: Final = "enumerate(DataLoader)"
SYNCHRONIZE: Final = "Synchronize"


@dataclass(frozen=True)
class Step:
    """One step. Its window is the host's, `start_ns` and `duration_ns`; `period_ns` runs to the next step's start.

    `work`: what the GPU did for it, whenever: all events that it launched, from the first start to the last end (span,
    idle and overlaps among these alone). `during`: what the GPU did in its window, for whichever step. `lead_ns`:
    from its start to the first start of its GPU work; `tail_ns`: from its end to the end of that work, 0 when that was
    earlier. `earlier_ns`: of the window's GPU time that in which none of its own work ran. `operators` and `launches`
    began in the window. `wait_ns`: time in which some thread waited in a call for the device; `input_ns`: in which one
    fetched from the data loader. None where there is no GPU work, or nothing to tell it by.
    """

    name: str
    number: int | None
    start_ns: int
    duration_ns: int
    period_ns: int | None
    work: Breakdown
    during: Breakdown
    lead_ns: int | None
    tail_ns: int | None
    earlier_ns: int | None
    operators: int
    launches: int
    wait_ns: int | None
    input_ns: int | None


@dataclass(frozen=True)
class Spread:
    """How one figure differs between steps that have it: `p50` by nearest rank, `deviation` of the population.

    `most` and `least` name the steps with the greatest and the least value, the first such.
    """

    figure: str
    steps: int
    mean: float
    deviation: float
    min: int
    p50: int
    max: int
    least: str
    most: str


@dataclass(frozen=True)
class StepReport:
    """All steps. `source` and `label` say how they were found (see `Windows`); without steps both are empty.

    `outside_events` and `outside_ns`: GPU events launched outside of all steps (also before the recording began), and
    the sum of their durations.
    """

    source: str
    label: str
    steps: list[Step]
    spread: list[Spread]
    outside_events: int
    outside_ns: int


def steps(trace: Trace, links: Links, found: Windows) -> StepReport:
    """Figures of every step, n log n in events and steps together."""
    outside = found.of_gpu < 0
    each = _steps(trace, links, found) if len(found) else []
    return StepReport(
        found.source,
        found.label,
        each,
        list(_spreads(each)),
        int(outside.sum()) if len(found) else 0,
        int(trace.gpu.duration[outside].sum()) if len(found) else 0,
    )


def _steps(trace: Trace, links: Links, found: Windows) -> list[Step]:
    sort = sorts(trace.gpu, trace.names)
    own = _Own.of(trace.gpu, sort, found)
    work, in_window = own.breakdowns(), own.in_window(found)
    during = _during(trace.gpu, sort, found)
    launching = np.sort(trace.calls.start[np.unique(links.call[links.call >= 0])])
    operators, launches = _begun(trace.operators.start, found), _begun(launching, found)
    waits, inputs = _inside(_named(trace, trace.calls, SYNCHRONIZE), found), _inside(_fetches(trace), found)
    periods = [*np.diff(found.start).tolist(), None]
    return [
        Step(
            name=found.names[i],
            number=found.numbers[i],
            start_ns=start,
            duration_ns=end - start,
            period_ns=periods[i],
            work=work[i],
            during=during[i],
            lead_ns=_minus(work[i].start_ns, start),
            tail_ns=_tail(work[i], end),
            earlier_ns=_minus(during[i].busy_ns, in_window[i]),
            operators=operators[i],
            launches=launches[i],
            wait_ns=waits[i],
            input_ns=inputs[i],
        )
        for i, (start, end) in enumerate(zip(found.start.tolist(), found.end.tolist(), strict=True))
    ]


@dataclass(frozen=True, eq=False)
class _Own:
    """GPU events that belong to steps, each step's moved on to a stretch of its own, so that one pass measures all.

    `shift` is what was added to a step's times, `low` to `high` its stretch; a step without events has none.
    """

    events: GpuEvents
    sort: Int8s
    shift: Int64s
    low: Int64s
    high: Int64s

    @classmethod
    def of(cls, gpu: GpuEvents, sort: Int8s, found: Windows) -> "_Own":
        order = np.argsort(found.of_gpu, kind="stable")
        order = order[np.searchsorted(found.of_gpu[order], 0) :]
        step, events = found.of_gpu[order], gpu.take(order)
        first, last = np.zeros(len(found), np.int64), np.zeros(len(found), np.int64)
        opens = np.flatnonzero(np.diff(step, prepend=-1))
        first[step[opens]] = events.start[opens]
        last[step[opens]] = np.maximum.reduceat(events.end, opens) if len(opens) else 0
        length = last - first
        low = np.cumsum(length + 2) - (length + 2)
        shift = low - first
        return cls(replace(events, start=events.start + shift[step]), sort[order], shift, low, low + length)

    def breakdowns(self) -> list[Breakdown]:
        """Each step's own work. Windows are 1 ns longer than the work, so that an event without length ends in it."""
        found = breakdowns(self.events, self.sort, self.low, self.high + 1)
        return [_exact(each, int(shift)) for each, shift in zip(found, self.shift, strict=True)]

    def in_window(self, found: Windows) -> list[int]:
        """How long each step's own work ran within its window."""
        busy = union(self.events.start, self.events.end)
        low = np.clip(found.start + self.shift, self.low, self.high)
        high = np.clip(found.end + self.shift, self.low, self.high)
        inside: list[int] = measure(busy, low, high).tolist()
        return inside


def _exact(found: Breakdown, shift: int) -> Breakdown:
    if not found.gpu_events or found.start_ns is None or found.span_ns is None or found.idle_ns is None:
        return Breakdown(0, 0, 0, 0, 0)
    return replace(found, start_ns=found.start_ns - shift, span_ns=found.span_ns - 1, idle_ns=found.idle_ns - 1)


def _during(gpu: GpuEvents, sort: Int8s, found: Windows) -> list[Breakdown]:
    if not len(gpu):
        return [Breakdown(0, 0, 0, 0, 0)] * len(found)
    return breakdowns(gpu, sort, found.start, found.end)


def _minus(figure: int | None, other: int) -> int | None:
    return None if figure is None else figure - other


def _tail(work: Breakdown, end: int) -> int | None:
    if work.start_ns is None or work.span_ns is None:
        return None
    return max(0, work.start_ns + work.span_ns - end)


def _begun(starts: Int64s, found: Windows) -> list[int]:
    counts: list[int] = (np.searchsorted(starts, found.end) - np.searchsorted(starts, found.start)).tolist()
    return counts


def _inside(spans: Spans | None, found: Windows) -> list[int | None]:
    if spans is None:
        return [None] * len(found)
    inside: list[int | None] = measure(union(spans.start, spans.end), found.start, found.end).tolist()
    return inside


def _named(trace: Trace, spans: Spans, word: str) -> Spans | None:
    """Those with the word in their names; None where there are no such spans at all."""
    names = np.array([i for i, name in enumerate(trace.names) if word in name], np.int32)
    return spans.take(np.isin(spans.name, names)) if len(spans) else None


def _fetches(trace: Trace) -> Spans | None:
    """Fetches of the data loader, annotations or operators by the profiler's age; None where there are none."""
    for table in (trace.annotations, trace.operators):
        fetches = _named(trace, table, LOADER)
        if fetches is not None and len(fetches):
            return fetches
    return None


def _spreads(each: list[Step]) -> Iterator[Spread]:
    for figure in ("duration_ns", "period_ns", "lead_ns", "tail_ns", "operators", "launches", "wait_ns", "input_ns"):
        yield from _spread(each, figure, [getattr(step, figure) for step in each])
    for part in ("work", "during"):
        for figure in MAIN:
            yield from _spread(each, f"{part}.{figure}", [getattr(getattr(step, part), figure) for step in each])


def _spread(each: list[Step], figure: str, values: list[int | None]) -> Iterator[Spread]:
    known = [(value, step.name) for value, step in zip(values, each, strict=True) if value is not None]
    if not known:
        return
    sample = np.array([value for value, _ in known], np.int64)
    yield Spread(
        figure=figure,
        steps=len(known),
        mean=float(sample.mean()),
        deviation=float(sample.std()),
        min=int(sample.min()),
        p50=int(np.sort(sample)[(len(sample) - 1) // 2]),
        max=int(sample.max()),
        least=known[int(sample.argmin())][1],
        most=known[int(sample.argmax())][1],
    )
