"""What triggers know of captures, by the store: what was spent, what was found, and why nothing was."""

import time
from typing import Any

import pytest

from tests import captures, tables
from tests.tables import land, row, token
from warpmeter import landing, queries
from warpmeter.landing import Process
from warpmeter.scheduler.alerts.budget import Spent
from warpmeter.scheduler.alerts.desk import StoreDesk
from warpmeter.settings import Settings, Store
from warpmeter.store import Client

pytestmark = pytest.mark.long
FOUND = [("input", "The program waits for input 40 % of the time", 40.0, "%", 400_000_000)]


def asked(capture_id: str, ts: float, by: str, **wanted: Any) -> Any:
    return row(
        "capture-requests", capture_id=capture_id, ts=ts, action="start", requested_by=by, name=f"alert-{capture_id}",
        duration_ms=500, **wanted,
    )  # fmt: skip


def said(capture_id: str, ts: float, state: str, sequence: int = 1, **more: Any) -> Any:
    about = {"host": "ant", "pid": 7} if sequence else {}
    return row("capture-events", capture_id=capture_id, ts=ts, state=state, sequence=sequence, **about, **more)


@pytest.fixture(scope="module")
def now(shared_tables: Client) -> float:
    return float(tables.one(shared_tables, "SELECT toUnixTimestamp(now())")) - 60


@pytest.fixture(scope="module")
def desk(shared_tables: Client, embedded: Store, now: float) -> StoreDesk:
    """One capture that found something, one of a process that does not ask, one that goes on, one of a person."""
    land(
        shared_tables,
        "capture-requests",
        [
            asked("good", now, "rule:job-slower", job_id="j1"), asked("vain", now + 10, "rule:gpu-hot", hosts=["ant"]),
            asked("open", now + 20, "rule:job-slower", job_id="j2"), asked("own", now + 30, "ann@ant", job_id="j3"),
            asked("old", now - 90_000, "rule:job-slower", job_id="j1"),
        ],
        token(1, 1),
    )  # fmt: skip
    land(
        shared_tables,
        "capture-events",
        [
            said("good", now + 1, "requested", 0), said("good", now + 2, "captured", url="/t/1", bytes=9),
            said("good", now + 3, "analysed"), said("good", now + 4, "ended", 0),
            said("vain", now + 11, "requested", 0),
            said("vain", now + 12, "failed", reason="not_registered", why="start it by `warpmeter run`"),
            said("vain", now + 13, "ended", 0, reason="not_registered", why="0 of 1 processes captured"),
            said("open", now + 21, "requested", 0),
        ],
        token(2, 2),
    )  # fmt: skip
    store = Store(dsn=embedded.dsn, database="shared")
    load = landing.begin(shared_tables, "good", "j1")
    row_of = captures.tables([captures.kernel("gemm", 100)], 0, findings=FOUND, advice=["more workers"])
    put = landing.put(shared_tables, store, load, Process(0, "ant", True, int(now) * 10**9), row_of)
    landing.publish(shared_tables, store, load, [put], lambda _: None)
    return StoreDesk(Settings(store=store))


def test_what_alerts_spent_in_a_day_is_known(desk: StoreDesk, now: float) -> None:
    found = sorted(desk.spent(time.time()), key=lambda each: each.at)
    assert found == [
        Spent("good", "job-slower", "j1", now),
        Spent("vain", "gpu-hot", "ant", now + 10, vain=True),
        Spent("open", "job-slower", "j2", now + 20),
    ]


def test_an_outcome_is_what_was_found_or_why_nothing_was(desk: StoreDesk) -> None:
    assert desk.outcome("good") == ("The program waits for input 40 % of the time (400ms)",)
    assert desk.outcome("vain") == ("not captured: start it by `warpmeter run`",)
    assert desk.outcome("open") == ()
    assert desk.outcome("never asked for") == ()


def test_which_captures_alerts_asked_for_is_a_named_query(desk: StoreDesk, shared_tables: Client) -> None:  # noqa: ARG001
    asked = queries.get("captures_triggered").statement({})
    rows = list(shared_tables.query(asked.sql, parameters=dict(asked.values)).named_results())
    told = [tuple(each[name] for name in ("capture_id", "alert_id", "rule", "subject", "captured")) for each in rows]
    assert told == [
        ("open", "alert-open", "job-slower", "j2", 0),
        ("vain", "alert-vain", "gpu-hot", "ant", 0),
        ("good", "alert-good", "job-slower", "j1", 1),
    ]
