"""The collectives of a job's ranks as rows of `trace_collectives` (sql/migrations/0005_traces.sql)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from warpmeter.analysis.job.activities import ACTIVITIES
from warpmeter.analysis.job.causes import excess
from warpmeter.analysis.job.clocks import clocks
from warpmeter.analysis.job.collectives import Meeting
from warpmeter.analysis.job.extract import RankExtract
from warpmeter.analysis.job.groups import Met, met
from warpmeter.analysis.trace import NONE, Int64s, Places

_BEFORE: Final = {
    "compute": "compute_before_ns",
    "communication": "comm_before_ns",
    "memory": "mem_before_ns",
    "input": "input_before_ns",
    "host": "host_before_ns",
}


def collectives(ranks: Sequence[RankExtract], began_ns: Sequence[int]) -> list[dict[str, Any]]:
    """For each rank the columns of its collectives, matched with those of the others that are here.

    `began_ns`: from when each rank's times count, nanoseconds since the epoch. A collective that was found on no other
    rank says nothing of waiting.
    """
    found = [_Rank(rank, began) for rank, began in zip(ranks, began_ns, strict=True)]
    first = 0
    for lane in met(ranks, clocks(ranks)):
        _meet(ranks, found, lane, first)
        first += len(lane.arrivals.count)
    return [each.columns() for each in found]


class _Rank:
    """One rank's columns in the making; figures of meetings are -1 where there is none."""

    def __init__(self, rank: RankExtract, began_ns: int) -> None:
        self._rank = rank
        self._began = began_ns
        rows = len(rank.collectives)
        self.figures = {name: np.full(rows, NONE, np.int64) for name in _MET}
        self.there = np.zeros(rows, np.bool_)
        self.last = np.zeros(rows, np.bool_)
        self.late_by: list[dict[str, int]] = [{} for _ in range(rows)]

    def columns(self) -> dict[str, Any]:
        """All of them; None for what is not known."""
        own, what = self._rank.collectives, self._rank.collectives.what.tolist()
        meetings = self._rank.meetings
        known = own.since != NONE
        figures = {name: _known(values, values != NONE) for name, values in self.figures.items() if name != "met"}
        return {
            "seq": np.arange(len(own)),
            **_of_meetings([_told(meetings[place]) for place in range(len(meetings))], what),
            "start_ns": own.start - self._began,
            "duration_ns": own.end - own.start,
            **{_BEFORE[name]: _known(getattr(own, name), known) for name in ACTIVITIES},
            **figures,
            "met": np.where(self.there, self.figures["met"], 1),
            "last": self.last.tolist(),
            "late_by": self.late_by,
        }


_MET: Final = ("meeting", "met", "wait_ns", "transfer_ns", "skew_ns", "late_ns", "cost_ns")


def _known(values: Int64s, known: npt.NDArray[np.bool_]) -> list[int | None]:
    return [value if there else None for value, there in zip(values.tolist(), known.tolist(), strict=True)]


def _told(meeting: Meeting) -> dict[str, Any]:
    group = meeting.group
    return {
        "group": group.label,
        "group_ranks": list(group.ranks),
        "group_size": group.size or None,
        "kind": meeting.kind,
        "dtype": meeting.dtype,
        "bytes": None if meeting.bytes == NONE else meeting.bytes,
        "source": None if meeting.peers[0] == NONE else meeting.peers[0],
        "target": None if meeting.peers[1] == NONE else meeting.peers[1],
    }


def _of_meetings(told: Sequence[Mapping[str, Any]], what: Sequence[int]) -> dict[str, list[Any]]:
    return {name: [told[place][name] for place in what] for name in (told[0] if told else {})}


def _meet(ranks: Sequence[RankExtract], found: Sequence[_Rank], lane: Met, first: int) -> None:
    """Enter a lane's meetings, numbered from `first`, with the ranks that were found in them."""
    arrivals = lane.arrivals
    late = np.flatnonzero(arrivals.late_is_sure)
    causes = excess(ranks, arrivals, late)
    skew = np.where(arrivals.skew_is_sure, arrivals.skew, NONE)
    for column, place in enumerate(arrivals.lane.ranks):
        rows = np.flatnonzero(arrivals.lane.there[:, column])
        own, to = found[place], arrivals.lane.place[rows, column]
        own.there[to] = True
        figures = {
            "meeting": first + rows,
            "met": arrivals.count[rows],
            "wait_ns": arrivals.wait[rows, column],
            "transfer_ns": arrivals.transfer[rows],
            "skew_ns": skew[rows],
        }
        for name, values in figures.items():
            own.figures[name][to] = values
        _late(own, lane, column, late, causes)


def _late(own: _Rank, lane: Met, column: int, late: Places, causes: Mapping[str, Int64s]) -> None:
    """Of the meetings in `late` those to which this column's rank came last."""
    arrivals = lane.arrivals
    mine = np.flatnonzero(arrivals.last_column[late] == column)
    to = arrivals.lane.place[late[mine], column]
    own.last[to] = True
    own.figures["late_ns"][to] = arrivals.late[late[mine]]
    own.figures["cost_ns"][to] = arrivals.cost[late[mine]]
    for place, row in zip(to.tolist(), mine.tolist(), strict=True):
        own.late_by[place] = {cause: int(beyond[row]) for cause, beyond in causes.items()}
