"""The window of a request: absolute or relative times, and how finely it is looked at."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal

from fastapi import Depends, HTTPException, Query

from warpmeter.queries import QueryError, moment
from warpmeter.web.request.context import Configured

Tier = Literal["raw", "minute", "hour"]
BUCKETS: Final = 300
"""Steps of a window, about: more than a screen has room for are not worth their bytes."""
MOST_BUCKETS: Final = 2000
"""Steps that may be asked for."""
SPARK: Final = 30
"""Steps of a small line in a table, at most."""
STEPS_S: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
RAW_WITHIN: Final = timedelta(minutes=30)
SETTLED: Final = timedelta(minutes=2)
"""After so long the rows of a window have come, but for those of hosts that were cut off."""
WINDOWS_S: Final = {"minute": 60, "hour": 3600}
SUFFIX: Final = {"minute": "1m", "hour": "1h"}


@dataclass(frozen=True)
class Window:
    """`[since, until)` in UTC, in steps of `step_s` seconds, as somebody asked for it at `now`."""

    since: datetime
    until: datetime
    step_s: int
    now: datetime

    @property
    def tier(self) -> Tier:
        """Which tables answer it: a step below a minute takes raw samples, one of whole hours the hours."""
        if self.step_s < 60:
            return "raw"
        return "hour" if self.step_s % 3600 == 0 else "minute"

    @property
    def before(self) -> "Window":
        """The window of the same length that ends where this one begins."""
        return Window(self.since - (self.until - self.since), self.since, self.step_s, self.now)

    @property
    def spark(self) -> "Window":
        """The same in few steps, of minutes or hours."""
        return Window(self.since, self.until, step_s(self.until - self.since, SPARK, 60), self.now)

    @property
    def closed(self) -> bool:
        """It lies in the past, so its answer hardly changes any more."""
        return self.until + SETTLED <= self.now

    @property
    def first(self) -> int:
        """Where its first step begins: `since` rounded down to a whole step, in seconds since the epoch."""
        return int(self.since.timestamp()) // self.step_s * self.step_s

    @property
    def times(self) -> list[int]:
        """Where its steps begin, in seconds since the epoch; the last one holds the second before `until`."""
        return list(range(self.first, int(self.until.timestamp()), self.step_s))

    def parameters(self) -> dict[str, Any]:
        """As named queries take it."""
        return {"since": self.since.isoformat(), "until": self.until.isoformat(), "step_s": self.step_s}


def step_s(length: timedelta, buckets: int = BUCKETS, floor: int = 1) -> int:
    """The shortest usual step of at least `floor` seconds that cuts `length` into at most `buckets`."""
    least = max(floor, length.total_seconds() / buckets)
    return next((step for step in STEPS_S if step >= least), STEPS_S[-1])


def window(
    settings: Configured,
    since: Annotated[str, Query(description="Start: `-6h` (s, m, h, d, w before now) or ISO 8601.")] = "-1h",
    until: Annotated[str, Query(description="End: `now`, relative, or ISO 8601.")] = "now",
    step: Annotated[
        int | None,
        Query(
            ge=1, le=86400, description="Seconds, below 60 or whole minutes; left out: about 300 steps.", examples=[300]
        ),
    ] = None,
) -> Window:
    """The window that a request's parameters name; a validation error (422) that names the field when they are none."""
    now = datetime.now(UTC).replace(microsecond=0)
    first, last = moment_of("since", since, now), moment_of("until", until, now)
    if last <= first:
        raise invalid("until", f"until ({last:%F %T}) is not after since ({first:%F %T})", until)
    length = last - first
    if step is not None:
        return Window(first, last, _asked(step, length), now)
    store = settings.store
    kept = ((store.minute_ttl_days, 3600), (store.raw_ttl_days, 60))
    floor = next(
        (floor for days, floor in kept if now - first > timedelta(days=days)), 1 if length <= RAW_WITHIN else 60
    )
    return Window(first, last, step_s(length, floor=floor), now)


def _asked(step: int, length: timedelta) -> int:
    if step > 60 and step % 60:
        raise invalid("step", f"a step is less than a minute or whole minutes; {step} s is neither", step)
    if length.total_seconds() / step > MOST_BUCKETS:
        least = step_s(length, MOST_BUCKETS)
        raise invalid("step", f"{length} in steps of {step} s is more than {MOST_BUCKETS} steps; take {least}", step)
    return step


def invalid(field: str, why: str, value: object = None) -> HTTPException:
    """A validation error of a query parameter, in the form that FastAPI gives its own."""
    return HTTPException(422, [{"type": "value_error", "loc": ["query", field], "msg": why, "input": value}])


def missing(where: Literal["path", "query"], field: str, why: str, value: object) -> HTTPException:
    """What a parameter names is not there, in the form of a validation error."""
    return HTTPException(404, [{"type": "missing", "loc": [where, field], "msg": why, "input": value}])


def moment_of(field: str, text: str, now: datetime) -> datetime:
    """A time as a parameter says it; a validation error that names the field when it is none that tables take."""
    try:
        found = datetime.fromisoformat(moment(text, now)).replace(tzinfo=UTC)
    except (QueryError, OverflowError, ValueError) as error:
        raise invalid(field, str(error), text) from error
    if not KEPT_FROM <= found < KEPT_UNTIL:
        raise invalid(field, f"{text} is not between {KEPT_FROM:%F} and {KEPT_UNTIL:%F}", text)
    return found


KEPT_FROM: Final = datetime(2020, 1, 1, tzinfo=UTC)
KEPT_UNTIL: Final = datetime(2100, 1, 1, tzinfo=UTC)
"""The times that the tables take."""

Asked = Annotated[Window, Depends(window)]
