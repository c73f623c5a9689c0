"""Who may do what through the API: every endpoint behind the same gate, and a console that only reads."""

import asyncio
import json
import re
from collections.abc import Iterator, MutableMapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx import Response

from tests.engine import DATABASE
from tests.engine.template import with_tables
from tests.web import HERE, visitor
from warpmeter.clock import SystemClock
from warpmeter.queries import every
from warpmeter.settings import Settings, Store, Token, Web
from warpmeter.web.app import api_app

ANN = Token("ann", "operator", "operator-of-this-test")
BOB = Token("bob", "viewer", "viewer-of-this-test")
AS_ANN = {"authorization": f"Bearer {ANN.token}"}
AS_BOB = {"authorization": f"Bearer {BOB.token}"}
GUARDED = Web(tokens=(ANN, BOB), writes_per_minute=1000)
OPEN = ("/api/v1/health",)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """All tables, empty, behind HTTP, for somebody who may only read."""
    with closing(with_tables(tmp_path_factory.mktemp("web") / "engine")) as server:
        yield Store(dsn=server.url, database=DATABASE)


@pytest.fixture(scope="module")
def local(engine: Store) -> TestClient:
    """As it is by default: on this machine, without authentication."""
    return visitor(Settings(store=engine, web=Web(writes_per_minute=1000)))


@pytest.fixture(scope="module")
def guarded(engine: Store) -> TestClient:
    """With tokens."""
    return visitor(Settings(store=engine, web=GUARDED))


def endpoints() -> list[tuple[str, str]]:
    """Method and path of all that the description lists, with something for each part of a path."""
    described = api_app(Settings()).openapi()["paths"]
    return [(method, re.sub(r"\{[^}]*\}", "x", path)) for path, methods in described.items() for method in methods]


def test_nothing_is_answered_to_nobody_but_whether_it_is_up(guarded: TestClient) -> None:
    asked = [(method, path) for method, path in endpoints() if path not in OPEN]
    assert len(asked) > 20
    wrong = [each for each in asked if guarded.request(*each).status_code != 401]
    assert wrong == []
    assert guarded.get("/api/v1/openapi.json").status_code == 401
    assert guarded.get("/api/v1/session").headers["www-authenticate"].startswith("Bearer")
    health = guarded.get("/api/v1/health").json()
    assert health == {"ok": True, "version": "", "why": ""}


def test_whatever_changes_or_costs_something_needs_an_operator(guarded: TestClient) -> None:
    changing = [(method, path) for method, path in endpoints() if method != "get"]
    assert ("post", "/api/v1/sql") in changing
    for method, path in changing:
        refused = guarded.request(method, path, headers=AS_BOB, json={})
        assert (refused.status_code, "operator" in refused.text) == (403, True), f"{method} {path}: {refused.text}"


def test_who_asks_is_told_who_they_are(guarded: TestClient, local: TestClient) -> None:
    assert guarded.get("/api/v1/session", headers=AS_BOB).json() == {
        "name": "bob", "role": "viewer", "by": "token", "guarded": True, "csrf": "", "sql": False,
    }  # fmt: skip
    assert guarded.get("/api/v1/session", headers={"authorization": "Bearer nonsense"}).status_code == 401
    mine = local.get("/api/v1/session").json()
    assert (mine["name"], mine["role"], mine["guarded"]) == ("local", "operator", False)


def log_in(client: TestClient, token: str, goal: str = "/jobs?since=-1h", **headers: str) -> Response:
    answer: Response = client.post("/login", data={"token": token, "next": goal}, headers=headers)
    return answer


