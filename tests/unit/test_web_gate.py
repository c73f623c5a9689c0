"""The gate's parts, each by itself: names, other sites, who asks, how often, and what the console takes."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clock import FakeClock
from warpmeter.settings import Token, Web
from warpmeter.web.request.access import LOCAL, Caller
from warpmeter.web.security.headers import page_policy
from warpmeter.web.security.identity import Identified, Identity, TokenError
from warpmeter.web.security.login import safe_next
from warpmeter.web.security.origins import cross_site, unknown_host
from warpmeter.web.security.rates import Rates
from warpmeter.web.security.requests import Asked, asked
from warpmeter.web.security.sessions import COOKIE
from warpmeter.web.store.console import StatementError, checked

ANN = Token("ann", "operator", "a" * 16)
BOB = Token("bob", "viewer", "b" * 16)
GUARDED = Web(listen="0.0.0.0", tokens=(ANN, BOB))
PROXIED = Web(listen="0.0.0.0", proxies=("10.1.0.0/16",), operator_groups=("gpu-admins",), viewer_groups=("ml",))


def request(method: str = "GET", peer: str = "192.0.2.1", kind: str = "http", **headers: str) -> Asked:
    sent = {"host": "127.0.0.1:8080", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return Asked(kind, method, "/api/v1/captures", "", False, peer, sent)


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("127.0.0.1:8080", True),
        ("127.0.0.1", True),
        ("127.9.9.9:1", True),
        ("localhost:8080", True),
        ("LOCALHOST", True),
        ("localhost.", True),
        ("warpmeter.localhost:8080", True),
        ("[::1]:8080", True),
        ("gpu.example:8080", True),
        ("evil.example:8080", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("192.0.2.7:8080", False),
        ("", False),
        ("[::1", False),
        ("127.0.0.1@evil.example", False),
    ],
)
def test_on_loopback_only_names_of_this_machine_are_answered(host: str, ours: bool) -> None:
    web = Web(hosts=("GPU.example",))
    assert (unknown_host(request(host=host.lower()), web) == "") is ours


def test_where_callers_say_who_they_are_any_name_will_do_unless_names_are_listed() -> None:
    elsewhere = request(host="gpu.example")
    assert unknown_host(elsewhere, GUARDED) == ""
    assert unknown_host(elsewhere, replace(GUARDED, hosts=("gpu.example",))) == ""
    assert "web.hosts" in unknown_host(elsewhere, replace(GUARDED, hosts=("other.example",)))


@pytest.mark.parametrize(
    ("headers", "ours"),
    [
        ({}, True),
        ({"origin": "http://127.0.0.1:8080"}, True),
        ({"origin": "https://gpu.example"}, True),
        ({"origin": "http://127.0.0.1:9999"}, False),
        ({"origin": "http://evil.example"}, False),
        ({"origin": "null"}, False),
        ({"origin": "http://127.0.0.1:8080.evil.example"}, False),
        ({"sec_fetch_site": "same-origin"}, True),
        ({"sec_fetch_site": "none"}, True),
        ({"sec_fetch_site": "cross-site"}, False),
        ({"sec_fetch_site": "same-site"}, False),
        ({"sec_fetch_site": "cross-site", "origin": "http://127.0.0.1:8080"}, False),
    ],
)
def test_another_sites_page_is_told_from_ours(headers: dict[str, str], ours: bool) -> None:
    assert (cross_site(request("POST", **headers), Web(hosts=("gpu.example",))) == "") is ours


def test_without_tokens_and_proxies_everybody_here_is_the_operator() -> None:
    assert Identity(Web()).of(request(authorization="Bearer x")) == Identified(LOCAL, "local")


@pytest.mark.parametrize(
    ("authorization", "caller"),
    [
        (f"Bearer {ANN.token}", Caller("ann", "operator")),
        (f"bearer  {BOB.token} ", Caller("bob", "viewer")),
        (f"Bearer {ANN.token}x", None),
        (f"Bearer {ANN.token[:-1]}", None),
        ("Bearer é", None),
        (f"Basic {ANN.token}", None),
        ("Bearer ", None),
        ("", None),
    ],
)
def test_a_program_is_known_by_its_token(authorization: str, caller: Caller | None) -> None:
    assert Identity(GUARDED).of(request(authorization=authorization)).caller == caller


def test_a_session_is_good_until_it_is_over() -> None:
    clock = FakeClock()
    identity = Identity(replace(GUARDED, session_s=60.0), clock)
    seen = request(cookie=f"other=1; {COOKIE}={identity.sessions.begin('bob')}")
    assert identity.of(seen) == Identified(Caller("bob", "viewer"), "cookie")
    clock.sleep(59)
    assert identity.of(seen).caller is not None
    clock.sleep(2)
    assert identity.of(seen) == Identified(None, "cookie")


@pytest.mark.parametrize("before", ['foo={"a": 1}', "a b=c", "=", "x", 'quoted="a;b', "é=ü", "[]=1", "a=b,c=d"])
def test_no_other_cookie_hides_a_session(before: str) -> None:
    identity = Identity(GUARDED)
    ours = f"{COOKIE}={identity.sessions.begin('bob')}"
    for cookies in (f"{before}; {ours}", f"{before};{ours}", f"{ours}; {before}"):
        assert identity.of(request(cookie=cookies)).caller == Caller("bob", "viewer"), cookies


def test_a_session_ends_with_its_token_and_holds_none() -> None:
    web = replace(GUARDED, session_secret="s" * 32)
    cookie = Identity(web).sessions.begin("ann")
    assert ANN.token not in cookie
    again = Identity(web)  # after a restart
    assert again.sessions.read(cookie) == Caller("ann", "operator")
    changed = Identity(replace(web, tokens=(replace(ANN, token="c" * 16), BOB)))
    removed = Identity(replace(web, tokens=(BOB,)))
    lowered = Identity(replace(web, tokens=(replace(ANN, role="viewer"), BOB)))
    assert changed.sessions.read(cookie) is None
    assert removed.sessions.read(cookie) is None
    assert lowered.sessions.read(cookie) == Caller("ann", "viewer")
    assert Identity(GUARDED).sessions.read(cookie) is None


@given(st.text(max_size=80))
def test_no_cookie_of_somebody_elses_making_is_a_session(cookie: str) -> None:
    identity = Identity(GUARDED)
    ours = identity.sessions.begin("bob")
    assert identity.sessions.read(cookie) is None
    assert identity.sessions.read(ours.replace("bob", "ann")) is None
    assert identity.sessions.read(f"9{ours}") is None
    assert identity.sessions.read(f"{ours}{cookie}") in (None, Caller("bob", "viewer") if not cookie else None)


@pytest.mark.parametrize(
    ("groups", "role"),
    [("gpu-admins", "operator"), ("ml,gpu-admins", "operator"), ("ml", "viewer"), ("/ml", "viewer"), ("x", None)],
)
def test_a_trusted_proxy_says_who_asks(groups: str, role: str | None) -> None:
    found = Identity(PROXIED).of(request(peer="10.1.2.3", x_forwarded_user="ann@x", x_forwarded_groups=groups))
    assert found.by == "proxy"
    assert (found.caller.role if found.caller else None) == role


def test_nobody_else_says_who_asks() -> None:
    identity = Identity(PROXIED)
    stranger = request(peer="10.2.2.3", x_forwarded_user="ann", x_forwarded_groups="gpu-admins")
    assert identity.of(stranger) == Identified(None, "nobody")
    assert identity.of(request(peer="", x_forwarded_user="ann")).caller is None
    mapped = request(peer="::ffff:10.1.2.3", x_forwarded_user="ann", x_forwarded_groups="ml")
    assert identity.of(mapped).caller == Caller("ann", "viewer", "proxy")


def test_a_browsers_own_header_beside_the_proxys_is_not_believed() -> None:
    pairs = [(b"x-forwarded-user", b"root"), (b"X-Forwarded-User", b"ann"), (b"x-forwarded-groups", b"gpu-admins")]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": pairs, "client": ("10.1.2.3", 1)}
    assert Identity(PROXIED).of(asked(scope)) == Identified(None, "proxy")


@pytest.mark.parametrize(
    ("sent", "name"), [("Jürgen Müller".encode(), "Jürgen Müller"), ("Jürgen".encode("latin-1"), "Jürgen")]
)
def test_a_proxys_user_is_text(sent: bytes, name: str) -> None:
    pairs = [(b"x-forwarded-user", sent), (b"x-forwarded-groups", b"ml")]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": pairs, "client": ("10.1.2.3", 1)}
    assert Identity(PROXIED).of(asked(scope)).caller == Caller(name, "viewer", "proxy")


def test_a_proxys_user_is_not_the_token_of_that_name() -> None:
    identity = Identity(replace(PROXIED, tokens=(ANN, BOB)))
    from_proxy = identity.of(request(peer="10.1.2.3", x_forwarded_user="ann", x_forwarded_groups="gpu-admins")).caller
    with_token = identity.of(request(authorization=f"Bearer {ANN.token}")).caller
    assert from_proxy is not None
    assert with_token is not None
    assert from_proxy.key != with_token.key
    assert identity.sessions.csrf(from_proxy) != identity.sessions.csrf(with_token)


def test_the_address_of_a_caller_is_what_a_trusted_proxy_saw() -> None:
    identity = Identity(PROXIED)
    assert identity.address(request(peer="10.1.2.3", x_forwarded_for="6.6.6.6, 192.0.2.9")) == "192.0.2.9"
    assert identity.address(request(peer="192.0.2.1", x_forwarded_for="6.6.6.6")) == "192.0.2.1"


def test_a_token_comes_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("f" * 20 + "\n")
    identity = Identity(Web(tokens=(Token("ci", token_file=file),)))
    assert identity.of_token("f" * 20) == Caller("ci", "viewer")
    file.write_text("short")
    with pytest.raises(TokenError, match="less than 16"):
        Identity(Web(tokens=(Token("ci", token_file=file),)))
    file.write_bytes(b"\xff" * 40)
    with pytest.raises(TokenError, match="no text"):
        Identity(Web(tokens=(Token("ci", token_file=file),)))
    file.write_text("ä" * 20)
    with pytest.raises(TokenError, match="no header carries"):
        Identity(Web(tokens=(Token("ci", token_file=file),)))
    with pytest.raises(TokenError, match="No such file"):
        Identity(Web(tokens=(Token("ci", token_file=tmp_path / "none"),)))


def test_a_caller_has_so_many_writes_a_minute_and_no_other_callers() -> None:
    clock = FakeClock()
    rates = Rates(6, clock)
    assert [rates.wait_s("ann") for _ in range(6)] == [0.0] * 6
    assert rates.wait_s("ann") == pytest.approx(10.0)
    assert rates.wait_s("bob") == 0.0
    clock.sleep(10)
    assert rates.wait_s("ann") == 0.0
    assert rates.wait_s("ann") > 0
    clock.sleep(3600)
    assert [rates.wait_s("ann") for _ in range(7)].count(0.0) == 6


@pytest.mark.parametrize(
    ("goal", "where"),
    [
        ("/jobs?x=1#y", "/jobs?x=1#y"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example/", "/"),
        ("javascript:alert(1)", "/"),
        ("/a\nSet-Cookie: b", "/"),
        ("", "/"),
        ("//[", "/"),
    ],
)
def test_a_login_leads_nowhere_else(goal: str, where: str) -> None:
    assert safe_next(goal) == where


def test_a_page_may_run_files_of_ours_and_its_own_scripts_alone() -> None:
    policy = dict(part.split(" ", 1) for part in page_policy("n0nce").split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == "'none'"
    assert policy["script-src"].split() == ["'self'", "'nonce-n0nce'", "'unsafe-eval'"]
    assert "*" not in page_policy("x")
    assert "http" not in page_policy("x")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "select 1 ;\n ; ",
        "-- a comment\n/* and ; another */ WITH 1 AS x SELECT x",
        "(SELECT 1) UNION ALL (SELECT 2)",
        "SHOW TABLES",
        "EXPLAIN SELECT 1",
        "DESCRIBE gpus",
        "SELECT name FROM system.settings",
        "SELECT * FROM `system` . settings",
        "SELECT 'settings', $$ SETTINGS $$, `settings`, \"settings\" /* SETTINGS a = 1 */ -- settings\nFROM t",
        "SELECT 'it''s \\' SETTINGS a = 1'",
        "SHOW SETTINGS",
        "SHOW CHANGED SETTINGS ILIKE '%mem%'",
        "\ufeffSELECT 1",
    ],
)
def test_the_console_takes_what_reads(sql: str) -> None:
    assert checked(sql) == sql.lstrip("\ufeff").rstrip("; \n")


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t VALUES (1)",
        "DROP TABLE gpus",
        "/* SELECT */ ALTER TABLE t DELETE WHERE 1",
        "-- SELECT\nSYSTEM SHUTDOWN",
        "SET max_execution_time = 0",
        "SELECT 1 SETTINGS max_execution_time = 0",
        "SELECT 1 SETTINGS/**/max_memory_usage = 0",
        "SELECT 1.SETTINGS max_memory_usage = 0",
        "SELECT '' SETTINGS max_memory_usage = 0",
        "SELECT '\\'' SETTINGS max_memory_usage = 0 --'",
        "SELECT 'a' /* ' */ SETTINGS max_memory_usage = 0 -- '",
        "SELECT $a$ $b$ $a$ SETTINGS max_memory_usage = 0 -- $b$",
        "SELECT /* /* */ 1 SETTINGS max_memory_usage = 0 -- */",
        "SHOW SETTINGS SETTINGS max_memory_usage = 0",
        "SHOW TABLES SETTINGS max_memory_usage = 0",
        "'SELECT' 1",
        "SELECT 'no end",
        "SELECT * FROM system.tables\nsettings max_threads = 64",
        "",
        " ; ",
        "-- nothing",
    ],
)
def test_the_console_takes_nothing_else(sql: str) -> None:
    with pytest.raises(StatementError) as refused:
        checked(sql)
    assert refused.value.status == 400


def test_where_a_setting_stands_is_said() -> None:
    with pytest.raises(StatementError) as refused:
        checked("SELECT 1\n  SETTINGS a = 1")
    assert (refused.value.line, refused.value.column) == (2, 3)
