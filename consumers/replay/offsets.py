"""Which offsets of a topic hold the rows of a time range: pure functions over what the tables and the broker say."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from warpmeter.consumers.replay.hours import Range
from warpmeter.consumers.span import Partition

SLACK_S: Final = 3600.0
"""A row's time is the host's before it was sent; a message may say so much earlier, where a clock was set back."""


@dataclass(frozen=True)
class Landed:
    """A span that `ingest_batches` tells of: offsets, and the times of its rows in seconds since the epoch."""

    first: int
    last: int
    min_ts: float
    max_ts: float

    def touches(self, wanted: Range) -> bool:
        """Whether it may hold rows of the range."""
        return self.min_ts < wanted.end and self.max_ts >= wanted.start

    def inside(self, wanted: Range) -> bool:
        """Whether all of its rows are in the range."""
        return wanted.start <= self.min_ts and self.max_ts < wanted.end


@dataclass(frozen=True)
class Piece:
    """Offsets `first` to `last` of a partition, both included, to be read. `booked`: `ingest_batches` knows them."""

    where: Partition
    first: int
    last: int
    booked: bool


@dataclass(frozen=True)
class Held:
    """What the broker says of a partition: `low` is the first offset it has, `since` the first one sent SLACK_S before
    the range's start or later, `at_start` the first one sent at its start or later, `end` where ingest goes on: what
    lies there and beyond is not to be read."""

    where: Partition
    low: int
    since: int
    at_start: int
    end: int


def pieces(held: Held, spans: Sequence[Landed], wanted: Range) -> list[Piece]:
    """What to read: all from the range's start on that ingest is done with, but for spans known to be of other times.

    Samples that waited in a spool come up to a day late, so the end of the range says nothing about the last offset.
    """
    touching = [(span.first, span.last) for span in spans if span.touches(wanted)]
    at = max(held.low, min([held.since, *(first for first, _ in touching)]))
    unknown = _outside(at, held.end, sorted((span.first, span.last) for span in spans))
    found = [Piece(held.where, first, last, False) for first, last in unknown]
    for first, last in joined(touching):
        if max(first, at) <= min(last, held.end - 1):
            found.append(Piece(held.where, max(first, at), min(last, held.end - 1), True))
    return sorted(found, key=lambda piece: piece.first)


def _outside(first: int, end: int, known: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The offsets from `first` to before `end` that none of `known`, ascending, covers."""
    for begins, ends in known:
        if begins > first:
            yield first, min(begins, end) - 1
        first = max(first, ends + 1)
        if first >= end:
            return
    if first < end:
        yield first, end - 1


def joined(found: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Runs of offsets, those that touch or overlap as one."""
    runs: list[tuple[int, int]] = []
    for first, last in sorted(found):
        if runs and first <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], max(runs[-1][1], last))
        else:
            runs.append((first, last))
    return runs


def gone(held: Held, spans: Sequence[Landed], wanted: Range) -> str | None:
    """Why the topic does not hold all of the range any more, None when it does as far as can be told."""
    if not held.low:
        return None
    lost = [span for span in spans if span.touches(wanted) and span.first < held.low]
    if lost:
        last = max(span.last for span in lost)
        return f"{held.where} begins at offset {held.low}, and rows of the range came at {lost[0].first}-{last}"
    told = any(span.last < held.low for span in spans)
    if not told and held.at_start <= held.low:
        return f"{held.where} begins at offset {held.low}, after the start of the range"
    return None
