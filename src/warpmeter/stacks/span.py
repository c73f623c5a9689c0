"""Which of the two tables a window of stacks is read from: the turns as they came, or whole hours."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

RAW: Final = "stack_samples"
HOURS: Final = "stack_hours"
RAW_WITHIN: Final = timedelta(hours=6)
"""Longer windows are read from the hours: the edges of a window matter less, and its rows are many."""
_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True)
class Span:
    """`[since, until)` in UTC of `windows`, a table or view; of hours it is whole ones that hold what was asked for."""

    windows: str
    since: datetime
    until: datetime

    @property
    def hours(self) -> bool:
        """Whether pid, thread and parts of an hour are not told apart."""
        return self.windows == HOURS

    def asked(self) -> dict[str, str]:
        """As named queries take it."""
        return {"since": self.since.isoformat(), "until": self.until.isoformat(), "windows": self.windows}


def span(since: datetime, until: datetime, kept_from: datetime, *, exact: bool = False) -> Span:
    """Where `[since, until)` is read: turns are there from `kept_from` on.

    `exact`: something is asked for that hours do not keep, so the turns must do, as far as they are there.
    """
    if exact or (until - since <= RAW_WITHIN and since >= kept_from):
        return Span(RAW, since, until)
    first = since.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    last = until.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return Span(HOURS, first, last if last == until else last + _HOUR)
