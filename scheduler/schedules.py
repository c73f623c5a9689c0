"""Captures by themselves: by cron, interval or once, on APScheduler with a job store that outlives the process.

When a run is next due is in the store (SQLAlchemy's, which APScheduler needs for any SQL database: SQLite in a file by
default, or one that several schedulers share). Only the active scheduler runs them. A run's capture is named by its
schedule and its time, so a run that two schedulers believe is theirs is one capture.

- cron: of day and weekday both must hold.
- Missed runs (nobody was active): the latest of them is made up for when it is not older than `late_s`.
- Overlap: a run is skipped while a capture of the same schedule goes on.
- Jitter: the run is put off by up to `jitter_s`, by a number that follows from its name and time; that it is put off is
  in the store, too.
"""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zlib import crc32

from apscheduler.executors.base import BaseExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.base import BaseScheduler
from apscheduler.triggers.date import DateTrigger
from sqlalchemy.exc import SQLAlchemyError

from warpmeter import log
from warpmeter.captures.schedules import PUT_OFF, objection, request, trigger
from warpmeter.captures.wishes import Request
from warpmeter.scheduler.service import ScheduleError
from warpmeter.settings import Schedule, Scheduler

ASK_EVERY_S: Final = 1.0
"""Somebody else may have put something into the store."""
AWAY_S: Final = 10.0
FIXED: Final = "settings"
SET: Final = "set"
"""Where a schedule in the store of times is from."""
_RUNS: Final = f"{__name__}:run"


def run(*_: str) -> None:
    """What the store has of a job to call: its run is taken by `_Taken` instead."""


class _Taken(BaseExecutor):  # type: ignore[misc]
    """Runs nothing, and says what is due: names and times."""

    def __init__(self) -> None:
        super().__init__()
        self.due: list[tuple[str, datetime]] = []

    def _do_submit_job(self, job: Any, run_times: Sequence[datetime]) -> None:
        self.due.append((job.id, run_times[-1]))
        self._run_job_success(job.id, [])


class _Unhurried(BaseScheduler):  # type: ignore[misc]
    """APScheduler without a thread of its own: one that stands by and is stopped would take what is due along."""

    def wakeup(self) -> None:
        """Nobody sleeps here."""

    def shutdown(self, wait: bool = True) -> None:
        """Let go of the store."""
        super().shutdown(wait)

    def take(self) -> float:
        """Hand what is due to the executor; seconds until there can be more."""
        wait_s = self._process_jobs()
        return ASK_EVERY_S if wait_s is None else min(float(wait_s), ASK_EVERY_S)


def put_off_s(schedule: Schedule, at: datetime) -> float:
    """By how much a run is later than its time: 0 to `jitter_s`, the same for everybody who asks."""
    return schedule.jitter_s * crc32(f"{schedule.name} {at.timestamp()}".encode()) / 0xFFFFFFFF