def test_a_person_logs_in_and_out(engine: Store) -> None:
    client = visitor(Settings(store=engine, web=GUARDED))
    sent_away = client.get("/jobs?since=-1h", headers={"accept": "text/html"})
    assert (sent_away.status_code, sent_away.headers["location"]) == (303, "/login?next=%2Fjobs%3Fsince%3D-1h")
    form = client.get(sent_away.headers["location"])
    assert 'name="next" value="/jobs?since=-1h"' in form.text
    assert "script" not in form.text
    wrong = log_in(client, "nonsense")
    assert (wrong.status_code, "set-cookie" in wrong.headers, 'role="alert"' in wrong.text) == (401, False, True)
    right = log_in(client, ANN.token)
    assert (right.status_code, right.headers["location"]) == (303, "/jobs?since=-1h")
    cookie = right.headers["set-cookie"]
    assert all(part in cookie for part in ("HttpOnly", "SameSite=strict", "Path=/", "Max-Age=43200"))
    assert ANN.token not in cookie
    assert client.get("/api/v1/session").json()["by"] == "cookie"
    assert client.get("/login").status_code == 303
    assert client.post("/logout").status_code == 303
    assert client.get("/api/v1/session").status_code == 401


def test_what_a_form_was_given_is_not_taken_for_html(engine: Store) -> None:
    client = visitor(Settings(store=engine, web=GUARDED))
    assert "<script>" not in client.get("/login", params={"next": '"><script>'}).text
    assert log_in(client, ANN.token, goal="//evil.example").headers["location"] == "/"


def test_over_tls_the_cookie_stays_there(engine: Store) -> None:
    secure = TestClient(
        api_app(Settings(store=engine, web=GUARDED)), base_url="https://127.0.0.1", follow_redirects=False
    )
    assert "Secure" in log_in(secure, ANN.token).headers["set-cookie"]
    plain = visitor(Settings(store=engine, web=GUARDED))
    lying = log_in(plain, ANN.token, **{"x-forwarded-proto": "https"})
    assert "Secure" not in lying.headers["set-cookie"]


