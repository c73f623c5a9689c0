"""What one read of one GPU gathers, and which columns have no value."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from warpmeter.producers.gpu.nvml import Problem

Gauge = tuple[str, float, float]
"""A column, the factor to its stored value, NVML's number."""


@dataclass
class Found:
    """Filled by the parts of a GPU's reader during one read.

    `unsupported` (for ever, until the GPU is found anew) and `failing` (as of its last read) outlive the read.
    `counters`: column to factor and count, to become a rate. `sources`: which source gives a column; another dict at
    every change, so that who holds one can tell.
    """

    gauges: list[Gauge] = field(default_factory=list)
    counters: dict[str, tuple[float, float]] = field(default_factory=dict)
    unsupported: dict[str, Problem] = field(default_factory=dict)
    failing: dict[str, Problem] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def begin(self) -> None:
        """Nothing of an earlier read is left to be published again."""
        self.gauges, self.counters = [], {}

    def took(self, column: str, factor: float, number: float, source: str = "nvml") -> None:
        """A value of now."""
        self.gauges.append((column, factor, number))
        self._good(column, source)

    def counted(self, column: str, factor: float, count: float) -> None:
        """A counter's state now."""
        self.counters[column] = (factor, count)
        self._good(column, "nvml")

    def _good(self, column: str, source: str) -> None:
        if self.failing:
            self.failing.pop(column, None)
        if self.sources.get(column) != source:
            self.sources = {**self.sources, column: source}

    def failed(self, columns: Iterable[str], why: Problem) -> None:
        """Columns without a value, for ever or for now."""
        for column in columns:
            self.failing.pop(column, None)
            (self.unsupported if why.state == "unsupported" else self.failing)[column] = why
