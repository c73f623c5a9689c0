"""The window of a request: absolute or relative times, and how finely it is looked at."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal

from fastapi import Depends, HTTPException, Query

from warpmeter.queries import QueryError, moment

Tier = Literal["raw", "minute", "hour"]
BUCKETS: Final = 300
"""Steps of a window, about: more than a screen has room for are not worth their bytes."""
STEPS_S: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
RAW_WITHIN: Final = timedelta(minutes=30)
MINUTES_WITHIN: Final = timedelta(days=10)


@dataclass(frozen=True)
class Window:
    """`[since, until)` in UTC, in steps of `step_s` seconds."""

    since: datetime
    until: datetime
    step_s: int

    @property
    def tier(self) -> Tier:
        """Which tables answer it: a step below a minute takes raw samples, one of whole hours the hours."""
        if self.step_s < 60:
            return "raw"
        return "hour" if self.step_s % 3600 == 0 and self.until - self.since > MINUTES_WITHIN else "minute"

    @property
    def before(self) -> "Window":
        """The window of the same length that ends where this one begins."""
        return Window(self.since - (self.until - self.since), self.since, self.step_s)

    def parameters(self) -> dict[str, Any]:
        """As named queries take it."""
        return {"since": self.since.isoformat(), "until": self.until.isoformat(), "step_s": self.step_s}


def step_s(length: timedelta, buckets: int = BUCKETS) -> int:
    """The shortest usual step that cuts `length` into at most `buckets`; below a minute only within half an hour."""
    least = max(1, length.total_seconds() / buckets)
    floor = 1 if length <= RAW_WITHIN else 60
    return next((step for step in STEPS_S if step >= least and step >= floor), STEPS_S[-1])


def window(
    since: Annotated[str, Query(description="Start: `-6h` (s, m, h, d, w before now) or ISO 8601.")] = "-1h",
    until: Annotated[str, Query(description="End: `now`, relative, or ISO 8601.")] = "now",
    step: Annotated[int | None, Query(ge=1, le=86400, description="Seconds; left out: about 300 steps.")] = None,
) -> Window:
    """The window that a request's parameters name; a validation error (422) that names the field when they are none."""
    now = datetime.now(UTC)
    first, last = _moment("since", since, now), _moment("until", until, now)
    if last <= first:
        raise invalid("until", f"until ({last:%F %T}) is not after since ({first:%F %T})", until)
    return Window(first, last, step or step_s(last - first))


def invalid(field: str, why: str, value: object = None) -> HTTPException:
    """A validation error of a query parameter, in the form that FastAPI gives its own."""
    return HTTPException(422, [{"type": "value_error", "loc": ["query", field], "msg": why, "input": value}])


def _moment(field: str, text: str, now: datetime) -> datetime:
    try:
        return datetime.fromisoformat(moment(text, now)).replace(tzinfo=UTC)
    except (QueryError, OverflowError) as error:
        raise invalid(field, str(error), text) from error


Asked = Annotated[Window, Depends(window)]
