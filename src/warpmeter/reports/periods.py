"""Periods of reports, by the calendar of a time zone, and when their schedules run. Pure; a clock is given.

What is due follows from the schedule alone: nothing has to be remembered of a run that was missed but that its report
is not there.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger

from warpmeter.captures import conditions
from warpmeter.captures.schedules import weekdays
from warpmeter.settings import ReportSchedule

FIELDS: Final = 5
LOOK_BACK: Final = timedelta(days=800)
"""Of a cron that has not run for so long, or never does, nothing is due."""
MOMENT: Final = timedelta(microseconds=1)
FORMS: Final = "2026-W48 (a week), 2026-11-23 (a day), 2026-11 (a month), current (the one that goes on)"


class PeriodError(ValueError):
    """That is no period that a report can be made of; the message says why, and what is one."""


@dataclass(frozen=True)
class Window:
    """From `start` until before `end`, in UTC. `label`: its name, 2026-W48 (a week), 2026-11-23, 2026-11."""

    start: datetime
    end: datetime
    label: str


def trigger(schedule: ReportSchedule) -> Any:
    """When a schedule runs, as APScheduler has it. Raises ValueError, LookupError."""
    fields = schedule.cron.split()
    if len(fields) != FIELDS:
        raise ValueError("five fields are needed: minute, hour, day, month, weekday")
    minute, hour, day, month, weekday = fields
    return CronTrigger(None, month, day, None, weekdays(weekday), hour, minute, timezone=ZoneInfo(schedule.timezone))


def objection(schedule: ReportSchedule) -> str:
    """Why a schedule cannot be meant, '' when it can: its cron, time zone and condition."""
    if schedule.where and (why := conditions.objection(schedule.where)):
        return f"where: {why}"
    try:
        ZoneInfo(schedule.timezone)
    except (LookupError, ValueError, OSError):
        return f"there is no time zone {schedule.timezone!r}: e.g. Europe/Berlin"
    if not schedule.cron:
        return ""
    try:
        found = trigger(schedule).get_next_fire_time(None, datetime(2026, 1, 1, tzinfo=UTC))
    except (ValueError, LookupError, OSError) as error:
        return f"cron is not understood: {error}"
    return "" if found is not None else "cron names no day that there is"


def next_run(schedule: ReportSchedule, now: datetime) -> datetime | None:
    """The next time after `now`; None for a report that is made when a job ends."""
    if not schedule.cron:
        return None
    return _next(trigger(schedule), now)


def _next(when: Any, after: datetime) -> datetime | None:
    """In UTC at each step: within an hour that clocks repeat, APScheduler takes the second for the first."""
    found = when.get_next_fire_time(None, after.astimezone(UTC) + MOMENT)
    return None if found is None else found.astimezone(UTC)


def last_run(schedule: ReportSchedule, since: datetime, now: datetime) -> datetime | None:
    """The latest time after `since` and not after `now`. Of several that were missed it is the one to make up for."""
    when, floor, back = trigger(schedule), max(since, now - LOOK_BACK), timedelta(hours=1)
    first = _next(when, floor)
    if first is None or first > now:
        return None
    while True:
        found, at = None, _next(when, max(now - back, floor))
        while at is not None and at <= now:
            found, at = at, _next(when, at)
        if found is not None:
            return found
        back *= 4


def before(at: datetime, schedule: ReportSchedule) -> Window:
    """The last whole period before `at`, as the schedule's time zone has its days."""
    zone = ZoneInfo(schedule.timezone)
    day = at.astimezone(zone).date()
    match schedule.period:
        case "day":
            return of_day(day - timedelta(days=1), zone)
        case "week":
            return of_week(day - timedelta(days=day.weekday() + 7), zone)
        case "month":
            return of_month((day.replace(day=1) - timedelta(days=1)).replace(day=1), zone)


def current(at: datetime, schedule: ReportSchedule) -> Window:
    """The period that `at` is in."""
    zone = ZoneInfo(schedule.timezone)
    day = at.astimezone(zone).date()
    match schedule.period:
        case "day":
            return of_day(day, zone)
        case "week":
            return of_week(day - timedelta(days=day.weekday()), zone)
        case "month":
            return of_month(day.replace(day=1), zone)


def so_far(at: datetime, schedule: ReportSchedule) -> Window:
    """The period that `at` is in, under a name of its own: what is made of it now is not its report when it is over."""
    found = current(at, schedule)
    return Window(found.start, found.end, f"{found.label}-until-{at.astimezone(UTC):%Y%m%dT%H%M%SZ}")


def next_new(schedule: ReportSchedule, now: datetime) -> tuple[datetime, Window] | None:
    """The next run with a report that no run before has made, and its period: a cron that runs more often than its
    period makes one a period. None: made when a job ends, or never."""
    run = next_run(schedule, now)
    if run is None:
        return None
    since = max(before(now, schedule).end, now - LOOK_BACK)
    if before(run, schedule) == before(now, schedule) and last_run(schedule, since - MOMENT, now) is not None:
        run = next_run(schedule, current(now, schedule).end - MOMENT)
    return None if run is None else (run, before(run, schedule))


def _midnight(day: date, zone: tzinfo) -> datetime:
    return datetime.combine(day, time(), zone).astimezone(UTC)


def of_day(day: date, zone: tzinfo) -> Window:
    """One day: 23 or 25 hours where clocks are changed."""
    return Window(_midnight(day, zone), _midnight(day + timedelta(days=1), zone), day.isoformat())


def of_week(monday: date, zone: tzinfo) -> Window:
    """Monday to Monday, named as ISO 8601 does."""
    year, week, _ = monday.isocalendar()
    return Window(_midnight(monday, zone), _midnight(monday + timedelta(days=7), zone), f"{year}-W{week:02}")


def of_month(first: date, zone: tzinfo) -> Window:
    """A month of the calendar."""
    following = (first + timedelta(days=32)).replace(day=1)
    return Window(_midnight(first, zone), _midnight(following, zone), f"{first:%Y-%m}")


def named(text: str, timezone: str, now: datetime) -> Window:
    """The period of that name. Raises PeriodError where it is none, or is not over."""
    try:
        found = _named(text, ZoneInfo(timezone))
    except (ValueError, LookupError) as error:
        raise PeriodError(f"{text!r} is no period: {FORMS}") from error
    if found.end > now:
        raise PeriodError(
            f"{text} is not over: it ends {found.end:%Y-%m-%d %H:%M} UTC; `current` is what is there by now"
        )
    return found


def _named(text: str, zone: tzinfo) -> Window:
    if week := re.fullmatch(r"(\d{4})-W(\d{2})", text):
        return of_week(date.fromisocalendar(int(week[1]), int(week[2]), 1), zone)
    if re.fullmatch(r"\d{4}-\d{2}", text):
        return of_month(date.fromisoformat(f"{text}-01"), zone)
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        return of_day(date.fromisoformat(text), zone)
    raise PeriodError(text)