@pytest.fixture
def standing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time passes, in which a caller could be granted more."""
    monkeypatch.setattr(SystemClock, "monotonic", lambda _: 1000.0)


@pytest.mark.usefixtures("standing")
def test_logins_are_slow_to_guess(engine: Store) -> None:
    client = visitor(Settings(store=engine, web=GUARDED))
    answers = [log_in(client, f"guess number {i}").status_code for i in range(12)]
    assert answers == [401] * 10 + [429] * 2
    assert int(log_in(client, "x").headers["retry-after"]) in range(1, 7)
    assert client.get("/api/v1/session", headers=AS_ANN).status_code == 200


def test_a_page_of_another_site_can_do_nothing(local: TestClient) -> None:
    sql = {"sql": "SELECT 1"}
    for headers in ({"origin": "http://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}):
        assert local.post("/api/v1/sql", json=sql, headers=headers).status_code == 403, headers
        assert local.get("/api/v1/queries", headers=headers | {"sec-fetch-mode": "no-cors"}).status_code == 403, headers
    assert local.post("/api/v1/sql", json=sql, headers={"origin": HERE}).status_code == 200
    rebound = local.get("/api/v1/queries", headers={"host": "evil.example"})
    assert (rebound.status_code, "web.hosts" in rebound.text) == (421, True)


def test_a_session_writes_only_with_what_its_own_pages_know(engine: Store) -> None:
    client = visitor(Settings(store=engine, web=GUARDED))
    log_in(client, ANN.token)
    sql = {"sql": "SELECT 1"}
    assert client.post("/api/v1/sql", json=sql).status_code == 403
    assert client.post("/api/v1/sql", json=sql, headers={"x-csrf-token": "0" * 64}).status_code == 403
    csrf = client.get("/api/v1/session").json()["csrf"]
    assert client.post("/api/v1/sql", json=sql, headers={"x-csrf-token": csrf}).status_code == 200
    other = visitor(Settings(store=engine, web=GUARDED))
    log_in(other, BOB.token)
    assert other.get("/api/v1/session").json()["csrf"] != csrf


def test_a_link_on_another_site_still_finds_the_session(engine: Store) -> None:
    client = visitor(Settings(store=engine, web=GUARDED))
    from_chat = client.get("/job?id=x", headers={"accept": "text/html", "sec-fetch-site": "cross-site"})
    assert (from_chat.status_code, 'http-equiv="refresh"' in from_chat.text) == (200, True)
    itself = client.get("/job?id=x", headers={"accept": "text/html", "sec-fetch-site": "same-origin"})
    assert itself.status_code == 303


def test_a_proxy_says_who_asks_and_a_stranger_does_not(engine: Store) -> None:
    web = Web(proxies=("192.0.2.0/24",), operator_groups=("admins",), viewer_groups=("staff",), hosts=("gpu.example",))
    app = api_app(Settings(store=engine, web=web))
    said = {"x-forwarded-user": "ann@example", "x-forwarded-groups": "admins, staff", "host": "gpu.example"}
    behind = TestClient(app, base_url=HERE, client=("192.0.2.7", 1), headers=said)
    who = behind.get("/api/v1/session").json()
    assert (who["name"], who["role"], who["by"]) == ("ann@example", "operator", "proxy")
    assert behind.get("/api/v1/session", headers={"x-forwarded-groups": "nobody"}).status_code == 403
    assert behind.post("/api/v1/sql", json={"sql": "SELECT 1"}).status_code == 403
    refused = behind.get("/api/v1/session", headers=[*said.items(), ("X-Forwarded-User", "root")])
    assert (refused.status_code, "X-Forwarded-User came twice" in refused.text) == (403, True)
    known = {"x-csrf-token": who["csrf"], "origin": "https://gpu.example"}
    assert behind.post("/api/v1/sql", json={"sql": "SELECT 1"}, headers=known).status_code == 200
    assert (
        TestClient(app, base_url=HERE, client=("198.51.100.7", 1), headers=said).get("/api/v1/session").status_code
        == 401
    )


@pytest.mark.usefixtures("standing")
def test_writes_have_a_rate_by_caller(engine: Store) -> None:
    client = visitor(Settings(store=engine, web=replace(GUARDED, writes_per_minute=3)))
    answers = [client.post("/api/v1/sql", json={}, headers=AS_BOB) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [403, 403, 403, 429]
    assert int(answers[-1].headers["retry-after"]) in range(1, 21)
    assert client.post("/api/v1/sql", json={"sql": "SELECT 1"}, headers=AS_ANN).status_code == 200
    assert client.get("/api/v1/queries", headers=AS_BOB).status_code == 200


def test_a_body_has_a_limit_whether_it_says_its_length_or_not(engine: Store) -> None:
    client = visitor(Settings(store=engine, web=Web(body_bytes=1000)))
    long = json.dumps({"sql": "SELECT 1" + " " * 2000}).encode()
    kind = {"content-type": "application/json"}
    assert client.post("/api/v1/sql", content=long, headers=kind).status_code == 413
    assert client.post("/api/v1/sql", content=iter([long[:900], long[900:]]), headers=kind).status_code == 413
    assert client.post("/api/v1/sql", json={"sql": "SELECT 1"}).status_code == 200


def test_every_answer_tells_the_browser_to_be_careful(guarded: TestClient, local: TestClient) -> None:
    answers = [
        local.get("/api/v1/queries"),
        local.get("/api/v1/nowhere"),
        guarded.get("/api/v1/queries"),
        guarded.get("/login"),
        local.get("/api/v1/queries", headers={"host": "evil.example"}),
        local.post("/api/v1/sql", content=b"{"),
    ]
    assert [answer.status_code for answer in answers] == [200, 404, 401, 200, 421, 422]
    for answer in answers:
        headers = answer.headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["referrer-policy"] == "same-origin"
        assert "camera=()" in headers["permissions-policy"]
        assert headers["cache-control"] in ("private, no-cache", "no-store")


def test_what_nobody_expected_is_a_line_in_the_log_and_says_no_more(
    engine: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    app = api_app(Settings(store=engine))

    @app.get("/api/v1/broken")
    def broken() -> None:
        raise RuntimeError("a secret of the process")

    answer = TestClient(app, base_url=HERE).get("/api/v1/broken")
    assert (answer.status_code, "secret" in answer.text) == (500, False)
    assert answer.headers["x-content-type-options"] == "nosniff"
    said = capsys.readouterr()
    assert "a secret of the process" in said.out + said.err


def test_who_leaves_while_they_say_what_they_want_is_nobodys_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    scope = {
        "type": "http", "method": "POST", "path": "/login", "query_string": b"", "headers": [(b"host", b"127.0.0.1")],
        "scheme": "http", "http_version": "1.1", "root_path": "", "client": ("127.0.0.1", 1), "server": ("x", 80),
    }  # fmt: skip
    said: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        said.append(message)

    asyncio.run(api_app(Settings(web=GUARDED))(scope, receive, send))
    assert (said, "".join(capsys.readouterr())) == ([], "")


def test_who_did_what_is_in_the_log_and_no_token_is(engine: Store, capsys: pytest.CaptureFixture[str]) -> None:
    client = visitor(Settings(store=engine, web=GUARDED))
    client.post("/api/v1/sql", json={"sql": "SELECT 'of ann'"}, headers=AS_ANN)
    client.post("/api/v1/sql?token=" + BOB.token, json={}, headers=AS_BOB)
    log_in(client, ANN.token)
    log_in(client, "a wrong token")
    said = "".join(capsys.readouterr())
    assert re.search(r"audit .*action=sql .*of ann.*who=ann", said)
    assert re.search(r"audit .*action=request .*path=/api/v1/sql .*status=403 .*who=bob", said)
    assert re.search(r"audit .*action=login .*by=token .*who=ann", said)
    for secret in (ANN.token, BOB.token, "a wrong token", client.cookies["warpmeter_session"]):
        assert secret not in said


def sql(client: TestClient, text: str, **more: Any) -> Response:
    answer: Response = client.post("/api/v1/sql", json={"sql": text, **more})
    return answer


def test_the_console_answers_rows_with_their_types(local: TestClient) -> None:
    found = sql(local, "SELECT number AS n, toString(number) AS s, NULL AS nothing FROM numbers(5);", rows=2).json()
    assert found["columns"] == [
        {"name": "n", "type": "UInt64"},
        {"name": "s", "type": "String"},
        {"name": "nothing", "type": "Nullable(Nothing)"},
    ]
    assert (found["rows"], found["truncated"]) == ([[0, "0", None], [1, "1", None]], True)
    assert sql(local, "SELECT 18446744073709551615", exact=True).json()["rows"] == [["18446744073709551615"]]
    text = sql(local, "SELECT 1 AS a, 'x,y' AS b", format="csv")
    assert (text.text, text.headers["content-type"]) == ('"a","b"\n1,"x,y"\n', "text/csv; charset=utf-8")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("INSERT INTO host_samples (host) VALUES ('x')", "the console reads"),
        ("DROP TABLE host_samples", "the console reads"),
        ("SELECT 1; DROP TABLE host_samples", "Multi-statements"),
        ("SELECT 1 SETTINGS max_execution_time = 1000", "no SETTINGS"),
        ("SELECT * FROM url('http://127.0.0.1:1', CSV, 'a String')", "read-only"),
        ("SELECT * FROM file('/etc/passwd', CSV, 'a String')", "read-only"),
        ("SELECT file('/etc/passwd')", "read-only"),
        ("SELECT * FROM executable('id', CSV, 'a String')", "read-only"),
        ("SELECT * FROM remote('127.0.0.1:1', system.one)", "read-only"),
        ("SELECT 1 INTO OUTFILE '/tmp/x'", "INTO OUTFILE"),
        ("SELECT 1 FORMAT CSV", "FORMAT"),
        ("SELECT * FROM nowhere", "nowhere"),
    ],
)
def test_the_console_only_reads(local: TestClient, text: str, why: str) -> None:
    answer = sql(local, text)
    assert (answer.status_code, why in answer.json()["detail"]) == (400, True), answer.text


def test_a_mistake_is_shown_where_it_is(local: TestClient) -> None:
    found = sql(local, "SELECT 1\nFROM numbers(3) WHER x").json()
    assert (found["line"], found["column"]) == (2, 22)
    assert "line 2, column 22" in found["detail"]


def test_a_statement_has_limits(engine: Store) -> None:
    web = Web(sql_s=120, sql_rows=10, sql_bytes=100_000, query_memory=50_000_000)
    client, hurried = (visitor(Settings(store=engine, web=each)) for each in (web, replace(web, sql_s=0.5)))
    assert len(sql(client, "SELECT number FROM numbers(100)", rows=1000).json()["rows"]) == 10
    slow = sql(hurried, "SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 0")
    assert (slow.status_code, "web.sql_s" in slow.text) == (400, True), slow.text
    large = sql(client, "SELECT groupArray(number) FROM numbers(100000000)")
    assert (large.status_code, "web.query_memory" in large.text) == (400, True), large.text
    wide = sql(client, "SELECT repeat('x', 200000)")
    assert (wide.status_code, "web.sql_bytes" in wide.text) == (400, True), wide.text


def test_the_console_can_be_switched_off_and_is_never_on_an_engine_of_this_process(
    engine: Store, tmp_path: Path
) -> None:
    off = sql(visitor(Settings(store=engine, web=Web(sql=False))), "SELECT 1")
    assert (off.status_code, "web.sql" in off.text) == (403, True)
    within = sql(visitor(Settings(store=Store(dsn=f"chdb://{tmp_path}"))), "SELECT 1")
    assert (within.status_code, "warpmeter engine" in within.text) == (403, True)
    assert not any(tmp_path.iterdir())


def test_the_named_queries_say_what_they_ask_for(local: TestClient) -> None:
    found = local.get("/api/v1/queries").json()
    assert [query["name"] for query in found["data"]] == [query.name for query in every()]
    top = next(query for query in found["data"] if query["name"] == "top_idle_gpus")
    assert [parameter["name"] for parameter in top["parameters"]] == ["since", "until", "limit"]
    assert top["parameters"][0]["default"] == "-24h"
    assert "{limit:UInt32}" in top["sql"]


def test_a_named_query_is_answered_as_json_and_csv(local: TestClient) -> None:
    found = local.get("/api/v1/queries/top_idle_gpus", params={"since": "-6h"}).json()
    assert [column["name"] for column in found["columns"]] == ["host", "gpu", "uuid", "idle", "idle_s"]
    assert (found["rows"], found["truncated"]) == ([], False)
    text = local.get("/api/v1/queries/top_idle_gpus", params={"format": "csv"})
    assert text.text == '"host","gpu","uuid","idle","idle_s"\n'
    assert 'filename="top_idle_gpus.csv"' in text.headers["content-disposition"]


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ("top_idle_gpus?since=yesterday", "since"),
        ("top_idle_gpus?limit=many", "limit"),
        ("top_idle_gpus?limit=1&limit=2", "limit"),
        ("top_idle_gpus?limit=%00", "limit"),
        ("top_idle_gpus?limit=", "limit"),
        ("top_idle_gpus?since=0001-01-01", "since"),
        ("top_idle_gpus?colour=red", "colour"),
        ("top_idle_gpus?format=xml", "format"),
        ("hosts_listed?sort=system.users", "sort"),
        ("job_timeline", "job_id"),
    ],
)
def test_what_does_not_fit_a_query_is_named(local: TestClient, asked: str, field: str) -> None:
    answer = local.get(f"/api/v1/queries/{asked}")
    assert answer.status_code == 422
    assert [problem["loc"] for problem in answer.json()["detail"]] == [["query", field]]


@pytest.mark.parametrize(
    "asked",
    ["hosts_listed?sort=nothing", "heatmap?windows=nothing", "fleet_series?step_s=0", "heatmap?until=9999-12-31"],
)
def test_a_value_that_the_store_cannot_work_with_is_the_askers(local: TestClient, asked: str) -> None:
    answer = local.get(f"/api/v1/queries/{asked}")
    assert (answer.status_code, answer.json()["detail"][0]["loc"]) == (422, ["query"])
    assert "Code: " in answer.json()["detail"][0]["msg"]


def test_a_query_that_is_none_is_not_found(local: TestClient) -> None:
    assert local.get("/api/v1/queries/nothing").status_code == 404


def test_a_store_that_is_away_is_said_so() -> None:
    client = visitor(Settings(store=Store(dsn="http://127.0.0.1:1")))
    for path in ("/api/v1/health", "/api/v1/queries/top_idle_gpus"):
        answer = client.get(path)
        assert (answer.status_code, "cannot reach ClickHouse at 127.0.0.1:1" in answer.text) == (503, True)
    assert sql(client, "SELECT 1").status_code == 503
