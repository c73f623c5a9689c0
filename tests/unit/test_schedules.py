"""Captures by themselves: when they run, what is made up for, and that a restart forgets nothing."""

import math
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.wait import until
from warpmeter.captures.schedules import SETTINGS, CaptureSchedule, objection, of_row, runs_after, trigger, weekdays
from warpmeter.captures.schedules import row as schedules_row
from warpmeter.captures.wishes import Request
from warpmeter.scheduler.schedules import Schedules, put_off_s
from warpmeter.scheduler.service import ScheduleError
from warpmeter.scheduler.timetable import Timetable
from warpmeter.settings import Schedule, Scheduler

RARELY = Schedule("rarely", cron="0 3 29 2 *", job="j", duration_ms=500)
"""It is not due while tests run: one that is due each hour is so in the midst of a test, some day."""


def soon(seconds: float) -> str:
    """A time as a person writes it."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def settings(folder: Path, *schedules: Schedule) -> Scheduler:
    return Scheduler(data=folder, schedules=schedules)


def first_due(schedules: Schedules | Timetable, within_s: float = 60.0) -> list[Request]:
    """What is due first."""
    found: list[Request] = []

    def look() -> bool:
        found.extend(schedules.due())
        return bool(found)

    until(look, "a run", within_s)
    return found


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"cron": ""}, "one of"),
        ({"every_s": 60.0}, "one of"),
        ({"cron": "0 0 31"}, "cron"),
        ({"cron": "0 25 * * *"}, "cron"),
        ({"timezone": "Mars/Olympus"}, "cron"),
        ({"cron": "", "at": "tomorrow"}, "at"),
        ({"late_s": 0.0}, "late_s"),
        ({"cron": "", "every_s": 0.001}, "at least 1"),
        ({"cron": "", "every_s": math.inf}, "numbers"),
        ({"jitter_s": math.inf}, "numbers"),
        ({"job": ""}, "target"),
        ({"duration_ms": 0}, "duration"),
        ({"name": "a@b"}, "name"),
    ],
)
def test_a_schedule_that_cannot_be_meant_is_refused_with_the_reason(
    change: dict[str, Any], word: str, tmp_path: Path
) -> None:
    wrong = replace(RARELY, **change)
    assert word in objection(wrong)
    with pytest.raises(ScheduleError, match=r"scheduler\.schedules"):
        Schedules(settings(tmp_path, wrong))


@pytest.mark.parametrize(
    ("when", "runs"),
    [
        ({"cron": "0 3 31 2 *"}, False),
        ({"cron": "0 3 29 2 *"}, True),
        ({"cron": "", "at": "2026-01-31T12:00:00Z"}, False),
        ({"cron": "", "at": "2100-01-31T12:00:00Z"}, True),
        ({"cron": "", "every_s": 3600.0}, True),
    ],
)
def test_what_never_runs_is_known(when: dict[str, Any], runs: bool) -> None:
    assert runs_after(replace(RARELY, **when), datetime(2026, 6, 1, tzinfo=UTC)) is runs


def test_two_schedules_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ScheduleError, match="name of its own"):
        Schedules(settings(tmp_path, RARELY, RARELY))


def test_cron_is_in_its_time_zone_and_intervals_begin_at_whole_moments() -> None:
    berlin = trigger(replace(RARELY, cron="30 6 * * 1", timezone="Europe/Berlin"))
    monday = datetime(2026, 1, 5, tzinfo=UTC)
    assert berlin.get_next_fire_time(None, monday).astimezone(UTC) == datetime(2026, 1, 5, 5, 30, tzinfo=UTC)
    every = trigger(replace(RARELY, cron="", every_s=600))
    assert every.get_next_fire_time(None, datetime(2026, 1, 5, 0, 0, 1, tzinfo=UTC)).minute == 10


@pytest.mark.parametrize(
    ("field", "days"),
    [
        ("*", "sun,mon,tue,wed,thu,fri,sat"),
        ("0", "sun"),
        ("7", "sun"),
        ("1-5", "mon,tue,wed,thu,fri"),
        ("5-7", "sun,fri,sat"),
        ("fri-sun", "sun,fri,sat"),
        ("*/2", "sun,tue,thu,sat"),
        ("mon,3", "mon,wed"),
    ],
)
def test_weekdays_are_crons(field: str, days: str) -> None:
    assert weekdays(field) == days


@pytest.mark.parametrize("field", ["8", "5-1", "x", "", "-"])
def test_what_is_no_weekday_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        weekdays(field)


def test_only_the_active_one_runs_and_all_name_a_run_alike(tmp_path: Path) -> None:
    often = replace(RARELY, name="often", cron="", every_s=1.0)
    with (
        closing(Schedules(settings(tmp_path / "a", often))) as active,
        closing(Schedules(settings(tmp_path / "b", often))) as also,
        closing(Schedules(settings(tmp_path / "c", often))) as standing_by,
    ):
        active.elected(True)
        also.elected(True)
        runs: list[set[str]] = [set(), set()]

        def look() -> bool:
            for found, each in zip(runs, (active, also), strict=True):
                found.update(request.capture_id for request in each.due())
            return len(runs[0] & runs[1]) >= 3

        until(look, "the same runs", 90)
        assert standing_by.due() == []
        active.elected(False)
        active.due()
        time.sleep(1.5)  # what must not happen in that time
        assert active.due() == []


def test_what_was_missed_is_made_up_for_once_and_what_is_too_old_is_not(tmp_path: Path) -> None:
    once = Schedule("once", at=soon(1), job="j", duration_ms=500)
    old = Schedule("old", at=soon(-3600), job="j", duration_ms=500)
    often = Schedule("often", every_s=1.0, job="j", duration_ms=500)
    kept = settings(tmp_path, once, old, often)
    Schedules(kept).close()
    time.sleep(3)  # nobody is there meanwhile
    with closing(Schedules(kept)) as again:
        began = datetime.now(UTC)
        again.elected(True)
        found = first_due(again)
        while not any(each.name == "once" for each in found):
            found += first_due(again)
        missed = [each for each in found if each.name == "often" and each.ts < began.timestamp() - 0.5]
        assert len(missed) <= 1, "of several the latest"
        assert not [each for each in found if each.name == "old"]
    with closing(Schedules(settings(tmp_path, often))) as later:
        later.elected(True)
        assert {each.name for each in first_due(later)} == {"often"}, "it ran, and is no more"


def test_jitter_puts_off_by_a_number_that_everybody_knows_and_outlives_a_restart(tmp_path: Path) -> None:
    schedule = Schedule("jittered", at=soon(0.5), jitter_s=3.0, job="j", duration_ms=500)
    at = trigger(schedule).run_date
    offset = put_off_s(schedule, at)
    assert 0 <= offset <= 3
    kept = settings(tmp_path, schedule)
    with closing(Schedules(kept)) as first:
        first.elected(True)
        until(lambda: first.due() or time.time() > at.timestamp() + 0.2, "its time to pass")
        early = first.due()
    with closing(Schedules(kept)) as second:
        second.elected(True)
        (found,) = early or first_due(second)
    assert found.capture_id == f"jittered-{at:%Y%m%dT%H%M%SZ}"
    assert early or time.time() >= at.timestamp() + offset


def test_a_changed_schedule_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    Schedules(settings(tmp_path, RARELY)).close()
    with closing(Schedules(settings(tmp_path, replace(RARELY, cron="", every_s=1.0)))) as changed:
        changed.elected(True)
        assert first_due(changed)[0].name == "rarely"


def test_a_store_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ScheduleError, match="jobs_url"):
        Schedules(replace(settings(tmp_path, RARELY), jobs_url="nonsense://x"))
    with pytest.raises(ScheduleError, match="jobs_url"):
        Schedules(replace(settings(tmp_path / "file" / "x", RARELY)))


def test_what_people_set_is_known_after_a_restart_and_gone_when_they_remove_it(tmp_path: Path) -> None:
    theirs = Schedule("theirs", every_s=1.0, job="j", duration_ms=500)
    with closing(Schedules(settings(tmp_path, RARELY))) as first:
        first.know([theirs])
    with closing(Schedules(settings(tmp_path, RARELY))) as second:
        second.elected(True)
        assert first_due(second)[0].name == "theirs"
        second.know([])
        time.sleep(1.1)
        assert second.due() == []


def test_a_schedule_of_the_settings_is_not_taken_over_by_one_of_its_name(tmp_path: Path) -> None:
    with closing(Schedules(settings(tmp_path, RARELY))) as schedules:
        schedules.know([replace(RARELY, cron="", every_s=1.0), replace(RARELY, name="bad", cron="never")])
        schedules.elected(True)
        time.sleep(1.1)
        assert schedules.due() == []


class Desk:
    """A store that people set schedules in, and what the scheduler told."""

    def __init__(self, *kept: tuple[Schedule, str]) -> None:
        self.kept, self.told = list(kept), list[CaptureSchedule]()

    def timetable(self, settings: Scheduler) -> Timetable:
        return Timetable(settings, lambda: self.kept, self.told.append)


def test_what_the_store_has_runs_and_the_settings_are_told_once(tmp_path: Path) -> None:
    gone = replace(RARELY, name="gone")
    desk = Desk((Schedule("theirs", every_s=1.0, job="j", duration_ms=500), "ann"), (gone, SETTINGS))
    with closing(desk.timetable(settings(tmp_path, RARELY))) as timetable:
        timetable.elected(True)
        assert first_due(timetable)[0].name == "theirs"
    assert [(row.name, row.action) for row in desk.told] == [("rarely", "set"), ("gone", "remove")]


def test_without_any_schedule_nothing_is_loaded_or_written(tmp_path: Path) -> None:
    with closing(Desk().timetable(settings(tmp_path))) as timetable:
        timetable.elected(True)
        until(lambda: timetable.due() == [], "a look")
    assert list(tmp_path.iterdir()) == []


def test_a_schedule_is_the_same_after_its_way_over_the_topic() -> None:
    sent = replace(RARELY, hosts=("a", "b"), stacks=True, jitter_s=2.5)
    row = {name: getattr(schedules_row(sent, "ann"), name) for name in CaptureSchedule.DESCRIPTOR.fields_by_name}
    assert of_row(row) == sent
