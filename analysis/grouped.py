"""Numbers by group: counts, sums and places in the order, exact and without a loop over the numbers."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from warpmeter.analysis.trace import Int32s, Int64s, Places

_ROOM: Final = 1 << 62
_NARROW: Final = 1 << 16


def place_of(count: int, percent: int) -> int:
    """Which of `count` sorted values is the percentile: the one at ⌊count · percent / 100⌋, an observed value."""
    return min(count - 1, count * percent // 100)


@dataclass(frozen=True, eq=False)
class Sorted:
    """Values sorted within each of the groups 0, 1, … (all of them occupied): group g begins at `first[g]`."""

    value: Int64s
    first: Places
    count: Int64s

    @property
    def total(self) -> Int64s:
        """The sum of each group."""
        return np.add.reduceat(self.value, self.first) if len(self.first) else np.zeros(0, np.int64)

    def percentile(self, percent: int) -> Int64s:
        """The percentile of each group, as `place_of` counts; 0 is the least, 100 the greatest."""
        return self.value[self.first + np.minimum(self.count - 1, self.count * percent // 100)]


def sort_within(group: Places, values: Int64s) -> Sorted:
    """Sort numbers, none below zero, within groups numbered 0, 1, …, none of them empty."""
    count = np.bincount(group).astype(np.int64)
    first = (np.cumsum(count) - count).astype(np.intp)
    step = int(values.max(initial=0)) + 1
    if step * (len(count) + 1) < _ROOM:
        value = np.sort(group * np.int64(step) + values) - np.repeat(np.arange(len(count)) * np.int64(step), count)
    else:
        value = values[np.lexsort((values, group))]
    return Sorted(value, first, count)


def sums(keys: Int64s, values: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Each key that occurs, ascending, how often it does and the sum of its values."""
    if not len(keys):
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, nothing
    order = np.argsort(keys)
    keys = keys[order]
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return keys[first], np.diff(np.append(first, len(keys))), np.add.reduceat(values[order], first)


def numbered(labels: Int32s | Int64s) -> tuple[Int64s, Places]:
    """The labels that occur, ascending, and each one's number among them."""
    if not len(labels):
        return np.zeros(0, np.int64), np.zeros(0, np.intp)
    least = int(labels.min())
    width = int(labels.max()) - least + 1
    if width > len(labels) + _NARROW:
        found, number = np.unique(labels, return_inverse=True)
        return found.astype(np.int64), number.astype(np.intp)
    place = labels.astype(np.int64) - least
    there = np.bincount(place, minlength=width) > 0
    return np.flatnonzero(there) + least, (np.cumsum(there) - 1)[place].astype(np.intp)
