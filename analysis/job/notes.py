"""What makes the figures of a job less than whole, in words."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from warpmeter.analysis.job.clocks import Clock
from warpmeter.analysis.job.collectives import POINT_TO_POINT
from warpmeter.analysis.job.extract import RankExtract
from warpmeter.analysis.job.groups import Met
from warpmeter.analysis.job.report import GroupReport
from warpmeter.analysis.job.sequences import meets_others

LISTED: Final = 20
"""How many ranks a note lists by number."""


ALONE: Final = 0.1
"""Of a rank's collectives in a group: so many that no other rank has are more than the ends of a capture."""


def notes_on(
    ranks: Sequence[RankExtract],
    clocks: Sequence[Clock],
    missing: list[int],
    found: Sequence[Met],
    groups: Sequence[GroupReport],
) -> list[str]:
    """One sentence each."""
    said = [
        _missing(missing, len(ranks)),
        _apart(ranks, clocks),
        _unnamed(found),
        _transfers(ranks),
        _several_jobs(ranks),
        *map(_alone, groups),
    ]
    return [each for each in said if each]


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks[:LISTED])) + (", …" if len(ranks) > LISTED else "")


def _missing(missing: list[int], here: int) -> str:
    if not missing:
        return ""
    return (
        f"{len(missing)} of {len(missing) + here} ranks missing: {_listed(missing)}; who came last is told among those "
        "that are here, and time in collectives until the missing ones came counts as transfer"
    )


def _apart(ranks: Sequence[RankExtract], clocks: Sequence[Clock]) -> str:
    apart = [clock.rank for clock in clocks if clock.reference != ranks[0].rank]
    if not apart:
        return ""
    return (
        f"clocks of ranks {_listed(apart)} could not be held against rank {ranks[0].rank}'s: "
        "they share no collectives that match"
    )


def _unnamed(found: Sequence[Met]) -> str:
    if all(lane.group.name for lane in found):
        return ""
    return (
        "process groups are not told for all collectives: those on streams of one number, or of one backend of the "
        "host, are taken for one group's"
    )


def _transfers(ranks: Sequence[RankExtract]) -> str:
    """Point-to-point transfers that do not tell their peers."""
    number = 0
    for rank in ranks:
        lone = [each.kind == POINT_TO_POINT and not meets_others(each, rank.rank) for each in rank.meetings]
        number += int(np.array(lone, np.bool_)[rank.collectives.what].sum()) if lone else 0
    return f"{number:,} point-to-point transfers do not tell who sends to whom: they are left out" if number else ""


def _alone(group: GroupReport) -> str:
    worst = max(group.unmatched, key=lambda each: each.unmatched / each.collectives, default=None)
    if worst is None or worst.unmatched <= ALONE * worst.collectives:
        return ""
    return (
        f"{worst.unmatched:,} of {worst.collectives:,} collectives of rank {worst.rank} in {group.name} were found on "
        "no other rank, and are left out: captures that begin or end apart, or ranks that come to them so far apart "
        "that nobody can tell which belong together"
    )


def _several_jobs(ranks: Sequence[RankExtract]) -> str:
    worlds = sorted({rank.world_size for rank in ranks if rank.world_size is not None})
    return (
        f"these traces tell of jobs of {', '.join(map(str, worlds))} ranks: are they of one?" if len(worlds) > 1 else ""
    )
