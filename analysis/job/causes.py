"""Why a rank came late: what it did longer than the others since they last met."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from warpmeter.analysis.job.activities import ACTIVITIES
from warpmeter.analysis.job.arrivals import Arrivals, others
from warpmeter.analysis.job.extract import RankExtract
from warpmeter.analysis.trace import Int64s, Places

SLOW: Final = "slow_kernels"
MORE: Final = "more_kernels"
UNKNOWN: Final = "unknown"
CAUSES: Final = (SLOW, MORE, *ACTIVITIES[1:])

MORE_BY: Final = 0.02
"""From what share of kernels more than the others it is not slower kernels but more of them."""

TOLD: Final = 60
"""Characters of a kernel's name that are told."""


def excess(ranks: Sequence[RankExtract], arrivals: Arrivals, rows: Places) -> dict[str, Int64s]:
    """For each of these collectives what the last rank did longer than the median of the others, by cause."""
    late = arrivals.last_column[rows]
    return {cause: beyond[np.arange(len(rows)), late] for cause, beyond in excesses(ranks, arrivals, rows).items()}


def excesses(ranks: Sequence[RankExtract], arrivals: Arrivals, rows: Places) -> dict[str, Int64s]:
    """For these collectives (rows) what each rank (columns) did longer than the median of the others, by cause.

    0 where it did not meet others in the collective before it in its lane (the first of all has none, or it is not in
    its trace): nothing tells when they were in step before.
    """
    lane = arrivals.lane
    follows, place = lane.follows[rows], lane.place[rows]
    known = follows & (follows.sum(axis=1, keepdims=True) > 1)
    found, usual = {}, {}
    for name in (*ACTIVITIES, "kernels"):
        values = _column(ranks, lane.ranks, place, name)
        usual[name] = others(values, follows)
        found[name] = np.where(known, values - usual[name], 0)
    return _by_cause(found, usual["kernels"], usual["compute"])


def _column(ranks: Sequence[RankExtract], places: Sequence[int], rows: Places, name: str) -> Int64s:
    """One column of the ranks' collectives: a row a collective, a column a rank; 0 where a rank was not found."""
    columns = []
    for column, place in enumerate(places):
        values = getattr(ranks[place].collectives, name)
        columns.append(np.where(rows[:, column] >= 0, values[np.maximum(rows[:, column], 0)], 0))
    return np.stack(columns, axis=1).astype(np.int64)


def _by_cause(found: Mapping[str, Int64s], usual: Int64s, taken: Int64s) -> dict[str, Int64s]:
    """Computing longer is more kernels as far as their number explains it at the others' pace, else slower ones."""
    more, longer = found["kernels"], found["compute"]
    share = np.where(more > MORE_BY * usual, more / np.maximum(usual, 1), 0.0)
    by_number = np.where(usual > 0, np.rint(share * taken).astype(np.int64), np.where(more > 0, longer, 0))
    by_number = np.clip(by_number, 0, np.maximum(longer, 0))
    return {SLOW: longer - by_number, MORE: by_number, **{name: found[name] for name in ACTIVITIES[1:]}}


def greatest(causes: Mapping[str, int]) -> str | None:
    """The cause that explains most; None where none explains anything."""
    best = max(CAUSES, key=lambda cause: causes.get(cause, 0))
    return best if causes.get(best, 0) > 0 else None


@dataclass(frozen=True, eq=False)
class Kernels:
    """Count and total of each kernel that computes (rows) on each rank (columns), over whole traces."""

    names: list[str]
    counts: Int64s
    totals: Int64s

    @classmethod
    def of(cls, ranks: Sequence[RankExtract]) -> "Kernels":
        """From the ranks' extracts."""
        index = {name: row for row, name in enumerate(dict.fromkeys(name for each in ranks for name in each.kernels))}
        both = np.zeros((2, len(index), len(ranks)), np.int64)
        for column, rank in enumerate(ranks):
            rows = [index[name] for name in rank.kernels]
            both[:, rows, column] = np.array(list(rank.kernels.values()), np.int64).reshape(-1, 2).T
        return cls(list(index), both[0], both[1])

    def beyond(self, column: int, *, by_number: bool) -> str:
        """The kernel that a rank ran longest (`by_number`: most often) beyond the median of the others, in words.

        Empty where there is none.
        """
        if not self.names or self.totals.shape[1] < 2:
            return ""
        usual = np.median(np.delete(self.totals, column, axis=1), axis=1)
        beyond = self.totals[:, column] - usual
        if by_number:
            beyond = self.counts[:, column] - np.median(np.delete(self.counts, column, axis=1), axis=1)
        row = int(beyond.argmax())
        if beyond[row] <= 0:
            return ""
        name = self.names[row]
        said = name if len(name) <= TOLD else name[: TOLD - 1] + "…"
        if not usual[row]:
            return f"{said}: no other rank runs it"
        number = float(np.median(np.delete(self.counts[row], column)))
        times = self.totals[row, column] / usual[row]
        return f"{said}: {times:.2f} times the others' median, {self.counts[row, column]} against {number:.0f} of them"


def evidence(kernels: Kernels, column: int, cause: str | None) -> str:
    """What the cause is seen by, in words; empty where there is nothing to add."""
    if cause in (SLOW, MORE):
        return kernels.beyond(column, by_number=cause == MORE)
    return _SEEN.get(cause or "", "")


_SEEN: Final = {
    "input": "nothing else ran while it waited for its next batch",
    "host": "nothing ran, and not for want of input: Python, launches, synchronisation or another process",
    "communication": "in collectives of other groups: who was late there made this one late here",
    "memory": "copies and sets of memory",
}
