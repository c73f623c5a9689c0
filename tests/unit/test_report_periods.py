"""Whose period is due when: by the calendar of a time zone, over changes of its clocks, after times without anybody."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpmeter.reports import periods
from warpmeter.settings import ReportSchedule

WEEKLY = ReportSchedule("monday", "fleet-weekly", cron="0 7 * * mon", timezone="Europe/Berlin")
DAILY = ReportSchedule("daily", "host-health", cron="30 2 * * *", timezone="Europe/Berlin", period="day")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def due(schedule: ReportSchedule, since: str, now: str) -> str | None:
    """The label of the period that is due."""
    run = periods.last_run(schedule, utc(since), utc(now))
    return None if run is None else periods.before(run, schedule).label


def test_a_week_is_due_when_its_schedule_runs_and_not_before() -> None:
    assert due(WEEKLY, "2026-11-23T12:00", "2026-11-30T05:59:59") is None
    assert due(WEEKLY, "2026-11-23T12:00", "2026-11-30T06:00:00") == "2026-W48"  # 7:00 in Berlin
    assert due(WEEKLY, "2026-11-23T12:00", "2026-12-06T23:00:00") == "2026-W48"


def test_of_several_that_were_missed_the_latest_is_due() -> None:
    assert due(WEEKLY, "2026-06-01T12:00", "2026-11-30T09:00") == "2026-W48"
    assert due(DAILY, "2026-06-01T12:00", "2026-11-30T09:00") == "2026-11-29"


def test_nothing_is_due_that_was_before_the_schedule() -> None:
    assert due(WEEKLY, "2026-11-30T06:00:00", "2026-11-30T08:00") is None


def test_a_schedule_that_never_runs_is_never_due() -> None:
    assert due(replace(DAILY, cron="0 0 31 2 *"), "2020-01-01T00:00", "2026-11-30T09:00") is None


def test_days_are_as_long_as_the_zone_has_them() -> None:
    spring, autumn = (
        periods.named(day, "Europe/Berlin", utc("2027-01-01T00:00")) for day in ("2026-03-29", "2026-10-25")
    )
    assert (spring.end - spring.start, autumn.end - autumn.start) == (timedelta(hours=23), timedelta(hours=25))
    assert (spring.start, autumn.end) == (utc("2026-03-28T23:00"), utc("2026-10-25T23:00"))


def test_a_run_in_the_hour_that_clocks_skip_or_repeat_is_one_report() -> None:
    """2:30 is not there on 29 March, and twice on 25 October."""
    for day, label in (("2026-03-29", "2026-03-28"), ("2026-10-25", "2026-10-24")):
        since, now = utc(f"{day}T00:00") - timedelta(hours=4), utc(f"{day}T06:00")
        seen = {
            due(DAILY, since.isoformat()[:16], (since + timedelta(minutes=m)).isoformat()[:16])
            for m in range(0, 600, 15)
        }
        assert seen == {None, label}, now


def test_weeks_and_months_are_named_as_the_calendar_does() -> None:
    late = utc("2030-01-01T00:00")
    week = periods.named("2026-W53", "UTC", late)
    assert (week.start, week.end) == (utc("2026-12-28T00:00"), utc("2027-01-04T00:00"))
    month = periods.before(utc("2027-01-01T05:00"), replace(DAILY, period="month", timezone="UTC"))
    assert (month.label, month.start, month.end) == ("2026-12", utc("2026-12-01T00:00"), utc("2027-01-01T00:00"))


@pytest.mark.parametrize("text", ["2026-W54", "2026-13", "2026-02-30", "yesterday", "2026", "", "2026-W1"])
def test_what_is_no_period_is_refused_with_what_is_one(text: str) -> None:
    with pytest.raises(periods.PeriodError, match="2026-W48"):
        periods.named(text, "UTC", utc("2030-01-01T00:00"))


@pytest.mark.parametrize(
    ("cron", "now", "run", "label"),
    [
        ("* * * * *", "2026-11-30T12:00:30", "2026-12-01T00:00", "2026-11-30"),
        ("* * * * *", "2026-11-30T00:00:30", "2026-12-01T00:00", "2026-11-30"),
        ("30 2 * * *", "2026-11-30T02:00", "2026-11-30T02:30", "2026-11-29"),
        ("30 2 * * *", "2026-11-30T02:30", "2026-12-01T02:30", "2026-11-30"),
        ("0 */6 * * *", "2026-11-30T07:00", "2026-12-01T00:00", "2026-11-30"),
        ("30 2 * * mon", "2026-11-30T03:00", "2026-12-07T02:30", "2026-12-06"),
    ],
)
def test_the_next_new_report_is_not_that_of_a_period_which_has_one(cron: str, now: str, run: str, label: str) -> None:
    found = periods.next_new(replace(DAILY, cron=cron, timezone="UTC"), utc(now))
    assert found is not None
    assert (found[0], found[1].label) == (utc(run), label)


def test_the_current_period_is_named_apart_from_its_report() -> None:
    at = utc("2026-11-30T19:15")
    week = periods.so_far(at, replace(WEEKLY, timezone="UTC"))
    assert (week.start, week.end) == (utc("2026-11-30T00:00"), utc("2026-12-07T00:00"))
    assert week.label == "2026-W49-until-20261130T191500Z"
    for period, start, end in (
        ("day", "2026-11-29T23:00", "2026-11-30T23:00"), ("month", "2026-10-31T23:00", "2026-11-30T23:00"),
    ):  # fmt: skip
        found = periods.current(at, replace(WEEKLY, period=period))  # type: ignore[arg-type]
        assert (found.start, found.end) == (utc(start), utc(end))


def test_a_period_that_goes_on_is_refused() -> None:
    with pytest.raises(periods.PeriodError, match="not over"):
        periods.named("2026-W48", "UTC", utc("2026-11-29T23:59"))


@given(
    now=st.datetimes(datetime(2025, 1, 1), datetime(2027, 12, 31)),
    back=st.integers(0, 50_000),
    cron=st.sampled_from(["0 7 * * mon", "30 2 * * *", "*/20 3-5 1,15 * *", "0 0 1 * *", "15 23 * * 0,3"]),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/Los_Angeles", "Asia/Kolkata", "Australia/Lord_Howe"]),
)
def test_the_last_run_is_the_last_that_the_trigger_gives(now: datetime, back: int, cron: str, zone: str) -> None:
    schedule, at = replace(DAILY, cron=cron, timezone=zone), now.replace(tzinfo=UTC)
    since, expected = at - timedelta(minutes=back), None
    run = periods.next_run(schedule, since)
    while run is not None and run <= at:
        expected, run = run, periods.next_run(schedule, run)
    assert periods.last_run(schedule, since, at) == expected
    following = periods.next_run(schedule, at)
    assert following is not None
    assert following > at


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"cron": "0 7 * *"}, "five fields"), ({"cron": "0 25 * * *"}, "not understood"),
        ({"cron": "0 0 31 2 *"}, "no day that there is"), ({"timezone": "Europe/Berlim"}, "no time zone"),
        ({"where": "user = (SELECT 1)"}, "where"), ({}, ""),
    ],
)  # fmt: skip
def test_a_schedule_that_cannot_be_meant_is_refused(change: dict[str, str], why: str) -> None:
    said = periods.objection(replace(WEEKLY, **change))  # type: ignore[arg-type]
    assert bool(said) == bool(why)
    assert why in said
