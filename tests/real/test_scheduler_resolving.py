"""Where the target of a capture runs, asked of a real engine behind HTTP."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final

import pytest
from hypothesis import given, settings

from tests.conditions import TAKEN, reworded, spoilt
from tests.engine.template import with_tables
from tests.ingest_process import store_settings
from tests.tables import land, row
from warpmeter.captures.conditions import COLUMNS, FUNCTIONS, WORDS, objection
from warpmeter.captures.wishes import Request
from warpmeter.scheduler.resolving import SYNTAX_ERROR, resolve
from warpmeter.scheduler.round import Target
from warpmeter.settings import Store
from warpmeter.store import ClickHouseError, Client, code, connect

URL = "job_id IN (SELECT * FROM url('http://127.0.0.1:9/', 'CSV', 'a String'))"
"""A condition that would have the store call somebody."""

OPERATORS: Final = {
    "and", "or", "not", "in", "notin", "between", "lambda", "isnotdistinctfrom", "isdistinctfrom",
    "casewithexpression", "mod", "trimboth", "second", "minute", "hour", "day", "week",
}  # fmt: skip
"""What the store's parser makes of operators and of special words."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """An engine on which job `one` runs on a and b, `two` on b, and `over` has ended; none is lost within the hour."""
    with closing(with_tables(tmp_path_factory.mktemp("engine"))) as server:
        with closing(server.client(write=True)) as client:
            land(client, "job-events", events())
        yield store_settings(server)


def events() -> Sequence[Any]:
    now = time.time()

    def event(host: str, pid: int, job_id: str, what: str = "running", ago_s: float = 1.0) -> Any:
        return row(
            "job-events", host=host, ts=now - ago_s, period_ms=600_000, job_id=job_id, event=what, pid=pid,
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


def test_no_word_that_a_condition_may_use_makes_a_table(store: Store) -> None:
    with closing(connect(store)) as client:
        known = {str(row[0]).lower() for row in client.query("SELECT name FROM system.table_functions").result_rows}
    assert known & FUNCTIONS == set()
    assert known & WORDS == {"null"}, "and that may have no arguments"
    assert objection("name IN null('x String')")


@pytest.mark.long
def test_what_is_taken_the_store_reads_as_we_do(store: Store) -> None:
    """By its own parser, of conditions that mean harm: names and functions of the lists, in one expression."""
    read = dict.fromkeys(("taken", "sound"), 0)
    with closing(connect(store)) as client:

        @settings(max_examples=2000)
        @given(spoilt() | reworded())
        def search(where: str) -> None:
            if not objection(where):
                read["taken"] += 1
                read["sound"] += _holds(client, where)

        search()
        for where in TAKEN:
            assert _holds(client, where), where
    assert read["sound"] > 50, read


def _holds(client: Client, where: str) -> bool:
    """Whether it is SQL; if so, it is one expression, and no part of it is what nobody may ask for."""
    try:
        rows = client.query(f"EXPLAIN AST SELECT job_id FROM jobs WHERE ({where}\n)").result_rows
    except ClickHouseError as error:
        return bool(code(error) != SYNTAX_ERROR and pytest.fail(str(error)))
    tree = [str(line) for (line,) in rows]
    start = [line.strip() for line in tree].index("TableIdentifier jobs") + 1
    first, *rest = tree[start:-1]
    assert tree[-1] == " Identifier Native", "the client's format ends it"
    assert all(_depth(line) > _depth(first) for line in rest), tree
    lambdas: list[int] = []
    for line in (first, *rest):
        _is_known(line, lambdas)
    return True


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_known(line: str, lambdas: list[int]) -> None:
    """A line of the tree; `lambdas` are the depths of those that it is in."""
    while lambdas and _depth(line) <= lambdas[-1]:
        lambdas.pop()
    kind, _, rest = line.strip().partition(" ")
    name = rest.removesuffix(")").partition(" (children ")[0]
    assert "(alias" not in rest or kind == "Literal", line
    if kind == "Function":
        assert name.lower() in FUNCTIONS | OPERATORS, line
        lambdas += [_depth(line)] if name == "lambda" else []
    elif kind == "Identifier":
        assert name.removeprefix("jobs.") in COLUMNS or (lambdas and name.isidentifier()), line
    else:
        assert kind in ("ExpressionList", "Literal"), line


def test_a_store_that_is_away_is_told_as_that() -> None:
    answer = resolve(Store(dsn="http://127.0.0.1:9"), Request(capture_id="c", job_id="one"))
    assert (answer.targets, answer.reason, answer.final) == ((), "store_away", False)