class Schedules:
    """All schedules: of the settings, and what `know` was told, which a restart remembers. `due` is asked often,
    `elected` told when that changes; `close` at the end.

    Raises ScheduleError at its making.
    """

    def __init__(self, settings: Scheduler) -> None:
        self._fixed = {schedule.name: schedule for schedule in settings.schedules}
        for schedule in settings.schedules:
            if why := objection(schedule):
                raise ScheduleError(f"scheduler.schedules {schedule.name!r}: {why}")
        if len(self._fixed) != len(settings.schedules):
            raise ScheduleError("scheduler.schedules: each needs a name of its own")
        self._log = log.get("scheduler")
        self._taken = _Taken()
        self._refused: dict[str, Schedule] = {}
        self._active, self._next = False, 0.0
        self._apscheduler = _Unhurried(timezone=UTC)
        self._apscheduler.add_executor(self._taken)
        try:
            self._apscheduler.add_jobstore(SQLAlchemyJobStore(_url(settings), tablename="warpmeter_schedules"))
            self._apscheduler.start()
            self._known = {**dict(self._remembered()), **self._fixed}
            self._agree()
        except (SQLAlchemyError, OSError, ImportError) as error:
            raise ScheduleError(f"the times of the schedules cannot be kept (scheduler.jobs_url): {error}") from error

    def know(self, others: Sequence[Schedule]) -> None:
        """Those that people have set, all of them; one of the settings' names stays the settings'."""
        usable = {each.name: each for each in others if self._can_be_meant(each)}
        known = {**usable, **self._fixed}
        if known == self._known:
            return
        self._known, self._next = known, 0.0
        try:
            self._agree()
        except SQLAlchemyError as error:
            self._known = {}  # so that the next word is acted on, whatever it is
            self._away(error)

    def _can_be_meant(self, schedule: Schedule) -> bool:
        why = objection(schedule)
        if why and self._refused.get(schedule.name) != schedule:
            self._refused[schedule.name] = schedule
            self._log.warning("a schedule that cannot be used", schedule=schedule.name, why=why)
        return not why

    def _remembered(self) -> Iterator[tuple[str, Schedule]]:
        """What was known before, of what people have set."""
        for job in self._apscheduler.get_jobs():
            if list(job.args[1:]) == [SET]:
                values = json.loads(job.args[0])
                yield job.id, Schedule(**{**values, "hosts": tuple(values["hosts"])})

    def _agree(self) -> None:
        """The store has what is known; what is unchanged keeps its next time."""
        kept = {job.id: job for job in self._apscheduler.get_jobs()}
        for name, job in kept.items():
            if name.partition(PUT_OFF)[0] not in self._known:
                job.remove()
        for name, schedule in self._known.items():
            told = [json.dumps(asdict(schedule)), FIXED if name in self._fixed else SET]
            if name not in kept or list(kept[name].args) != told:
                self._add(name, trigger(schedule), told)

    def _add(self, name: str, when: Any, args: Sequence[str] = ()) -> None:
        self._apscheduler.add_job(
            _RUNS, when, id=name, args=list(args), coalesce=True, replace_existing=True,
            misfire_grace_time=None,  # `_made` looks at that
        )  # fmt: skip

    def elected(self, active: bool) -> None:
        """This process is the active scheduler, or no more."""
        self._active, self._next = active, 0.0

    def due(self) -> list[Request]:
        """Requests of the runs that are due; those that are put off come later."""
        if not self._active or time.monotonic() < self._next:
            return []
        try:
            self._next = time.monotonic() + self._apscheduler.take()
            taken, self._taken.due = self._taken.due, []
            return [made for name, at in taken for made in self._made(name, at)]
        except SQLAlchemyError as error:
            self._away(error)
            return []

    def _away(self, error: SQLAlchemyError) -> None:
        self._log.warning("the store of the schedules is away: tried again", why=str(error).splitlines()[0])
        self._next = time.monotonic() + AWAY_S

    def _made(self, name: str, at: datetime) -> list[Request]:
        plain, _, nominal = name.partition(PUT_OFF)
        schedule = self._known.get(plain)
        if schedule is None:
            return []
        late_s = (datetime.now(UTC) - at).total_seconds()
        if late_s > schedule.late_s:
            self._log.warning("missed: too late to make up for", schedule=plain, late_s=round(late_s))
            return []
        if nominal:
            return [request(schedule, datetime.fromtimestamp(float(nominal), UTC))]
        if not schedule.jitter_s:
            return [request(schedule, at)]
        later = at + timedelta(seconds=put_off_s(schedule, at))
        self._add(f"{name}{PUT_OFF}{at.timestamp()}", DateTrigger(later))
        self._next = 0.0
        return []

    def close(self) -> None:
        """Let go of the store, where what is due stays."""
        self._apscheduler.shutdown(wait=False)


def _url(settings: Scheduler) -> str:
    if settings.jobs_url:
        return settings.jobs_url
    settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    return f"sqlite:///{settings.data / 'schedules.sqlite'}"
