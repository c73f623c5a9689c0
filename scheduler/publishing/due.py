"""Which reports are to be made now. Pure but for the questions to the store that it is handed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from warpmeter.reports import periods
from warpmeter.reports.said import ReportEvent
from warpmeter.scheduler.publishing.book import Book
from warpmeter.settings import ReportSchedule

JOBS_BACK: Final = timedelta(days=3)
"""Jobs that ended longer ago, while no scheduler was there, are not made up for."""


@dataclass(frozen=True)
class Wanted:
    """A report that a schedule wants: `start` and `end` are its period, or the life of job `subject`. `by`: its
    schedule's name, '' when somebody asks by hand. `run`: when the schedule ran, if it is one by the calendar.
    """

    report_id: str
    schedule: ReportSchedule
    start: datetime
    end: datetime
    subject: str = ""
    by: str = ""
    run: datetime | None = None

    def event(self, state: str, ts: float, **more: object) -> ReportEvent:
        """What is said of it."""
        return ReportEvent(
            report_id=self.report_id, ts=round(ts, 3), schedule=self.by, report=self.schedule.report,
            subject=self.subject, period_start=self.start.timestamp(), period_end=self.end.timestamp(), state=state,
            **more,  # type: ignore[arg-type]
        )  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """A job that ended."""

    job_id: str
    started_at: datetime
    ended_at: datetime


Jobs = Callable[[ReportSchedule, datetime, datetime], Sequence[Ended]]
"""Jobs of a schedule that ended after the first and until the second time, the oldest first."""


def new(schedule: ReportSchedule, now: float) -> ReportEvent:
    """What is said of a schedule at first sight: what was before it is not made up for."""
    return ReportEvent(
        report_id=f"{schedule.name}/new", ts=round(now, 3), schedule=schedule.name, report=schedule.report,
        period_start=round(now, 3), period_end=round(now, 3), state="skipped",
        why="the schedule is new: its first report is that of its next run",
    )  # fmt: skip


def of_period(schedule: ReportSchedule, window: periods.Window, by: str, run: datetime | None = None) -> Wanted:
    """The report of a period."""
    return Wanted(f"{schedule.name}/{window.label}", schedule, window.start, window.end, by=by, run=run)


def of_job(schedule: ReportSchedule, job: Ended, by: str) -> Wanted:
    """The report of a job. An ended job has lived for a moment at least."""
    end = max(job.ended_at, job.started_at + timedelta(seconds=1))
    return Wanted(f"{schedule.name}/{job.job_id}", schedule, job.started_at, end, job.job_id, by)


def wanted(
    schedules: Sequence[ReportSchedule], book: Book, now: float, settle_s: float, jobs: Jobs
) -> Iterator[Wanted]:
    """Reports whose time has come and that are neither rendered nor given up. Raises what `jobs` does."""
    at = datetime.fromtimestamp(now, UTC)
    for schedule in schedules:
        since = book.since(schedule.name)
        if since is None:
            continue
        for each in _of_schedule(schedule, datetime.fromtimestamp(since, UTC), at, settle_s, jobs):
            known = book.known(each.report_id)
            if known.rendered is None and not known.rendering.over:
                yield each


def _of_schedule(
    schedule: ReportSchedule, since: datetime, now: datetime, settle_s: float, jobs: Jobs
) -> Iterator[Wanted]:
    settled = now - timedelta(seconds=settle_s)
    if schedule.report == "job":
        for job in jobs(schedule, max(since, now - JOBS_BACK), settled):
            yield of_job(schedule, job, schedule.name)
        return
    run = periods.last_run(schedule, since, now)
    if run is not None and (window := periods.before(run, schedule)).end <= settled:
        yield of_period(schedule, window, schedule.name, run)
