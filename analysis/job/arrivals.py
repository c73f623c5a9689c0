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


def others(values: Int64s, there: Booleans) -> Int64s:
    """For each value the median of the others that are there in its row, 0 where there is none."""
    count = there.sum(axis=1, keepdims=True) - there
    filled = np.where(there, values, _NEVER)
    order = np.argsort(filled, axis=1, kind="stable")
    in_order = np.take_along_axis(filled, order, axis=1)
    own = np.empty_like(order)
    np.put_along_axis(own, order, np.broadcast_to(np.arange(order.shape[1]), order.shape), axis=1)
    low, high = (_without(in_order, own, there, at) for at in ((count - 1) // 2, count // 2))
    return np.where(count > 0, low + (high - low) // 2, 0)


def _without(in_order: Int64s, own: Places, there: Booleans, at: Int64s) -> Int64s:
    """The value at a place of each row's order when the own one is taken out of it."""
    shifted = np.maximum(at, 0) + (there & (own <= at))
    return np.take_along_axis(in_order, np.minimum(shifted, in_order.shape[1] - 1), axis=1)


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
        return self.behind[np.arange(len(self.count)), self.last_column]

    @cached_property
    def cost(self) -> Int64s:
        """How much later than the last but one the last one came."""
        return self.last - self._sorted[np.arange(len(self.count)), self.count - 2]

    @cached_property
    def late_is_sure(self) -> Booleans:
        """Where the last one was late by more than its clock and those of the others may be wrong by."""
        return self.behind_is_sure[np.arange(len(self.count)), self.last_column]

    @cached_property
    def behind(self) -> Int64s:
        """How much later than the median of the others each one came; below zero for those that came before it."""
        behind: Int64s = np.where(self.lane.there, self.lane.start - others(self.lane.start, self.lane.there), 0)
        return behind

    @cached_property
    def behind_is_sure(self) -> Booleans:
        """Where a rank was late by more than its clock and those of the others may be wrong by."""
        columns = range(len(self.uncertainty))
        among = np.array([np.median(np.delete(self.uncertainty, column)) for column in columns])
        sure: Booleans = (self.count > 1)[:, None] & (self.behind > self.uncertainty + among)
        return sure

    @cached_property
    def wait(self) -> Int64s:
        """What each rank waited for the others."""
        there = self.lane.there
        shortest = np.where(there, self.stay, _NEVER).min(axis=1, initial=_NEVER, keepdims=True)
        to_last = np.clip(self.last[:, None] - self.lane.start, 0, self.stay)
        return np.where(there, np.where(self.symmetric[:, None], self.stay - shortest, to_last), 0)

    @cached_property
    def transfer(self) -> Int64s:
        """How long it took when all were there: the shortest of what the ranks stayed without waiting.

        The longest where ranks may leave early.
        """
        there, rest = self.lane.there, self.stay - self.wait
        shortest = np.where(there, rest, _NEVER).min(axis=1, initial=_NEVER)
        longest = np.where(there, rest, 0).max(axis=1, initial=0)
        took: Int64s = np.where(self.symmetric, shortest, longest)
        return took

    @cached_property
    def _sorted(self) -> npt.NDArray[np.int64]:
        return ordered(self.lane.start, self.lane.there)
