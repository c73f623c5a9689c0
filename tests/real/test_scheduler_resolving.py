"""Where the target of a capture runs, asked of a real engine behind HTTP."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest

from tests.engine import EngineServer
from tests.ingest_process import migrated, store_settings
from tests.tables import land, row
from warpmeter.captures.conditions import COLUMNS, FUNCTIONS
from warpmeter.captures.wishes import Request
from warpmeter.scheduler.resolving import resolve
from warpmeter.scheduler.round import Target
from warpmeter.settings import Store
from warpmeter.store import connect

URL = "job_id IN (SELECT * FROM url('http://127.0.0.1:9/', 'CSV', 'a String'))"
"""A condition that would have the store call somebody."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """An engine on which job `one` runs on a and b, `two` on b, and `over` has ended."""
    with closing(migrated(EngineServer(tmp_path_factory.mktemp("engine")))) as server:
        with closing(server.client(write=True)) as client:
            land(client, "job-events", events())
        yield store_settings(server)


def events() -> Sequence[Any]:
    now = time.time()

    def event(host: str, pid: int, job_id: str, what: str = "running", ago_s: float = 1.0) -> Any:
        return row(
            "job-events", host=host, ts=now - ago_s, period_ms=10_000, job_id=job_id, event=what, pid=pid,
            name=f"{job_id}.py", user="ann", started_at=now - 100,
        )  # fmt: skip

    return [event("a", 1, "one"), event("b", 2, "one"), event("b", 3, "two"), event("c", 4, "over", "ended")]


def found(store: Store, **request: Any) -> tuple[Target, ...]:
    return resolve(store, Request(capture_id="c", **request)).targets


def test_a_job_is_on_its_hosts(store: Store) -> None:
    assert found(store, job_id="one") == (Target("a", "one"), Target("b", "one"))
    assert found(store, job_id="one", hosts=["b", "z"]) == (Target("b", "one"),)


def test_a_condition_means_jobs_and_where_several_share_a_host_their_processes(store: Store) -> None:
    assert found(store, where="name = 'two.py'") == (Target("b", "two"),)
    assert found(store, where="user = 'ann'") == (Target("a", "one"), Target("b", "", (2, 3)))
    assert found(store, where="1 -- all") == (Target("a", "one"), Target("b", "", (2, 3)))


@pytest.mark.parametrize("request_", [{"job_id": "over"}, {"job_id": "nothing"}, {"where": "user = 'bob'"}])
def test_what_runs_nowhere_may_come_yet(store: Store, request_: dict[str, str]) -> None:
    answer = resolve(store, Request(capture_id="c", **request_))  # type: ignore[arg-type]
    assert (answer.targets, answer.reason, answer.final) == ((), "no_process", False)
    assert next(iter(request_.values())) in answer.why


@pytest.mark.parametrize(
    "where", ["nonsense = 1", "user = ", "1)) OR (SELECT 1", "1; DROP TABLE job_events", URL, "1 SETTINGS readonly = 0"]
)
def test_a_condition_that_the_store_refuses_is_the_askers_fault(store: Store, where: str) -> None:
    answer = resolve(store, Request(capture_id="c", where=where))
    assert (answer.targets, answer.reason, answer.final) == ((), "bad_request", True)
    assert found(store, job_id="two"), "and nothing else came of it"


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("toUInt64(concat('SECRET ', name)) = 1", "CANNOT_PARSE_TEXT"),
        ("user = ", "SYNTAX_ERROR, at its byte 9"),
        ("gpus > > 1", "SYNTAX_ERROR, at its byte 7"),
        ("user + 1 = 2", "ILLEGAL_TYPE_OF_ARGUMENT"),
    ],
)
def test_what_is_said_of_it_quotes_no_value(store: Store, where: str, said: str) -> None:
    assert resolve(store, Request(capture_id="c", where=where)).why == f"the store refuses the condition: {said}"


def test_what_a_condition_may_name_is_what_the_view_has(store: Store) -> None:
    with closing(connect(store)) as client:
        columns = {str(row[0]) for row in client.query("DESCRIBE jobs").result_rows}
    assert columns == COLUMNS


def test_each_function_that_a_condition_may_name_is_one(store: Store) -> None:
    with closing(connect(store)) as client:
        known = client.query("SELECT DISTINCT lower(name) FROM system.functions WHERE NOT is_aggregate").result_rows
    assert {name for name in FUNCTIONS if (name,) not in known} == set()


def test_a_store_that_is_away_is_told_as_that() -> None:
    answer = resolve(Store(dsn="http://127.0.0.1:9"), Request(capture_id="c", job_id="one"))
    assert (answer.targets, answer.reason, answer.final) == ((), "store_away", False)
