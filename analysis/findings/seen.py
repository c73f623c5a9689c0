"""What rules look at, and what they say."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from warpmeter.analysis.breakdown import Breakdown
from warpmeter.analysis.causes import Exposed, Gaps
from warpmeter.analysis.intervals import union
from warpmeter.analysis.kernels import Kernel
from warpmeter.analysis.launches import Launches
from warpmeter.analysis.links import Links
from warpmeter.analysis.memory import DeviceMemory
from warpmeter.analysis.roofline import Roofline
from warpmeter.analysis.steps import Spread, Step
from warpmeter.analysis.trace import Spans, Trace

EVIDENCE: Final = 5
"""Pieces of evidence that a finding names at most."""


@dataclass(frozen=True)
class Evidence:
    """What the finding rests on: a name out of the trace, or what was counted; `unit` is ns, count, ratio or B."""

    what: str
    value: float
    unit: str


@dataclass(frozen=True)
class Finding:
    """One sentence about a trace, its figure, and what to do. `cost_ns`: the time it concerns; it orders the list."""

    id: str
    text: str
    value: float
    unit: str
    cost_ns: int
    evidence: list[Evidence]
    advice: str


@dataclass(frozen=True, eq=False)
class Seen:
    """The figures of other parts. `exposed` are the collectives that nothing hid, the longest first."""

    trace: Trace
    links: Links
    totals: Breakdown
    gaps: Gaps
    exposed: Sequence[Exposed] = ()
    kernels: Sequence[Kernel] = ()
    launch: Launches | None = None
    steps: Sequence[Step] = ()
    spread: Sequence[Spread] = ()
    roofline: Roofline | None = None
    memory: Sequence[DeviceMemory] = ()

    @property
    def span(self) -> int:
        """Nanoseconds from the first GPU event's start to the last one's end; 0 without any."""
        return self.totals.span_ns or 0

    @property
    def compute(self) -> list[Kernel]:
        """Kernels that compute."""
        return [kernel for kernel in self.kernels if kernel.sort == "compute"]

    @property
    def compute_total(self) -> int:
        """Their durations together."""
        return sum(kernel.total_ns for kernel in self.compute)

    def covered(self, spans: Spans) -> int:
        """How much of the span they cover, once however many there are at a time."""
        if self.totals.start_ns is None:
            return 0
        return union(spans.start, spans.end).clip(self.totals.start_ns, self.totals.start_ns + self.span).length

    def share(self, ns: int) -> float:
        """Of the span; 0 where there is none."""
        return ns / self.span if self.span else 0.0


Rule = Callable[[Seen], Finding | None]
"""Looks at one thing; None where there is nothing to say."""


def ns(what: str, value: int) -> Evidence:
    """A time as evidence."""
    return Evidence(what, float(value), "ns")


def number(what: str, value: int) -> Evidence:
    """A count as evidence."""
    return Evidence(what, float(value), "count")


def most(pairs: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """The pairs with the greatest values, at most `EVIDENCE`; ties by name."""
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:EVIDENCE]


def by_time(kernels: Iterable[Kernel]) -> list[Evidence]:
    """Kernels as evidence, most time first."""
    return [ns(name, total) for name, total in most((each.short_name, each.total_ns) for each in kernels)]
