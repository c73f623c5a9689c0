"""Sums over a calling tree: what a span's children and all its descendants add up to."""

from dataclasses import dataclass

import numpy as np

from warpmeter.analysis.nesting import Nesting, in_order, levels
from warpmeter.analysis.trace import Booleans, Int64s, Places


@dataclass(frozen=True, eq=False)
class Tree:
    """Spans in the order of a walk: each before its descendants, which follow it without a gap.

    `order` are the spans' places in their columns, `place` the reverse, `after` (by the walk) where a span's
    descendants end.
    """

    nesting: Nesting
    order: Places
    place: Places
    after: Places

    def children(self, values: Int64s) -> Int64s:
        """The sum of its direct children's values, for each span."""
        return total(self.nesting.parent, values, len(self.order))

    def descendants(self, values: Int64s) -> Int64s:
        """The sum of its own and all its descendants' values, for each span."""
        sums = np.zeros(len(self.order) + 1, np.int64)
        np.cumsum(values[self.order], out=sums[1:])
        return np.asarray(sums[self.after[self.place]] - sums[self.place])

    def outermost(self, key: Int64s) -> Booleans:
        """Spans that are in no other span of the same key (a recursion's first call)."""
        walk = np.argsort(key[self.order], kind="stable")
        group = np.cumsum(np.diff(key[self.order][walk], prepend=key[self.order][walk[:1]]) != 0)
        reach = np.maximum.accumulate(group * (len(walk) + 1) + self.after[walk])
        first = np.ones(len(walk), np.bool_)
        first[1:] = reach[:-1] <= group[1:] * (len(walk) + 1) + walk[1:]
        chosen = np.empty(len(walk), np.bool_)
        chosen[self.order[walk]] = first
        return chosen


def tree(nesting: Nesting) -> Tree:
    """The walk of a nesting, n log n."""
    order = in_order(nesting.thread)
    place = np.empty(len(order), np.intp)
    place[order] = np.arange(len(order))
    size = np.ones(len(order), np.intp)
    for here in levels(nesting.depth[order])[:0:-1]:
        parent = place[nesting.parent[order[here]]]  # ascending: children of one span stand together
        opens = np.flatnonzero(np.diff(parent, prepend=-1))
        size[parent[opens]] += np.add.reduceat(size[here], opens)
    return Tree(nesting, order, place, np.arange(len(order)) + size)


def total(index: Places, values: Int64s, length: int) -> Int64s:
    """Sums of integer values by index (-1: none), exact."""
    there = index >= 0
    sums = np.zeros(length, np.int64)
    np.add.at(sums, index[there], values[there])  # in whole numbers, and many times faster than a weighted bincount
    return sums


def roots(parent: Places, index: Places) -> Places:
    """The outermost span around each of some spans (-1 stays -1)."""
    found = index.copy()
    inner = np.flatnonzero(found >= 0)
    while len(inner := inner[parent[found[inner]] >= 0]):
        found[inner] = parent[found[inner]]
    return found
