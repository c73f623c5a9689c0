"""Which span lies in which: the calling tree of each host thread, from starts and ends alone.

Profilers round starts and durations apart, so that a child may end some nanoseconds (old traces: a microsecond) after
its parent. It still is that parent's child, and ends for this purpose where the parent does; what begins after the
parent's end is outside of both. Equal spans nest in the order of the columns. A span without length holds nothing.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from warpmeter.analysis.trace import NONE, Booleans, Int32s, Int64s, Places

_ROOM: Final = 1 << 62
_TOGETHER: Final = 32


@dataclass(frozen=True, eq=False)
class Nesting:
    """The tree: `parent` (-1: outermost) and `depth` (0: outermost) of each span, by its place in the columns."""

    parent: Places
    depth: Int32s
    end: Int64s
    """Where each span ends within its parent: its own end, or the parent's where it sticks out."""
    thread: Int32s
    start: Int64s
    _order: Places
    _line: "_Line"

    def innermost(self, thread: Int32s, at: Int64s) -> Places:
        """The innermost span open at each moment on each thread (begun at or before, not ended), -1 where none."""
        keys = self._line.keys(thread, at)
        where = np.searchsorted(self._line.starts, keys, side="right") - 1
        found = np.where(where >= 0, self._order[np.maximum(where, 0)], NONE) if len(self._order) else where
        open_ = np.flatnonzero(found >= 0)
        found[open_[self.thread[found[open_]] != thread[open_]]] = NONE
        while len(open_ := open_[found[open_] >= 0]):
            open_ = open_[self.end[found[open_]] <= at[open_]]
            found[open_] = self.parent[found[open_]]
        return found


@dataclass(frozen=True, eq=False)
class _Line:
    """All threads laid behind each other on one line, so that one search serves them all."""

    first: int
    stretch: int
    ticks: Int64s | None
    starts: Int64s

    def keys(self, thread: Int32s, at: Int64s) -> Int64s:
        """Where a thread's moment lies on the line."""
        if self.ticks is not None:  # times so far apart that threads do not fit behind each other: their ranks do
            moment = np.searchsorted(self.ticks, at, side="right").astype(np.int64)
        else:
            moment = np.clip(at - (self.first - 1), 0, self.stretch - 1)
        return thread.astype(np.int64) * self.stretch + moment


def nest(thread: Int32s, start: Int64s, end: Int64s) -> Nesting:
    """The tree of spans that stand in order of start (ties: the longer first), n log n."""
    order = in_order(thread)
    line = _line(thread, start, end)
    starts = line.keys(thread[order], start[order])
    ends = line.keys(thread[order], end[order])
    parent, depth = _tree(starts, ends)
    out = (ends > ends[parent]) & (parent >= 0)
    if out.any():
        _clip(starts, ends, out)
        parent, depth = _tree(starts, ends)
    up = np.full(len(order), NONE, np.intp)
    down = np.zeros(len(order), np.int32)
    up[order] = np.where(parent >= 0, order[np.maximum(parent, 0)], NONE)
    down[order] = depth
    line = _Line(line.first, line.stretch, line.ticks, starts)
    return Nesting(up, down, _inside(up, down, end), thread, start, order, line)


def _line(thread: Int32s, start: Int64s, end: Int64s) -> _Line:
    empty = np.zeros(0, np.int64)
    if not len(start):
        return _Line(0, 1, None, empty)
    first = int(start.min())
    stretch = int(end.max()) - first + 3
    if stretch * (int(thread.max()) + 2) < _ROOM:
        return _Line(first, stretch, None, empty)
    ticks = np.unique(np.concatenate([start, end]))
    return _Line(0, len(ticks) + 2, ticks, empty)


def _tree(start: Int64s, end: Int64s) -> tuple[Places, Int32s]:
    """Parents and depths of spans that nest: the depth is how many began before and have not ended."""
    holds = end > start
    begun: Int64s = np.cumsum(holds) - holds
    depth = (begun - np.searchsorted(np.sort(end[holds]), start, side="right")).astype(np.int32)
    parent = np.full(len(start), NONE, np.intp)
    places = levels(depth)
    for above, here in pairwise(places):
        above = above[holds[above]]
        parent[here] = above[np.searchsorted(above, here) - 1]
    return parent, depth


def levels(depth: Int32s) -> list[Places]:
    """The places of each depth, in order."""
    order = in_order(depth)
    return np.split(order, np.cumsum(np.bincount(depth))[:-1]) if len(depth) else []


def in_order(small: Int32s) -> Places:
    """The stable order of small numbers; ten times faster than another where they fit 16 bits."""
    fits = not len(small) or (small.min() >= -(1 << 15) and small.max() < 1 << 15)
    return np.argsort(small.astype(np.int16) if fits else small, kind="stable")


def _inside(parent: Places, depth: Int32s, end: Int64s) -> Int64s:
    """Ends cut to the parent's, from the outermost inwards."""
    cut = end.copy()
    for here in levels(depth)[1:]:
        cut[here] = np.minimum(cut[here], cut[parent[here]])
    return cut


def _clip(start: Int64s, end: Int64s, out: Booleans) -> None:
    """Cut each end to its parent's, in place: only groups of spans where one sticks out are walked, level by level.

    `out` are those that end after what `_tree` takes for their parent. Of a group the first of them has the right
    parent, the others need not; where there are none, all spans nest and the tree is right.
    """
    fresh = _fresh(start, end)
    group = np.cumsum(fresh)
    touched = np.zeros(group[-1] + 1, bool)
    touched[group[out]] = True
    rest = np.flatnonzero(touched[group])
    while len(rest):
        root = _roots(start[rest], end[rest])
        above = rest[root][np.cumsum(root) - 1]
        end[rest] = np.minimum(end[rest], end[above])
        rest = rest[~root]


def _fresh(start: Int64s, end: Int64s) -> Booleans:
    """Where nothing before is open any more."""
    fresh = np.ones(len(start), bool)
    fresh[1:] = start[1:] >= np.maximum.accumulate(end)[:-1]
    return fresh


def _roots(start: Int64s, end: Int64s) -> Booleans:
    """The outermost spans, when children may stick out: after one comes the first that begins at its end or later.

    Where nothing before is open a span is outermost for sure; from each such place the chain is followed, all at once
    while the chains are short, then one by one.
    """
    root = _fresh(start, end)
    group: Places = np.cumsum(root)
    here = np.flatnonzero(root)
    for _ in range(_TOGETHER):
        here = _after(start, end, group, here)
        if not len(here):
            return root
        root[here] = True
    after = np.maximum(np.searchsorted(start, end, side="left"), np.arange(1, len(start) + 1)).tolist()
    last = np.searchsorted(group, group[here], side="right").tolist()
    for place, stop in zip(here.tolist(), last, strict=True):
        while (place := after[place]) < stop:
            root[place] = True
    return root


def _after(start: Int64s, end: Int64s, group: Places, here: Places) -> Places:
    """The next of each chain, of those that go on within their group."""
    after = np.maximum(np.searchsorted(start, end[here], side="left"), here + 1)
    stays = after < len(start)
    here, after = here[stays], after[stays]
    followed: Places = after[group[after] == group[here]]
    return followed
