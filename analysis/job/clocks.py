"""The ranks' clocks, held against each other: matching collectives end within a transfer of each other on all ranks.

Pairs of ranks that meet often (`offsets.py`) are joined to a tree, in which every rank's clock is known against that of
the lowest rank of its tree.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from warpmeter.analysis.job.extract import RankExtract
from warpmeter.analysis.job.offsets import Expected, Fit, Line, compare
from warpmeter.analysis.job.sequences import Sequence as Meetings
from warpmeter.analysis.job.sequences import sequences

PIPELINE_NS: Final = 100_000
"""Long transfers go through in chunks: ranks end within some chunks of each other, however long the whole takes."""

PART: Final = 0.02
"""And within this part of it, over slow links: ends of 8 to 60 ms long ones were seen to differ by 0.8 % at most."""

WITHOUT_NS: Final = 1_000_000_000
"""How long a step is taken to be at most where there is only one."""


@dataclass(frozen=True)
class Clock:
    """One rank's clock against the reference's. `uncertainty_ns` is what the offset may be wrong by.

    `offset_ns` is at the rank's first collective; `drift_ppb` is how much faster it runs, in billionths. `matched`
    collectives of this rank were found on rank `through`, by which it was joined to the reference.
    """

    rank: int
    reference: int
    offset_ns: int
    drift_ppb: int
    uncertainty_ns: int
    matched: int
    through: int | None
    line: Line = field(repr=False)


@dataclass(frozen=True)
class _Edge:
    """Rank `a` joined to rank `b`: the line says how far `b` is ahead of `a`."""

    a: int
    b: int
    fit: Fit
    uncertainty_ns: int


def clocks(ranks: Sequence[RankExtract]) -> list[Clock]:
    """Each rank's clock, by the order of `ranks`; a rank that meets no other is its own reference.

    The reference of ranks that are joined is the lowest of them.
    """
    meetings = sequences(ranks)
    edges = _tree(ranks, meetings)
    found: dict[int, Clock] = {}
    for place in sorted(range(len(ranks)), key=lambda place: ranks[place].rank):
        if place not in found:
            _walk(ranks, edges, place, found)
    return [found[place] for place in range(len(ranks))]


def _tree(ranks: Sequence[RankExtract], meetings: Sequence[Meetings]) -> list[_Edge]:
    """Pairs joined, best first, until all that can be are; of each lane the pairs with the rank that has most in it."""
    root = list(range(len(ranks)))

    def find(place: int) -> int:
        while root[place] != place:
            root[place] = root[root[place]]
            place = root[place]
        return place

    edges = []
    for a, b in _pairs(ranks, meetings):
        if find(a) == find(b):
            continue
        fit = compare(meetings[a], meetings[b], _expected(ranks[a], ranks[b]))
        if fit is not None:
            edges.append(_Edge(a, b, fit, _uncertainty(fit, max(ranks[a].resolution_ns, ranks[b].resolution_ns))))
            root[find(a)] = find(b)
    return edges


def _expected(a: RankExtract, b: RankExtract) -> Expected:
    """The offset that the starts of the steps of the same number show; wall clocks without any."""
    _, in_a, in_b = np.intersect1d(a.step_numbers, b.step_numbers, assume_unique=True, return_indices=True)
    if not len(in_a):
        return Expected()
    steps = np.abs(np.diff(np.sort(a.step_starts))) if len(a.step_starts) > 1 else np.array([WITHOUT_NS])
    return Expected(int(np.median(b.step_starts[in_b] - a.step_starts[in_a])), int(np.median(steps)) // 2)


def _pairs(ranks: Sequence[RankExtract], meetings: Sequence[Meetings]) -> list[tuple[int, int]]:
    """Pairs that share a lane, most promising first: many symmetric collectives, in a large group (few hops)."""
    members: dict[int, list[tuple[int, int, int]]] = {}
    for place, own in enumerate(meetings):
        for lane in np.unique(own.lane).tolist():
            here = own.lane == lane
            members.setdefault(lane, []).append((int(own.symmetric[here].sum()), int(here.sum()), place))
    found: dict[tuple[int, int], tuple[int, int, int]] = {}
    for each in members.values():
        each.sort(key=lambda one: (-one[0], -one[1], ranks[one[2]].rank))
        hub = each[0]
        for sure, count, place in each[1:]:
            pair = min(hub[2], place), max(hub[2], place)
            worth = (min(sure, 200), len(each), min(count, 200))
            found[pair] = max(found.get(pair, worth), worth)
    return sorted(found, key=lambda pair: (found[pair], -pair[0], -pair[1]), reverse=True)


def _walk(ranks: Sequence[RankExtract], edges: Sequence[_Edge], start: int, found: dict[int, Clock]) -> None:
    """Gives every rank that is joined to `start` its clock against it."""
    first = ranks[start].rank
    found[start] = Clock(first, first, 0, 0, 0, 0, None, Line(0))
    waiting = [start]
    while waiting:
        here = waiting.pop(0)
        for edge in edges:
            if here not in (edge.a, edge.b):
                continue
            there = edge.b if here == edge.a else edge.a
            if there in found:
                continue
            line = edge.fit.line if there == edge.b else _reversed(edge.fit.line)
            found[there] = _clock(ranks[there], found[here], line, edge)
            waiting.append(there)


def _clock(rank: RankExtract, nearer: Clock, line: Line, edge: _Edge) -> Clock:
    whole = line.then(nearer.line)
    begin = int(rank.collectives.start[0])
    return Clock(
        rank=rank.rank,
        reference=nearer.reference,
        offset_ns=int(whole.at(np.array([begin], np.int64))[0]),
        drift_ppb=round(whole.drift * 1e9),
        uncertainty_ns=nearer.uncertainty_ns + edge.uncertainty_ns,
        matched=edge.fit.matched,
        through=nearer.rank,
        line=whole,
    )


def _reversed(line: Line) -> Line:
    """How far the other clock is ahead of this one."""
    drift = -line.drift / (1 - line.drift)
    return Line(-line.offset_ns, drift, line.origin_ns - line.offset_ns)


def _uncertainty(fit: Fit, resolution_ns: int) -> int:
    """Thrice the spread of the ends' differences, and no less than the ends may differ by on every collective alike.

    Ends differ within a transfer, a constant part of which no comparison of ends can show. A long transfer goes
    through in chunks, so its ranks end closer together than it is long.
    """
    alike = min(fit.transfer_ns, max(PIPELINE_NS, round(PART * fit.transfer_ns)))
    return max(round(3 * fit.spread_ns), alike, resolution_ns) + fit.doubt_ns
