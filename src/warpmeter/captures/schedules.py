"""Schedules of captures: when each runs and what it asks for, whether it can be meant, and as rows of their topic."""

import math
import time
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, Final

from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from warpmeter.captures import wishes
from warpmeter.captures.wishes import Request
from warpmeter.clock import moment
from warpmeter.schemas.generated.capture_schedules_pb2 import Envelope
from warpmeter.settings import Schedule

CaptureSchedule = Envelope.CaptureSchedule
SINCE: Final = datetime(2020, 1, 1, tzinfo=UTC)
"""Intervals count from then, so that all schedulers mean the same moments."""
SOONEST_S: Final = 1.0
"""Between two runs, at least: each is looked at, and said to be skipped where the one before goes on."""
DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
PUT_OFF: Final = "@"
SETTINGS: Final = "scheduler"
"""`set_by` of a schedule that stands in the scheduler's settings."""
_SAME: Final = ("shapes", "memory", "stacks", "flops", "modules", "process_limit", "duration_ms", "iterations", "count")
_RENAMED: Final = {"job": "job_id"}


def objection(schedule: Schedule) -> str:
    """Why a schedule cannot be used, '' when it can."""
    given = [key for key in ("cron", "every_s", "at") if getattr(schedule, key)]
    if len(given) != 1:
        return "give one of cron, every_s and at"
    if schedule.late_s <= 0 or schedule.jitter_s < 0 or schedule.every_s < 0:
        return "late_s must be above 0, every_s and jitter_s not below"
    if not all(map(math.isfinite, (schedule.late_s, schedule.jitter_s, schedule.every_s))):
        return "every_s, jitter_s and late_s must be numbers of seconds"
    if 0 < schedule.every_s < SOONEST_S:
        return f"every_s must be at least {SOONEST_S:g}: a capture takes longer, and each run beside it is skipped"
    if PUT_OFF in schedule.name or not schedule.name:
        return f"a name without {PUT_OFF!r} is needed"
    try:
        trigger(schedule)
    except (ValueError, LookupError, OSError) as error:
        return f"{given[0]} is not understood: {error}"
    return wishes.objection(request(schedule, SINCE))


def runs_after(schedule: Schedule, now: datetime) -> bool:
    """Whether it runs at all from `now` on: not for a time that has gone by, or a 31st of February.

    Of a schedule that `objection` has nothing against.
    """
    found = trigger(schedule).get_next_fire_time(None, now)
    return found is not None and found >= now


def trigger(schedule: Schedule) -> Any:
    """When it runs, as APScheduler has it. Raises ValueError, LookupError."""
    if schedule.cron:
        minute, hour, day, month, *weekday = schedule.cron.split()
        if len(weekday) != 1:
            raise ValueError("five fields are needed: minute, hour, day, month, weekday")
        return CronTrigger(None, month, day, None, weekdays(weekday[0]), hour, minute, timezone=schedule.timezone)
    if schedule.every_s:
        return IntervalTrigger(seconds=schedule.every_s, start_date=SINCE, timezone=UTC)
    return DateTrigger(datetime.fromtimestamp(moment(schedule.at, 0.0), UTC))


def weekdays(field: str) -> str:
    """cron's weekdays by name: its 0 and 7 are Sunday (crontab(5)), APScheduler's 0 is Monday. Raises ValueError."""
    found: set[int] = set()
    for part in field.lower().split(","):
        span, _, step = part.partition("/")
        first, _, last = ("0-6" if span == "*" else span).partition("-")
        low = _weekday(first)
        high = _weekday(last) if last else (6 if step else low)
        found |= {day % 7 for day in range(low, (high or 7 * bool(low)) + 1, int(step or 1))}
    if not found:
        raise ValueError(f"no weekday is {field}")
    return ",".join(DAYS[day] for day in sorted(found))


def _weekday(text: str) -> int:
    number = DAYS.index(text) if text in DAYS else int(text)
    if not 0 <= number <= 7:
        raise ValueError(f"there is no weekday {text}")
    return number


def request(schedule: Schedule, at: datetime) -> Request:
    """The request of the run that is due `at`."""
    return Request(
        capture_id=f"{schedule.name}-{at.astimezone(UTC):%Y%m%dT%H%M%SZ}", ts=at.timestamp(), action="start",
        requested_by=f"schedule:{schedule.name}", name=schedule.name, job_id=schedule.job, hosts=schedule.hosts,
        where=schedule.where, **{name: getattr(schedule, name) for name in _SAME},
    )  # fmt: skip


def row(schedule: Schedule, set_by: str, action: str = "set") -> CaptureSchedule:
    """A schedule as its topic has it, set or removed now."""
    values = {_RENAMED.get(field.name, field.name): getattr(schedule, field.name) for field in fields(Schedule)}
    return CaptureSchedule(ts=round(time.time(), 3), action=action, set_by=set_by, **values)


def of_row(found: Mapping[str, Any]) -> Schedule:
    """A schedule as the view `schedules` has it."""
    values = {field.name: found[_RENAMED.get(field.name, field.name)] for field in fields(Schedule)}
    return Schedule(**{**values, "hosts": tuple(values["hosts"])})
