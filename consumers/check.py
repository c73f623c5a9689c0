"""Before the first insert of a lane: does what the ledger says agree with what the tables hold?"""

from collections.abc import Sequence
from dataclasses import dataclass

from warpmeter.consumers.flight import Halt, forgotten
from warpmeter.consumers.lane import Lane
from warpmeter.consumers.sink import Away, Broken, History
from warpmeter.consumers.start import Wrong, jump, wrong


@dataclass(frozen=True)
class Checked:
    """The starts of these lanes agree with the tables; replays of those in `skip` have landed long since.

    `passed_over` are offsets (first, last) that somebody left out, by setting the group's offset forward.
    """

    lanes: tuple[Lane, ...]
    skip: tuple[Lane, ...]
    passed_over: tuple[tuple[Lane, int, int], ...] = ()


@dataclass(frozen=True)
class Contradiction:
    """The starts of these lanes do not agree with the tables: with each, what somebody must do, if it is so still."""

    lanes: tuple[tuple[Lane, Wrong], ...]


def check(lanes: Sequence[Lane], history: History, now: float) -> Checked | Contradiction | Away | Halt:
    """Hold the starts of `lanes` against the tables; `now` in seconds since the epoch."""
    if (trouble := history.ready()) is not None:
        return _away_or_halt(trouble)
    skip, passed_over, against = [], [], []
    lives = {lane.uuid: lane.where.topic for lane in lanes}
    lasts = {uuid: history.last(topic, uuid) for uuid, topic in lives.items()}
    for lane in lanes:
        began = lane.began
        last = lasts[began.start.uuid]
        if isinstance(last, Away | Broken):
            return _away_or_halt(last)
        if (found := wrong(began.start, began.entry, last.get(began.start.where.number))) is not None:
            against.append((lane, found))
            continue
        if left_out := jump(began.entry, last.get(began.start.where.number)):
            passed_over.append((lane, *left_out))
        match began.start.pending and forgotten(began.start.pending, history, now):
            case Away() | Broken() as trouble:
                return _away_or_halt(trouble)
            case Wrong() as found:
                against.append((lane, found))
            case True:
                skip.append(lane)
            case _:
                pass
    return Contradiction(tuple(against)) if against else Checked(tuple(lanes), tuple(skip), tuple(passed_over))


def _away_or_halt(trouble: Away | Broken) -> Away | Halt:
    return Halt(trouble.why) if isinstance(trouble, Broken) else trouble
