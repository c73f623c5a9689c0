"""Which jobs are reported: those that ended, fit and were large enough, however many, each named once."""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.tables import land, row
from warpmeter.reports.said import ReportEvent
from warpmeter.scheduler.publishing import asking
from warpmeter.settings import ReportSchedule, Store
from warpmeter.store import Client

pytestmark = pytest.mark.long
NOW = int(time.time())
JOBS = ReportSchedule("jobs", "job")


@pytest.fixture
def store(embedded: Store) -> Store:
    return replace(embedded, database="shared")


def job(job_id: str, ended_ago_s: float, what: str = "ended", **more: Any) -> Any:
    told = {
        "host": "a",
        "period_ms": 10_000,
        "pid": 7,
        "command": "python",
        "started_at": NOW - 9000,
        "name": "train.py",
    }
    return row("job-events", ts=NOW - ended_ago_s, job_id=job_id, event=what, **{**told, "user": "ann", **more})


def found(store: Store, schedule: ReportSchedule = JOBS) -> list[str]:
    until = datetime.fromtimestamp(NOW - 60, UTC)
    return [each.job_id for each in asking.ended(store, schedule, until - timedelta(hours=1), until)]


def test_jobs_are_named_that_ended_in_time_and_fit(
    tables: Client, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(tables, "job-events", [
        job("first", 3000), job("second", 300, user="bob"), job("just now", 10), job("long ago", 7200),
        job("runs", 5, "running"), job("at once", 300), job("and so", 300),
    ])  # fmt: skip
    assert found(store) == ["first", "and so", "at once", "second"]
    monkeypatch.setattr(asking, "MOST", 1)
    assert found(store) == ["first", "and so", "at once", "second"], "page by page"
    assert found(store, ReportSchedule("jobs", "job", where="user = 'bob' -- mine")) == ["second"]
    assert found(store, ReportSchedule("jobs", "job", min_gpu_hours=1)) == []


def test_what_has_landed_is_told_and_what_was_said_is_remembered(tables: Client, store: Store) -> None:
    assert (asking.landed(store), asking.remembered(store)) == (0.0, [])
    land(tables, "job-events", [job("first", 30, "running")], "5f1c7a1e-0000-4000-8000-000000000000/0/0-0")
    assert asking.landed(store) == NOW - 30
    said = ReportEvent(
        report_id="monday/2026-W48", ts=NOW - 5, schedule="monday", report="fleet-weekly", period_start=NOW - 900,
        period_end=NOW - 300, state="delivered", target="team", attempt=2, bytes=10, title="Fleet",
    )  # fmt: skip
    land(tables, "report-events", [said])
    assert list(asking.remembered(store)) == [said]
