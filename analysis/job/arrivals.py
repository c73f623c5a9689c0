"""When each rank came to the collectives of a lane, how long it waited there, and who came last."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from warpmeter.analysis.job.meetings import Lane
from warpmeter.analysis.trace import Booleans, Int64s, Places

_NEVER = np.iinfo(np.int64).max


def ordered(values: Int64s, there: Booleans) -> Int64s:
    """Each row's values in order, those that are not there behind them."""
    return np.sort(np.where(there, values, _NEVER), axis=1)


def middle(in_order: Int64s, count: Int64s) -> Int64s:
    """The median of each row's first `count` values, 0 where there is none."""
    rows = np.arange(len(in_order))
    low = in_order[rows, np.maximum((count - 1) // 2, 0)]
    high = in_order[rows, np.minimum(count // 2, np.maximum(count - 1, 0))]
    return np.where(count > 0, low + (np.where(count > 0, high, low) - low) // 2, 0)


@dataclass(frozen=True, eq=False)
class Arrivals:
    """A row a collective, a column a rank of `lane`; times on the common clock.

    `symmetric`: nobody leaves before the last has come, so that the shortest stay is the transfer and what others
    stayed longer is waiting, whatever the clocks say. In other collectives waiting is up to the last arrival.
    `uncertainty` is of each column's clock.
    """

    lane: Lane
    symmetric: Booleans
    uncertainty: Int64s

    @cached_property
    def count(self) -> Int64s:
        """How many ranks were found in each."""
        count: Int64s = self.lane.there.sum(axis=1, dtype=np.int64)
        return count

    @cached_property
    def stay(self) -> Int64s:
        """How long each rank was in it, 0 where it was not found."""
        stay: Int64s = np.where(self.lane.there, self.lane.end - self.lane.start, 0)
        return stay

    @cached_property
    def first(self) -> Int64s:
        """The first arrival."""
        return self._sorted[:, 0]

    @cached_property
    def last(self) -> Int64s:
        """The last arrival."""
        return self._sorted[np.arange(len(self.count)), self.count - 1]

    @cached_property
    def skew(self) -> Int64s:
        """From the first arrival to the last."""
        return self.last - self.first

    @cached_property
    def last_column(self) -> Places:
        """Who came last."""
        last: Places = np.where(self.lane.there, self.lane.start, -_NEVER).argmax(axis=1)
        return last

    @cached_property
    def skew_is_sure(self) -> Booleans:
        """Where the skew is above what both clocks may be wrong by."""
        earliest = np.where(self.lane.there, self.lane.start, _NEVER).argmin(axis=1)
        sure: Booleans = self.skew > self.uncertainty[self.last_column] + self.uncertainty[earliest]
        return sure

    @cached_property
    def late(self) -> Int64s:
        """How much later than the median of the others the last one came."""
        return self.last - middle(self._sorted, self.count - 1)

    @cached_property
    def cost(self) -> Int64s:
        """How much later than the last but one the last one came."""
        return self.last - self._sorted[np.arange(len(self.count)), self.count - 2]

    @cached_property
    def late_is_sure(self) -> Booleans:
        """Where the last one was late by more than its clock and those of the others may be wrong by."""
        columns = range(len(self.uncertainty))
        others = [np.median(np.delete(self.uncertainty, column)) for column in columns]
        return self.late > (self.uncertainty + np.array(others))[self.last_column]

    @cached_property
    def wait(self) -> Int64s:
        """What each rank waited for the others."""
        there = self.lane.there
        shortest = np.where(there, self.stay, _NEVER).min(axis=1, initial=_NEVER, keepdims=True)
        to_last = np.clip(self.last[:, None] - self.lane.start, 0, self.stay)
        return np.where(there, np.where(self.symmetric[:, None], self.stay - shortest, to_last), 0)

    @cached_property
    def transfer(self) -> Int64s:
        """How long it took when all were there: the shortest of what the ranks stayed without waiting."""
        took: Int64s = np.where(self.lane.there, self.stay - self.wait, _NEVER).min(axis=1, initial=_NEVER)
        return took

    @cached_property
    def _sorted(self) -> npt.NDArray[np.int64]:
        return ordered(self.lane.start, self.lane.there)
