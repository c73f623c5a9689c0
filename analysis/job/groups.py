"""What is said of each process group and of each kind of collective in it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from warpmeter.analysis.job.arrivals import Arrivals
from warpmeter.analysis.job.clocks import Clock
from warpmeter.analysis.job.collectives import SYMMETRIC, Group, Meeting, bus_factor
from warpmeter.analysis.job.extract import RankExtract
from warpmeter.analysis.job.meetings import Lane, lanes
from warpmeter.analysis.job.report import CollectiveStats, GroupReport, Unmatched
from warpmeter.analysis.sheets import sheet
from warpmeter.analysis.trace import NONE, Booleans, Int64s


@dataclass(frozen=True, eq=False)
class Met:
    """A lane with what was found in it. `kind` and `dtype` number `kinds` and `dtypes`; `bytes` is the largest."""

    group: Group
    peers: tuple[int, int]
    arrivals: Arrivals
    kind: Int64s
    dtype: Int64s
    bytes: Int64s
    even: Booleans
    kinds: tuple[str, ...]
    dtypes: tuple[str, ...]


def met(ranks: Sequence[RankExtract], clocks: Sequence[Clock]) -> Iterator[Met]:
    """Every lane in which ranks meet."""
    kinds: dict[str, int] = {}
    dtypes: dict[str, int] = {}
    told = [_numbered(rank, kinds, dtypes) for rank in ranks]
    for lane in lanes(ranks, clocks):
        if len(lane.start):
            yield _met(ranks, clocks, lane, told, (tuple(kinds), tuple(dtypes)))


def _numbered(rank: RankExtract, kinds: dict[str, int], dtypes: dict[str, int]) -> Int64s:
    """Kind, type, bytes and whether sizes are even, of each of a rank's meetings, as numbers; a row each."""
    told = [
        (kinds.setdefault(each.kind, len(kinds)), dtypes.setdefault(each.dtype, len(dtypes)), each.bytes, each.even)
        for each in rank.meetings
    ]
    return np.array(told, np.int64).reshape(-1, 4).T


def _met(
    ranks: Sequence[RankExtract],
    clocks: Sequence[Clock],
    lane: Lane,
    told: Sequence[Int64s],
    words: tuple[tuple[str, ...], tuple[str, ...]],
) -> Met:
    kinds, dtypes = words
    found = np.full((4, len(lane.start)), NONE, np.int64)
    for column, place in enumerate(lane.ranks):
        there = lane.there[:, column]
        rows = ranks[place].collectives.what[lane.place[there, column]]
        found[:, there] = np.maximum(found[:, there], told[place][:, rows])
    sure = np.array([kind in SYMMETRIC for kind in kinds], np.bool_)[found[0]]
    uncertainty = np.array([clocks[place].uncertainty_ns for place in lane.ranks], np.int64)
    some = _any_meeting(ranks, lane)
    return Met(
        group=some.group,
        peers=some.peers,
        arrivals=Arrivals(lane, sure, uncertainty),
        kind=found[0],
        dtype=found[1],
        bytes=found[2],
        even=found[3] > 0,
        kinds=kinds,
        dtypes=dtypes,
    )


def _any_meeting(ranks: Sequence[RankExtract], lane: Lane) -> Meeting:
    column = int(np.flatnonzero(lane.there[0])[0])
    rank = ranks[lane.ranks[column]]
    return rank.meetings[int(rank.collectives.what[lane.place[0, column]])]


def collective_stats(ranks: Sequence[RankExtract], lane: Met, link: float | None) -> list[CollectiveStats]:
    """Kinds, types and sizes of one lane apart, most time first. Where ranks give sizes of their own these are one."""
    size = np.where(lane.even, lane.bytes, NONE)
    distinct, which = np.unique(np.stack([lane.kind, lane.dtype, size]), axis=1, return_inverse=True)
    found = [
        _stats(ranks, lane, np.flatnonzero(which.reshape(-1) == index), link) for index in range(distinct.shape[1])
    ]
    return sorted(found, key=lambda each: -each.total_ns)


def _stats(ranks: Sequence[RankExtract], lane: Met, rows: Int64s, link: float | None) -> CollectiveStats:
    arrivals = lane.arrivals
    transfer = arrivals.transfer[rows]
    kind = lane.kinds[int(lane.kind[rows[0]])]
    sizes = lane.bytes[rows]
    algorithm, best = _bandwidths(sizes, transfer)
    factor = bus_factor(kind, lane.group.size or _all_there(ranks, arrivals.lane))
    fastest = best * factor if best and factor else None
    last, share = _often_last(arrivals, rows)
    p50, p95, top = _skews(arrivals, rows)
    return CollectiveStats(
        group=lane.group.label,
        ranks=_numbers(ranks, arrivals.lane),
        kind=kind,
        dtype=lane.dtypes[int(lane.dtype[rows[0]])],
        bytes=int(np.median(sizes)) if (sizes > 0).all() else None,
        count=len(rows),
        total_ns=int(arrivals.stay[rows].sum()),
        wait_ns=int(arrivals.wait[rows].sum()),
        transfer_min_ns=int(transfer.min()),
        transfer_p50_ns=int(np.median(transfer)),
        transfer_max_ns=int(transfer.max()),
        skew_p50_ns=p50,
        skew_p95_ns=p95,
        skew_max_ns=top,
        algorithm_bytes_per_s=algorithm,
        bus_bytes_per_s=algorithm * factor if algorithm and factor else None,
        bus_best_bytes_per_s=fastest,
        link_share=fastest / link if fastest and link else None,
        last_rank=ranks[last].rank if last is not None else None,
        last_share=share,
    )


