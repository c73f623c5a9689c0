"""A job of several ranks from what each one's trace tells: clocks, collectives, stragglers, balance, who is missing."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Final

from warpmeter.analysis.job.clocks import Clock, clocks
from warpmeter.analysis.job.extract import RankExtract, extract
from warpmeter.analysis.job.groups import Met, collective_stats, group_report, link_of, lonely, met
from warpmeter.analysis.job.notes import notes_on
from warpmeter.analysis.job.report import Balance, JobReport, RankClock, RankLoad
from warpmeter.analysis.job.stragglers import skewed, stragglers

__all__ = ["JobReport", "RankExtract", "extract", "job"]

COMPARED: Final = (
    "span_ns",
    "busy_ns",
    "compute_ns",
    "comm_ns",
    "exposed_comm_ns",
    "mem_ns",
    "idle_ns",
    "input_ns",
    "waited_ns",
    "kernels",
    "step_ns",
)
"""Figures of `RankLoad` whose balance is told."""


def job(extracts: Sequence[RankExtract]) -> JobReport:
    """What holds of all ranks together; also of one alone, which then meets nobody. Raises ValueError for none."""
    if not extracts:
        raise ValueError("a job has at least one rank")
    ranks, notes = _each_once(extracts)
    world = max((rank.world_size for rank in ranks if rank.world_size is not None), default=None)
    times = clocks(ranks)
    found = list(met(ranks, times))
    links = [link_of(ranks, lane) for lane in found]
    waited = _waited(ranks, found)
    loads = [_load(rank, waited[place]) for place, rank in enumerate(ranks)]
    missing = sorted(set(range(world or 0)) - {rank.rank for rank in ranks})
    groups = [group_report(ranks, lane, link) for lane, link in zip(found, links, strict=True)]
    stats = [each for lane, link in zip(found, links, strict=True) for each in collective_stats(ranks, lane, link)]
    return JobReport(
        world_size=world,
        ranks=[rank.rank for rank in ranks],
        missing_ranks=missing,
        reference_rank=ranks[0].rank,
        clocks=[_told(clock) for clock in times],
        groups=sorted((*groups, *lonely(ranks, found)), key=lambda each: -each.total_ns),
        collectives=sorted(stats, key=lambda each: -each.total_ns),
        skewed=skewed(ranks, found),
        stragglers=stragglers(ranks, found, waited),
        loads=loads,
        balance=_balance(loads),
        notes=[*notes, *notes_on(ranks, times, missing, found, groups)],
    )


def _each_once(extracts: Sequence[RankExtract]) -> tuple[list[RankExtract], list[str]]:
    """Ranks in order; of a rank that came twice the first file."""
    chosen: dict[int, RankExtract] = {}
    notes = []
    for each in extracts:
        if each.rank in chosen:
            notes.append(
                f"rank {each.rank} is in two files, {chosen[each.rank].file} and {each.file}: the second was left out"
            )
        else:
            chosen[each.rank] = each
    return [chosen[rank] for rank in sorted(chosen)], notes


def _told(clock: Clock) -> RankClock:
    return RankClock(**{column.name: getattr(clock, column.name) for column in fields(RankClock)})


def _waited(ranks: Sequence[RankExtract], found: Sequence[Met]) -> list[int]:
    """What each rank waited for others, over all lanes."""
    waited = [0] * len(ranks)
    for lane in found:
        for place, wait in zip(lane.arrivals.lane.ranks, lane.arrivals.wait.sum(axis=0).tolist(), strict=True):
            waited[place] += wait
    return waited


def _load(rank: RankExtract, waited: int) -> RankLoad:
    figures = {column.name: getattr(rank.figures, column.name) for column in fields(rank.figures)}
    return RankLoad(
        rank=rank.rank,
        file=rank.file,
        host=rank.host,
        device=rank.device,
        collectives=len(rank.collectives),
        waited_ns=waited,
        **figures,
    )


def _balance(loads: Sequence[RankLoad]) -> list[Balance]:
    """Each figure over the ranks that have it, when two or more do."""
    found = []
    for name in COMPARED:
        having = [(getattr(load, name), load.rank) for load in loads if getattr(load, name) is not None]
        if len(having) > 1:
            least, most = min(having, key=lambda one: one[0]), max(having, key=lambda one: one[0])
            mean = sum(value for value, _ in having) / len(having)
            found.append(Balance(name, mean, *least, *most, most[0] / mean - 1 if mean else None))
    return found
