"""The API over a store at fault: an answer that is cut is no answer, and nobody is told that it is one."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from fastapi.testclient import TestClient

from tests.engine import DATABASE
from tests.engine.template import with_tables
from tests.gateway import Fault, Gateway
from tests.ingest_process import store_settings
from tests.timelines import landed, linked
from tests.wait import until
from tests.web import visitor
from warpmeter.queries import every
from warpmeter.settings import Settings, Store, Web
from warpmeter.store import connect
from warpmeter.web.app import api_app

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]
ANY = {
    "since": "-1h",
    "metric": "gpu_util",
    "base": "b",
    "q": "x",
    "function": "f",
    "lane": "0",
    "start_ns": "0",
    "host": "h",
    "pid": "1",
}
THREADS = 40
"""That Starlette has for endpoints."""
CROWD = 60
WITHOUT_STORE = ("/session", "/metrics", "/queries", "/reports/schedules", "/reports/kept", "/reports/file")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """All tables, empty but for a trace, behind a proxy that can do wrong."""
    folder = tmp_path_factory.mktemp("web")
    with closing(with_tables(folder / "engine")) as server:
        writing = store_settings(server)
        with connect(writing) as client:
            landed(client, writing, "linked", [linked().write(folder / "linked.json")])
        with closing(Gateway(server.port, asked="")) as proxy:
            yield proxy


@pytest.fixture(scope="module")
def over(gateway: Gateway) -> Iterator[TestClient]:
    store = Store(dsn=f"http://127.0.0.1:{gateway.port}", database=DATABASE)
    with visitor(Settings(store=store, web=Web(writes_per_minute=1000, query_s=120))) as client:
        yield client


@pytest.fixture
def site(over: TestClient, gateway: Gateway) -> Iterator[TestClient]:
    """Before which nothing is wrong yet."""
    gateway.fault, gateway.asked = Fault.NONE, ""
    yield over
    gateway.fault = Fault.NONE


@pytest.fixture(scope="module")
def straight(gateway: Gateway) -> Iterator[TestClient]:
    """Without anything between the page and the store."""
    store = Store(dsn=f"http://127.0.0.1:{gateway.engine_port}", database=DATABASE)
    with visitor(Settings(store=store, web=Web(writes_per_minute=1000))) as client:
        yield client


def paths_of(something: str) -> list[str]:
    """What can be looked at and is in the store, with `something` in place of names."""
    described = api_app(Settings()).openapi()["paths"]
    names = {"name": "top_idle_gpus"}
    found = [path.removeprefix("/api/v1") for path, methods in described.items() if "get" in methods]
    return [
        re.sub(r"\{(\w+)\}", lambda named: names.get(named[1], something), path)
        for path in found
        if path not in WITHOUT_STORE
    ]


def given(path: str) -> dict[str, str]:
    return {} if path.startswith("/queries") else ANY


@pytest.mark.parametrize("warm", [False, True], ids=["at first", "later"])
def test_an_answer_that_is_cut_among_its_headers_is_none(gateway: Gateway, site: TestClient, warm: bool) -> None:
    if warm:
        for path in paths_of("before"):
            assert site.get(f"/api/v1{path}", params=given(path)).status_code in (200, 404, 409), path
    gateway.fault = Fault.HEAD_CUT
    told = {path: site.get(f"/api/v1{path}", params=given(path)) for path in paths_of("x")}
    assert len(told) > 30
    assert {path: (each.status_code, each.text) for path, each in told.items() if each.status_code != 503} == {}
    assert [path for path, each in told.items() if "immutable" in each.headers.get("cache-control", "")] == []


def test_whether_it_is_up_is_said_whatever_the_others_wait_for(gateway: Gateway, site: TestClient) -> None:
    assert site.get("/api/v1/health").json()["ok"]
    gateway.fault, before = Fault.HANGS, gateway.hits
    with ThreadPoolExecutor(CROWD) as pool:
        waiting = [pool.submit(site.get, f"/api/v1/hosts/{number}") for number in range(CROWD)]
        until(lambda: gateway.hits - before >= THREADS, "all threads to wait for the store")
        said = site.get("/api/v1/health")
        answered = [each for each in waiting if each.done()]
        gateway.fault = Fault.NONE
    assert (said.status_code, said.json()["ok"], "not known" in said.json()["why"], answered) == (503, False, True, [])
    until(lambda: site.get("/api/v1/health").json()["ok"], "the store to be known again")


def test_what_takes_too_long_is_who_asks_to_mend_but_not_in_a_crowd(gateway: Gateway, site: TestClient) -> None:
    path = "/api/v1/queries/hosts_listed"
    assert site.get(path).status_code == 200
    gateway.fault = Fault.NO_TIME
    alone = site.get(path)
    assert (alone.status_code, "web.query_s" in alone.text, "retry-after" in alone.headers) == (422, True, False)
    gateway.fault, before = Fault.HANGS, gateway.hits
    with ThreadPoolExecutor(CROWD) as pool:
        waiting = [pool.submit(site.get, path) for _ in range(CROWD)]
        until(lambda: gateway.hits - before >= THREADS, "all threads to wait for the store")
        gateway.fault = Fault.NO_TIME
        told = [each.result() for each in waiting]
    crowded = [each for each in told if each.status_code == 503]
    assert len(crowded) >= THREADS - 16
    assert {each.status_code for each in told} <= {422, 503}
    assert {each.headers["retry-after"] for each in crowded} == {"5"}


LONG = "x" * 5000


def test_no_name_in_a_path_is_longer_than_a_name_may_be(straight: TestClient) -> None:
    for path in paths_of(LONG):
        if LONG in path:
            answer = straight.get(f"/api/v1{path}", params=given(path))
            assert (answer.status_code, answer.json()["detail"][0]["loc"][0]) == (404, "path"), path


def test_no_value_is_longer_than_the_store_takes(straight: TestClient) -> None:
    described = straight.get("/api/v1/openapi.json").json()["paths"]
    asked = [
        (re.sub(r"\{\w+\}", "x", path), each["name"])
        for path, methods in described.items()
        for each in methods.get("get", {}).get("parameters", [])
        if each["in"] == "query" and path != "/api/v1/queries/{name}"
    ]
    asked += [(f"/api/v1/queries/{query.name}", each.name) for query in every() for each in query.parameters]
    assert len(asked) > 200
    for path, name in asked:
        for long in (LONG, "é" * 900, "." * 999):
            answer = straight.get(path, params={**given(path), name: long})
            assert answer.status_code < 500, (path, name, answer.text)
            if long == LONG:
                assert (answer.status_code, answer.json()["detail"][0]["loc"]) == (422, ["query", name]), (path, name)


def test_a_timeline_that_is_cut_is_not_kept(gateway: Gateway, site: TestClient) -> None:
    about = site.get("/api/v1/traces/linked/timeline/lanes").json()
    known = {"process": about["process"], "load": about["load"], "since_ns": 0, "until_ns": 10}
    for path in ("", "/lanes", "/range"):
        whole = site.get(f"/api/v1/traces/linked/timeline{path}", params=known)
        gateway.fault, gateway.asked = Fault.HEAD_CUT, "trace_timeline"
        answer = site.get(f"/api/v1/traces/linked/timeline{path}", params=known)
        gateway.fault = Fault.NONE
        assert (whole.status_code, answer.status_code, "cut" in answer.text) == (200, 503, True), answer.text
        assert "immutable" not in answer.headers.get("cache-control", "")


def test_a_statement_and_a_file_of_rows_that_are_cut_are_none(gateway: Gateway, site: TestClient) -> None:
    for form in ("json", "csv"):
        body = {"sql": "SELECT 'asked'", "format": form}
        assert site.post("/api/v1/sql", json=body).status_code == 200
        gateway.fault, gateway.asked = Fault.HEAD_CUT, "'asked'"
        assert site.post("/api/v1/sql", json=body).status_code == 503
        gateway.asked = "idle"
        assert site.get("/api/v1/queries/top_idle_gpus", params={"format": form}).status_code == 503
        gateway.fault = Fault.NONE


@pytest.mark.parametrize("form", ["json", "csv"])
@pytest.mark.parametrize("text", ["repeat('x', 10000)", "toLowCardinality(repeat('x', 10000))"])
def test_a_statement_answers_no_more_than_it_may_however_little_the_store_counts(
    straight: TestClient, text: str, form: str
) -> None:
    body = {"sql": f"SELECT {text} FROM numbers(10000)", "format": form}
    answer = straight.post("/api/v1/sql", json=body)
    assert (answer.status_code, "web.sql_bytes" in answer.text) == (400, True), answer.text[:200]
    whole = straight.post("/api/v1/sql", json={**body, "rows": 1000})
    assert (whole.status_code, len(whole.content) > 10_000_000) == (200, True)


def test_a_statement_that_fails_late_is_told_as_one_that_fails(straight: TestClient) -> None:
    late = "SELECT repeat('x', 1000), throwIf(number = 9000, 'at last') FROM numbers(10000)"
    answer = straight.post("/api/v1/sql", json={"sql": late, "format": "csv"})
    assert (answer.status_code, "at last" in answer.text) == (400, True), answer.text[:200]
