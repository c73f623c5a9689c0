"""Which collectives of the ranks are one: rows by rank, on the common clock."""

from collections.abc import Iterator
from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from warpmeter.analysis.job.clocks import Clock
from warpmeter.analysis.job.extract import RankExtract
from warpmeter.analysis.job.offsets import TOLERANCE_NS, Line
from warpmeter.analysis.job.sequences import Sequence, Shared, nearest, sequences
from warpmeter.analysis.trace import NONE, Booleans, Int64s, Places

SLACK: Final = 2
"""How many times the clocks' uncertainty the ends of one collective may differ."""

STAYS: Final = Line(0)


@dataclass(frozen=True, eq=False)
class Lane:
    """Collectives of one lane: a row each, in order of time, a column a rank of those in `ranks` (places, not ranks).

    Times are the reference's. `place` is the row in that rank's extract, -1 where the rank was not found in it, and
    `turn` its number in the lane on that rank. A collective that only one rank was found in is not here but counted in
    `alone`.
    """

    ranks: list[int]
    start: Int64s
    end: Int64s
    place: Places
    turn: Places
    alone: list[int]

    @property
    def follows(self) -> Booleans:
        """Where a rank had no other collective of the lane since the row before, and was found in that too."""
        follows = np.zeros(self.turn.shape, np.bool_)
        follows[1:] = (self.turn[1:] == self.turn[:-1] + 1) & (self.turn[:-1] >= 0)
        return follows

    @property
    def there(self) -> Booleans:
        """Where a rank was found."""
        return self.place >= 0


def lanes(ranks: Many[RankExtract], clocks: Many[Clock]) -> Iterator[Lane]:
    """Every lane in which two or more ranks with a common clock meet."""
    own = [_moved(each, clock.line) for each, clock in zip(sequences(ranks), clocks, strict=True)]
    members: dict[tuple[int, int], list[int]] = {}
    for place, each in enumerate(own):
        for lane in np.unique(each.lane).tolist():
            members.setdefault((lane, clocks[place].reference), []).append(place)
    for (lane, _), places in members.items():
        if len(places) > 1:
            yield _lane(places, [own[place].take(own[place].lane == lane) for place in places], clocks)


def _moved(own: Sequence, line: Line) -> Sequence:
    """The same collectives on the common clock."""
    return Sequence(line.moved(own.start), line.moved(own.end), own.lane, own.code, own.symmetric, own.sends, own.place)


def _lane(places: list[int], own: list[Sequence], clocks: Many[Clock]) -> Lane:
    """Match all to the rank that has most; what is left over to the one that has most of that; and so on."""
    free = [np.arange(len(each)) for each in own]
    blocks: list[npt.NDArray[np.intp]] = []
    alone = [0] * len(own)
    while sum(1 for each in free if len(each)) > 1:
        hub = max(range(len(own)), key=lambda column: len(free[column]))
        block = _block(own, free, hub, [clocks[place].uncertainty_ns for place in places])
        met = (block >= 0).sum(axis=1) > 1
        alone[hub] += int((~met).sum())
        blocks.append(block[met])
        free[hub] = free[hub][:0]
    for column, left in enumerate(free):
        alone[column] += len(left)
    rows = np.concatenate(blocks) if blocks else np.zeros((0, len(own)), np.intp)
    return _ordered(places, own, rows, alone)


def _block(own: list[Sequence], free: list[Places], hub: int, uncertainty: list[int]) -> Places:
    """The hub's free rows, each with those of the others that are the same collective (-1: none); takes them."""
    block = np.full((len(free[hub]), len(own)), NONE, np.intp)
    block[:, hub] = free[hub]
    of_hub = own[hub].take(free[hub])
    for column, left in enumerate(free):
        if column == hub or not len(left):
            continue
        rows, theirs = _same(of_hub, own[column].take(left), uncertainty[hub] + uncertainty[column])
        block[rows, column] = left[theirs]
        free[column] = np.delete(left, theirs)
    return block


def _same(a: Sequence, b: Sequence, uncertainty: int) -> tuple[Places, Places]:
    """Rows of `a` and of `b` that are the same collective: the nearest ends, overlapping, one to one."""
    shared = Shared.of(a, b, symmetric=False)
    nothing = np.zeros(0, np.intp)
    if shared is None:
        return nothing, nothing
    at_a = np.flatnonzero(np.isin(a.code, shared.a.code))
    at_b = np.flatnonzero(np.isin(b.code, shared.b.code))
    every = np.arange(len(shared.b))
    other, difference = nearest(shared, every, STAYS)
    slack = SLACK * uncertainty + 1_000
    apart = np.maximum(shared.a.start[other] - shared.b.end, shared.b.start - shared.a.end[other])
    near = np.where(shared.b.sends | shared.a.sends[other], apart, np.abs(difference)) <= np.maximum(
        slack, _transfer(shared, other)
    )
    order = np.lexsort((np.abs(difference), ~near, other))
    again = np.zeros(len(other), np.bool_)
    again[order[1:]] = other[order[1:]] == other[order[:-1]]
    good = near & ~again & (apart <= slack)
    if shared.b.symmetric.all():
        return at_a[other[good]], at_b[every[good]]
    good[good] = shared.together(every[good], other[good])
    return _in_turn(a, b, at_a[other[good]], at_b[every[good]], slack)


def _in_turn(a: Sequence, b: Sequence, rows: Places, theirs: Places, slack: int) -> tuple[Places, Places]:
    """What is known to match, and what between two of these therefore does, though it did not end together.

    Of a small transfer the sender may be rid long before the receiver asks for it, and of a broadcast the root. Where
    as many came between two matches on either side, they are the same ones.
    """
    if not len(rows):
        return rows, theirs
    order = np.argsort(rows)
    rows, shift = rows[order], (theirs - rows)[order]
    every = np.arange(len(a))
    after = np.searchsorted(rows, every)
    ahead, behind = shift[np.minimum(after, len(rows) - 1)], shift[np.maximum(after - 1, 0)]
    known = np.searchsorted(rows, every, side="right") > after
    partner = every + ahead
    fits = (known | ((ahead == behind) & ~a.symmetric)) & (partner >= 0) & (partner < len(b))
    mine, yours = every[fits], partner[fits]
    begun = np.where(a.sends[mine], b.end[yours] - a.start[mine], a.end[mine] - b.start[yours])
    one_way = a.sends[mine] | b.sends[yours]
    fits = (~one_way | (begun >= -slack)) & (a.code[mine] == b.code[yours])
    mine, yours = mine[fits], yours[fits]
    yours, first = np.unique(yours, return_index=True)
    return mine[first], yours


def _transfer(shared: Shared, other: Places) -> Int64s:
    """The shorter of both: what the transfer took at most, up to what ends may differ by."""
    took = np.minimum(shared.b.end - shared.b.start, shared.a.end[other] - shared.a.start[other])
    most: Int64s = np.minimum(took, TOLERANCE_NS[1])
    return most


def _ordered(places: list[int], own: list[Sequence], rows: Places, alone: list[int]) -> Lane:
    start = np.full(rows.shape, NONE, np.int64)
    end = np.full(rows.shape, NONE, np.int64)
    place = np.full(rows.shape, NONE, np.intp)
    for column, each in enumerate(own):
        there = rows[:, column] >= 0
        found = rows[there, column]
        start[there, column], end[there, column] = each.start[found], each.end[found]
        place[there, column] = each.place[found]
    order = np.argsort(end.max(axis=1), kind="stable") if len(rows) else np.zeros(0, np.intp)
    return Lane(places, start[order], end[order], place[order], rows[order], alone)
