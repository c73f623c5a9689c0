"""The collectives of all ranks under common numbers, and which one of another rank is nearest to one of this."""

from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from warpmeter.analysis.job.collectives import POINT_TO_POINT, SYMMETRIC, Meeting
from warpmeter.analysis.job.extract import RankExtract
from warpmeter.analysis.trace import NONE, Booleans, Columns, Int64s, Places

WAITED: Final = 2
"""From how many times the shortest stay on a receiver has waited for its sender."""


class Moves(Protocol):
    """What brings times of one clock to another."""

    def moved(self, times: Int64s) -> Int64s:
        """The times by the other clock."""


@dataclass(frozen=True, eq=False)
class Sequence(Columns):
    """A rank's collectives that others take part in. `place` is the row in its extract.

    `lane` is where they meet, `code` what must be equal on all ranks: the same number on every rank of the job.
    `sends`: this rank is the sender of a point-to-point transfer.
    """

    end: Int64s
    lane: Int64s
    code: Int64s
    symmetric: Booleans
    sends: Booleans
    place: Places


def sequences(ranks: Many[RankExtract]) -> list[Sequence]:
    """One a rank, by their order."""
    lanes: dict[object, int] = {}
    codes: dict[object, int] = {}
    return [_sequence(rank, lanes, codes) for rank in ranks]


def _sequence(rank: RankExtract, lanes: dict[object, int], codes: dict[object, int]) -> Sequence:
    known = rank.meetings
    lane = np.array([lanes.setdefault(each.lane, len(lanes)) for each in known], np.int64)
    code = np.array([codes.setdefault((each.lane, each.alike), len(codes)) for each in known], np.int64)
    sure = np.array([each.kind in SYMMETRIC for each in known], np.bool_)
    meets = np.array([meets_others(each, rank.rank) for each in known], np.bool_)
    rows = rank.collectives
    sends = np.array([each.peers[0] == rank.rank for each in known], np.bool_)
    place = np.flatnonzero(meets[rows.what]) if len(known) else np.zeros(0, np.intp)
    what = rows.what[place]
    return Sequence(rows.start[place], rows.end[place], lane[what], code[what], sure[what], sends[what], place)


def meets_others(meeting: Meeting, rank: int) -> bool:
    """Whether it is known to be with others: not in a group of one, nor a transfer to oneself or to who knows whom.

    Several transfers that are started as one are one kernel, which does not tell its peers.
    """
    if meeting.kind == POINT_TO_POINT and meeting.peers == (NONE, NONE):
        return meeting.group.size == 2
    return meeting.group.size != 1 and meeting.peers != (rank, rank)


@dataclass(frozen=True, eq=False)
class Shared:
    """What two ranks have in common: rows with codes that both know, numbered from 0."""

    a: Sequence
    b: Sequence
    a_code: Int64s
    b_code: Int64s
    _order: Places
    _keys: Int64s
    _first: int
    _stretch: int

    @classmethod
    def of(cls, a: Sequence, b: Sequence, *, symmetric: bool) -> "Shared | None":
        """None where they have nothing in common; `symmetric`: of those collectives alone that nobody leaves early."""
        if symmetric:
            a, b = a.take(a.symmetric), b.take(b.symmetric)
        common = np.intersect1d(a.code, b.code)
        a, b = a.take(np.isin(a.code, common)), b.take(np.isin(b.code, common))
        if not len(common):
            return None
        if (int(a.end.max()) - int(a.end.min()) + 3) * (len(common) + 1) >= 1 << 62:
            return None  # times of a broken file
        a_code, b_code = np.searchsorted(common, a.code), np.searchsorted(common, b.code)
        first = int(a.end.min())
        stretch = int(a.end.max()) - first + 3
        keys = a_code * stretch + (a.end - first + 1)
        order = np.argsort(keys, kind="stable")
        return cls(a, b, a_code, b_code, order, keys[order], first, stretch)

    def together(self, places: Places, other: Places) -> Booleans:
        """Whether a row of `b` and one of `a` must have ended together: always, but for a receiver that came late.

        Of a small transfer the sender is rid before the receiver asks for it. A receiver that was there for long got
        the end of it when the sender was done: for longer than receivers are at least, or when none is, than senders.
        """
        to_a, to_b = self.b.sends[places], self.a.sends[other]
        if not (to_a.any() or to_b.any()):
            return np.ones(len(places), np.bool_)
        in_b = self.b.end[places] - self.b.start[places]
        in_a = self.a.end[other] - self.a.start[other]
        receives, sends = np.where(to_a, in_a, in_b), np.where(to_a, in_b, in_a)
        waited = receives > WAITED * self._quickest(self.b_code[places], receives)
        transfers = to_a | to_b
        return ~transfers | (waited if (waited & transfers).any() else receives >= sends)

    @staticmethod
    def _quickest(code: Int64s, stays: Int64s) -> Int64s:
        """For each row the shortest stay among those of its code."""
        least = np.full(int(code.max(initial=0)) + 1, np.iinfo(np.int64).max)
        np.minimum.at(least, code, stays)
        return least[code]

    def around(self, code: Int64s, end: Int64s) -> tuple[Places, Places]:
        """Of each code the last row of `a` that ended by then and the first after (clamped to the code's own)."""
        key = code * self._stretch + np.clip(end - self._first + 1, 0, self._stretch - 1)
        at = np.searchsorted(self._keys, key, side="right")
        low = np.searchsorted(self._keys, code * self._stretch)
        high = np.searchsorted(self._keys, (code + 1) * self._stretch) - 1
        return self._order[np.clip(at - 1, low, high)], self._order[np.clip(at, low, high)]


def nearest(shared: Shared, places: Places, line: Moves) -> tuple[Places, Int64s]:
    """For rows of `b` the alike one of `a` that ends nearest by `a`'s clock, and by how much `b`'s is later."""
    end = line.moved(shared.b.end[places])
    before, after = shared.around(shared.b_code[places], end)
    to_before, to_after = end - shared.a.end[before], end - shared.a.end[after]
    closer = np.abs(to_before) <= np.abs(to_after)
    return np.where(closer, before, after), np.where(closer, to_before, to_after)