def _all_there(ranks: Sequence[RankExtract], lane: Lane) -> int:
    """The size of a group of which the traces tell nothing: who is in it, when nobody is missing; else 0."""
    world = ranks[lane.ranks[0]].world_size
    return len(lane.ranks) if world in (None, len(ranks)) else 0


def _bandwidths(sizes: Int64s, transfer: Int64s) -> tuple[float | None, float | None]:
    """Bytes a second: the median, and that of the fastest tenth; None where size or time are not known."""
    known = (sizes > 0) & (transfer > 0)
    if not known.any():
        return None, None
    each = sizes[known] / (transfer[known] / 1e9)
    return float(np.median(each)), float(np.quantile(each, 0.9))


def _skews(arrivals: Arrivals, rows: Int64s) -> tuple[int | None, int | None, int | None]:
    """Median, 95th percentile and maximum, each only when above what the clocks may be wrong by."""
    skew = arrivals.skew[rows]
    unsure = int((arrivals.skew[rows])[~arrivals.skew_is_sure[rows]].max(initial=-1))
    found = [int(np.quantile(skew, q, method="lower")) for q in (0.5, 0.95, 1)]
    p50, p95, top = (value if value > unsure else None for value in found)
    return p50, p95, top


def _often_last(arrivals: Arrivals, rows: Int64s) -> tuple[int | None, float | None]:
    """The place of the rank that surely came last most often, and its share of those times."""
    columns = arrivals.last_column[rows][arrivals.late_is_sure[rows]]
    if not len(columns):
        return None, None
    counts = np.bincount(columns)
    return arrivals.lane.ranks[int(counts.argmax())], float(counts.max() / counts.sum())


def _numbers(ranks: Sequence[RankExtract], lane: Lane) -> list[int]:
    return sorted(ranks[place].rank for place in lane.ranks)


def group_report(ranks: Sequence[RankExtract], lane: Met, link: float | None) -> GroupReport:
    """One lane as a whole."""
    arrivals = lane.arrivals
    total, wait = int(arrivals.stay.sum()), int(arrivals.wait.sum())
    traced = _numbers(ranks, arrivals.lane)
    members = list(lane.group.ranks) if lane.peers == (NONE, NONE) else sorted(set(lane.peers))
    return GroupReport(
        name=lane.group.label,
        description=lane.group.description if lane.group.name else "",
        source=lane.peers[0] if lane.peers[0] != NONE else None,
        target=lane.peers[1] if lane.peers[1] != NONE else None,
        size=lane.group.size or len(members) or len(traced),
        ranks=members,
        traced=traced,
        missing=sorted(set(members) - {rank.rank for rank in ranks}),
        collectives=len(arrivals.count),
        total_ns=total,
        wait_ns=wait,
        wait_share=wait / total if total else None,
        uncertainty_ns=int(np.sort(arrivals.uncertainty)[-2:].sum()),
        link_bytes_per_s=link,
        unmatched=_unmatched(ranks, arrivals.lane),
    )


def lonely(ranks: Sequence[RankExtract], found: Sequence[Met]) -> list[GroupReport]:
    """Groups in which no two ranks could be found together: of most members the traces are missing."""
    seen = {lane.group.key for lane in found}
    rest: dict[object, tuple[Group, list[int]]] = {}
    for rank in ranks:
        for group in dict.fromkeys(each.group for each in rank.meetings):
            if group.size != 1 and group.key not in seen:
                rest.setdefault(group.key, (group, []))[1].append(rank.rank)
    here = {rank.rank for rank in ranks}
    return [_lonely(group, traced, here) for group, traced in rest.values()]


def _lonely(group: Group, traced: list[int], here: set[int]) -> GroupReport:
    return GroupReport(
        name=group.label,
        description=group.description if group.name else "",
        source=None,
        target=None,
        size=group.size or len(traced),
        ranks=list(group.ranks),
        traced=traced,
        missing=sorted(set(group.ranks) - here),
        collectives=0,
        total_ns=0,
        wait_ns=0,
        wait_share=None,
        uncertainty_ns=0,
        link_bytes_per_s=None,
        unmatched=[],
    )


def _unmatched(ranks: Sequence[RankExtract], lane: Lane) -> list[Unmatched]:
    matched = lane.there.sum(axis=0).tolist()
    return [
        Unmatched(ranks[place].rank, matched[column] + lane.alone[column], lane.alone[column])
        for column, place in enumerate(lane.ranks)
        if lane.alone[column]
    ]


def link_of(ranks: Sequence[RankExtract], lane: Met) -> float | None:
    """Bytes a second that a GPU's links to its neighbours carry in one direction, when all members are on one host.

    They are when the traces name one host for all, or when the job has no more ranks than the host has devices.
    """
    members = [ranks[place] for place in lane.arrivals.lane.ranks]
    known = sheet(members[0].device) if members[0].device else None
    if known is None or len(members) < (lane.group.size if lane.peers == (NONE, NONE) else 2):
        return None
    hosts = {each.host for each in members}
    one = len(hosts) == 1 and None not in hosts
    world, devices = members[0].world_size, members[0].local_devices
    return known.link_bytes_per_s if one or (world is not None and world <= devices) else None
