"""Ranks for which the others waited, and why they were late."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from warpmeter.analysis.job.causes import CAUSES, UNKNOWN, Kernels, evidence, excess, greatest
from warpmeter.analysis.job.extract import RankExtract
from warpmeter.analysis.job.groups import Met
from warpmeter.analysis.job.report import SkewedCollective, Straggler
from warpmeter.analysis.trace import NONE, Places

TOLD: Final = 20
"""How many collectives are told one by one."""


class _Tally:
    """What one rank's lateness adds up to."""

    def __init__(self) -> None:
        self.last = self.of = self.late = self.cost = self.worst = 0
        self.causes = dict.fromkeys(CAUSES, 0)


def stragglers(ranks: Sequence[RankExtract], found: Sequence[Met], waited: Sequence[int]) -> list[Straggler]:
    """Ranks that surely came last at least once, the costliest first."""
    tallies = [_Tally() for _ in ranks]
    for lane in found:
        _count(ranks, lane, tallies)
    kernels = Kernels.of(ranks)
    each_one = enumerate(zip(tallies, waited, strict=True))
    late = [_straggler(ranks, kernels, place, *one) for place, one in each_one if one[0].last]
    return sorted(late, key=lambda each: (-each.cost_ns, -each.late_ns))


def _count(ranks: Sequence[RankExtract], lane: Met, tallies: Sequence[_Tally]) -> None:
    arrivals = lane.arrivals
    rows = np.flatnonzero(arrivals.late_is_sure)
    causes = excess(ranks, arrivals, rows)
    for column, place in enumerate(arrivals.lane.ranks):
        tally = tallies[place]
        tally.of += int(arrivals.lane.there[:, column].sum())
        own = arrivals.last_column[rows] == column
        late, cost = arrivals.late[rows[own]], arrivals.cost[rows[own]]
        tally.last += int(own.sum())
        tally.late += int(late.sum())
        tally.cost += int(cost.sum())
        tally.worst = max(tally.worst, int(late.max(initial=0)))
        for cause, beyond in causes.items():
            tally.causes[cause] += int(beyond[own].sum())


def _straggler(ranks: Sequence[RankExtract], kernels: Kernels, place: int, tally: _Tally, waited: int) -> Straggler:
    cause = greatest(tally.causes)
    return Straggler(
        rank=ranks[place].rank,
        last=tally.last,
        of=tally.of,
        late_ns=tally.late,
        cost_ns=tally.cost,
        worst_ns=tally.worst,
        waited_ns=waited,
        cause=cause,
        causes={**tally.causes, UNKNOWN: tally.late - sum(tally.causes.values())},
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
