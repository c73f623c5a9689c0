"""The time range of a replay, and the hours that it is made of."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

HOUR_S: Final = 3600
"""The coarsest window of a rollup: a part of one can be neither deleted nor made again."""


@dataclass(frozen=True)
class Range:
    """Rows with `start` <= ts < `end`, seconds since the epoch, both on the hour."""

    start: int
    end: int

    def __str__(self) -> str:
        return f"{said(self.start)} to {said(self.end)}"

    @property
    def hours(self) -> Iterator["Range"]:
        """Its hours, in order."""
        return (Range(at, at + HOUR_S) for at in range(self.start, self.end, HOUR_S))

    def inside(self, other: "Range") -> bool:
        """Every hour of it is in `other`."""
        return other.start <= self.start and self.end <= other.end

    @property
    def of_rows(self) -> str:
        """The SQL condition on a raw table's rows."""
        return f"ts >= toDateTime64({self.start}, 3, 'UTC') AND ts < toDateTime64({self.end}, 3, 'UTC')"

    @property
    def of_windows(self) -> str:
        """The SQL condition on a rollup's rows."""
        return f"window >= toDateTime({self.start}, 'UTC') AND window < toDateTime({self.end}, 'UTC')"


def widened(start: float, end: float) -> Range:
    """The whole hours that hold [start, end), seconds since the epoch; raises ValueError for an empty one."""
    if not start < end:
        raise ValueError(f"the range ends ({said(end)}) before it begins ({said(start)}): swap --from and --to")
    return Range(int(start // HOUR_S) * HOUR_S, -int(-end // HOUR_S) * HOUR_S)


def said(at: float) -> str:
    """A time as people read it, UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def command(topic: str, wanted: Range) -> str:
    """The replay of these hours, to be pasted into a shell."""
    first, last = (datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%MZ") for at in (wanted.start, wanted.end))
    return f"warpmeter replay --topic {topic} --from {first} --to {last}"
