"""What publishing asks the store: which jobs ended, how far rows have landed, and what was said of reports before."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from warpmeter.reports.said import ReportEvent, of_row
from warpmeter.scheduler.publishing.due import Ended
from warpmeter.scheduler.publishing.topic import REMEMBERED_DAYS
from warpmeter.settings import ReportSchedule, Store
from warpmeter.store import client

MOST: Final = 1000
"""Jobs of one question; there are as many as it takes."""
_LIMITS: Final = {"readonly": 1, "max_execution_time": 30}
_COLUMNS: Final = (
    "report_id, ts, schedule, report, subject, period_start, period_end, state, target, attempt, why, bytes, url, title"
)
_ENDED: Final = """
SELECT job_id, started_at, assumeNotNull(ended_at) AS ended FROM jobs
WHERE job_id IN (SELECT job_id FROM job_trees WHERE last_at >= {since:DateTime64(3, 'UTC')})
    AND state = 'ended' AND ended_at <= {until:DateTime64(3, 'UTC')}
    AND (assumeNotNull(ended_at), job_id) > ({since:DateTime64(3, 'UTC')}, {after:String})
{condition}
ORDER BY ended, job_id LIMIT {most:UInt32}"""
"""The first line of the condition keeps the view from working out every job there was."""
_USED: Final = """
SELECT job_id FROM job_windows_1h WHERE job_id IN {jobs:Array(String)}
GROUP BY job_id HAVING sum(gpu_seconds) / 3600 >= {hours:Float64}"""
_LANDED: Final = """
SELECT max(max_ts) FROM ingest_batches
WHERE table IN ('gpu_samples', 'host_samples', 'job_events') AND inserted_at > now() - INTERVAL 2 DAY"""


def ended(store: Store, schedule: ReportSchedule, since: datetime, until: datetime) -> Sequence[Ended]:
    """Jobs that a schedule reports, which ended in that time. Raises ClickHouseError."""
    condition = f"AND ({schedule.where}\n)" if schedule.where else ""
    sql, found, after = _ENDED.replace("{condition}", condition), list[Ended](), ""
    while True:
        asked = {"since": since, "after": after, "until": until, "most": MOST}
        rows = client(store).query(sql, asked, settings=dict(_LIMITS)).result_rows
        page = [Ended(job, _utc(start), _utc(end)) for job, start, end in rows]
        found += _large(store, page, schedule.min_gpu_hours) if schedule.min_gpu_hours else page
        if len(page) < MOST:
            return found
        since, after = page[-1].ended_at, page[-1].job_id


def _large(store: Store, jobs: Sequence[Ended], hours: float) -> list[Ended]:
    asked = {"jobs": [each.job_id for each in jobs], "hours": hours}
    large = {job for (job,) in client(store).query(_USED, asked, settings=dict(_LIMITS)).result_rows}
    return [each for each in jobs if each.job_id in large]


def landed(store: Store) -> float:
    """Until when rows have landed, in seconds since the epoch; 0 where there are none. Raises ClickHouseError."""
    ((newest,),) = client(store).query(_LANDED, settings=dict(_LIMITS)).result_rows
    return 0.0 if newest is None else _utc(newest).timestamp()


def remembered(store: Store) -> Sequence[ReportEvent]:
    """What was said of reports, as far as it has landed. Raises ClickHouseError."""
    asked = f"SELECT {_COLUMNS} FROM report_events WHERE ts > now() - INTERVAL {REMEMBERED_DAYS} DAY ORDER BY ts"
    found = client(store).query(asked, settings=dict(_LIMITS))
    return [of_row(dict(zip(found.column_names, row, strict=True))) for row in found.result_rows]


def _utc(at: datetime) -> datetime:
    return at if at.tzinfo else at.replace(tzinfo=UTC)
