"""Sets of moments as half-open intervals of integer nanoseconds: `[start, end)`, in order, apart from each other.

Everything that is said of time on the GPU is a length of such sets. Intervals without length hold nothing and are
dropped; intervals that touch are one. All operations are linear in the intervals, after one sort for `union`.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from warpmeter.analysis.trace import Int64s


@dataclass(frozen=True, eq=False)
class Intervals:
    """Sorted, disjoint, not touching, none empty. Made by `union`; the operators keep it so."""

    start: Int64s
    end: Int64s

    def __len__(self) -> int:
        return len(self.start)

    @property
    def length(self) -> int:
        """How long they are together."""
        return int((self.end - self.start).sum())

    @classmethod
    def none(cls) -> Self:
        """The empty set."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64))

    def __or__(self, other: "Intervals") -> "Intervals":
        return union(np.concatenate([self.start, other.start]), np.concatenate([self.end, other.end]))

    def __and__(self, other: "Intervals") -> "Intervals":
        """Both at once: from each pair that meets, the later start to the earlier end."""
        first = np.searchsorted(other.end, self.start, side="right")
        after = np.searchsorted(other.start, self.end, side="left")
        count = np.maximum(after - first, 0)
        mine = np.repeat(np.arange(len(self)), count)
        theirs = np.arange(len(mine)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
        return Intervals(
            np.maximum(self.start[mine], other.start[theirs]), np.minimum(self.end[mine], other.end[theirs])
        )

    def __sub__(self, other: "Intervals") -> "Intervals":
        """In this one and not in the other."""
        if not len(self):
            return self
        return self & other.gaps(int(self.start[0]), int(self.end[-1]))

    def clip(self, start: int, end: int) -> "Intervals":
        """What lies in the window."""
        return self & union(np.array([start], np.int64), np.array([end], np.int64))

    def gaps(self, start: int, end: int) -> "Intervals":
        """What is left of the window."""
        if end <= start:
            return Intervals.none()
        inside = self.clip(start, end)
        edges = np.concatenate([[start], inside.end]), np.concatenate([inside.start, [end]])
        return _without_empty(edges[0].astype(np.int64), edges[1].astype(np.int64))

    def before(self, at: Int64s) -> Int64s:
        """How much of the set lies before each moment."""
        if not len(self):
            return np.zeros(len(at), np.int64)
        whole = np.concatenate([[0], np.cumsum(self.end - self.start)])
        place = np.searchsorted(self.start, at, side="right")
        last = np.maximum(place - 1, 0)
        open_ = np.maximum(self.end[last] - np.maximum(at, self.start[last]), 0)
        return np.where(place > 0, whole[place] - open_, 0).astype(np.int64)


def union(start: Int64s, end: Int64s) -> Intervals:
    """The set that any intervals cover, in whatever order and however they overlap."""
    holds = end > start
    if not holds.all():
        start, end = start[holds], end[holds]
    if not len(start):
        return Intervals.none()
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    opens = np.concatenate([[True], start[1:] > reach[:-1]])
    closes = np.concatenate([opens[1:], [True]])
    return Intervals(start[opens], reach[closes])


def measure(covered: Intervals, starts: Int64s, ends: Int64s) -> Int64s:
    """How much of the set lies in each of many windows (they may overlap; one that ends before it starts has 0)."""
    return covered.before(np.maximum(ends, starts)) - covered.before(starts)


def _without_empty(start: Int64s, end: Int64s) -> Intervals:
    holds = end > start
    return Intervals(start[holds], end[holds])
