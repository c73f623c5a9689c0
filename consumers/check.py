"""Before the first insert of a lane: does what the ledger says agree with what the tables hold?"""

from collections.abc import Sequence
from dataclasses import dataclass

from warpmeter.consumers.flight import Halt
from warpmeter.consumers.lane import Began, Lane
from warpmeter.consumers.sink import Away, Broken, History
from warpmeter.consumers.start import jump, objection, past_window, to_set


@dataclass(frozen=True)
class Checked:
    """The starts of these lanes agree with the tables; replays of those in `skip` have landed long since.

    `passed_over` are offsets (first, last) that somebody left out, by setting the group's offset forward.
    """

    lanes: tuple[Lane, ...]
    skip: tuple[Lane, ...]
    passed_over: tuple[tuple[Lane, int, int], ...] = ()


def check(lanes: Sequence[Lane], history: History, now: float) -> Checked | Away | Halt:
    """Hold the starts of `lanes` against the tables; `now` in seconds since the epoch."""
    if (trouble := history.ready()) is not None:
        return _away_or_halt(trouble)
    skip, passed_over = [], []
    lives = {lane.uuid: lane.where.topic for lane in lanes}
    lasts = {uuid: history.last(topic, uuid) for uuid, topic in lives.items()}
    for lane in lanes:
        began = lane.began
        last = lasts[began.start.uuid]
        if isinstance(last, Away | Broken):
            return _away_or_halt(last)
        if why := objection(began.start, began.entry, last.get(began.start.where.number)):
            return Halt(why)
        if left_out := jump(began.entry, last.get(began.start.where.number)):
            passed_over.append((lane, *left_out))
        match _forgotten(began, history, now):
            case Away() | Broken() as trouble:
                return _away_or_halt(trouble)
            case Halt() as halt:
                return halt
            case True:
                skip.append(lane)
            case False:
                pass
    return Checked(tuple(lanes), tuple(skip), tuple(passed_over))


def _forgotten(began: Began, history: History, now: float) -> bool | Halt | Away | Broken:
    """Whether a pending span is past the store's window and has landed; False: replay it. Halt: nobody knows."""
    pending = began.start.pending
    if pending is None:
        return False
    since = history.inserts_since(pending.span.topic, pending.at)
    if isinstance(since, Away | Broken):
        return since
    if not past_window(pending, now, since):
        return False
    landed = history.landed(pending.span)
    if landed is not False:
        return landed
    return Halt(
        f"{began.start.where} was to insert {pending.span.first}-{pending.span.last} so long ago that the store "
        f"may have forgotten whether it did, and ingest_batches has no such row: look whether the table has rows of "
        f"that time. {to_set(began.start.where, pending.span.last + 1)} if it has, and to {pending.span.first} if not: "
        f"then they are inserted anew"
    )


def _away_or_halt(trouble: Away | Broken) -> Away | Halt:
    return Halt(trouble.why) if isinstance(trouble, Broken) else trouble
