"""Ranks for which the others waited, and why they were late."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from warpmeter.analysis.job.causes import CAUSES, UNKNOWN, Kernels, evidence, excess, excesses, greatest
from warpmeter.analysis.job.extract import RankExtract
from warpmeter.analysis.job.groups import Met
from warpmeter.analysis.job.report import SkewedCollective, Straggler
from warpmeter.analysis.trace import NONE, Places

TOLD: Final = 20
"""How many collectives are told one by one."""

AT_ONCE: Final = 8_192
"""Collectives that are worked on at a time: tables of them and of all ranks are wide."""


class _Tally:
    """What one rank's lateness adds up to."""

    def __init__(self) -> None:
        self.last = self.late = self.of = self.late_ns = self.cost_ns = self.worst_ns = 0
        self.causes = dict.fromkeys(CAUSES, 0)


def stragglers(ranks: Sequence[RankExtract], found: Sequence[Met], waited: Sequence[int]) -> list[Straggler]:
    """Ranks that surely came late at least once, the costliest first."""
    tallies = [_Tally() for _ in ranks]
    for lane in found:
        for first in range(0, len(lane.arrivals.count), AT_ONCE):
            _count(ranks, lane, slice(first, first + AT_ONCE), tallies)
    kernels = Kernels.of(ranks)
    each_one = enumerate(zip(tallies, waited, strict=True))
    late = [_straggler(ranks, kernels, place, *one) for place, one in each_one if one[0].late]
    return sorted(late, key=lambda each: (-each.cost_ns, -each.late_ns))


def _count(ranks: Sequence[RankExtract], lane: Met, rows: slice, tallies: Sequence[_Tally]) -> None:
    """Add some rows of a lane to the tallies of its ranks."""
    arrivals = lane.arrivals
    late = arrivals.behind_is_sure[rows]
    chosen = np.flatnonzero(late.any(axis=1)) + rows.start
    late = arrivals.behind_is_sure[chosen]
    last = late & (arrivals.last_column[chosen][:, None] == np.arange(late.shape[1]))
    behind = np.where(late, arrivals.behind[chosen], 0)
    causes = {cause: (beyond * late).sum(axis=0) for cause, beyond in excesses(ranks, arrivals, chosen).items()}
    for column, place in enumerate(arrivals.lane.ranks):
        tally = tallies[place]
        tally.of += int(arrivals.lane.there[rows, column].sum())
        tally.last += int(last[:, column].sum())
        tally.late += int(late[:, column].sum())
        tally.late_ns += int(behind[:, column].sum())
        tally.cost_ns += int(arrivals.cost[chosen][last[:, column]].sum())
        tally.worst_ns = max(tally.worst_ns, int(behind[:, column].max(initial=0)))
        for cause, beyond in causes.items():
            tally.causes[cause] += int(beyond[column])


def _straggler(ranks: Sequence[RankExtract], kernels: Kernels, place: int, tally: _Tally, waited: int) -> Straggler:
    cause = greatest(tally.causes)
    return Straggler(
        rank=ranks[place].rank,
        last=tally.last,
        late=tally.late,
        of=tally.of,
        late_ns=tally.late_ns,
        cost_ns=tally.cost_ns,
        worst_ns=tally.worst_ns,
        waited_ns=waited,
        cause=cause,
        causes={**tally.causes, UNKNOWN: tally.late_ns - sum(tally.causes.values())},
        evidence=evidence(kernels, place, cause),
    )


def skewed(ranks: Sequence[RankExtract], found: Sequence[Met]) -> list[SkewedCollective]:
    """The collectives with the greatest skews that are sure, over all groups."""
    worst = []
    for lane in found:
        rows = np.flatnonzero(lane.arrivals.skew_is_sure)
        worst += [(int(lane.arrivals.skew[row]), index_of, int(row)) for index_of, row in _top(lane, rows, found)]
    worst.sort(key=lambda one: -one[0])
    return [_skewed(ranks, found[index], row) for _, index, row in worst[:TOLD]]


def _top(lane: Met, rows: Places, found: Sequence[Met]) -> list[tuple[int, int]]:
    order = np.argsort(-lane.arrivals.skew[rows], kind="stable")[:TOLD]
    index = next(index for index, each in enumerate(found) if each is lane)
    return [(index, row) for row in rows[order].tolist()]


def _skewed(ranks: Sequence[RankExtract], lane: Met, row: int) -> SkewedCollective:
    arrivals = lane.arrivals
    causes = {cause: int(beyond[0]) for cause, beyond in excess(ranks, arrivals, np.array([row])).items()}
    size = int(lane.bytes[row])
    return SkewedCollective(
        group=lane.group.label,
        kind=lane.kinds[int(lane.kind[row])],
        bytes=size if size != NONE else None,
        start_ns=int(arrivals.first[row]),
        skew_ns=int(arrivals.skew[row]),
        wait_ns=int(arrivals.wait[row].sum()),
        last_rank=ranks[arrivals.lane.ranks[int(arrivals.last_column[row])]].rank,
        cause=greatest(causes),
    )
