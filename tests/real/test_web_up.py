"""The page as a process, alone and as a part of `up`: real HTTP, real websockets, a clean end."""

import json
import re
import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from socket import create_connection

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from tests.real.up import free_port, up, warpmeter
from tests.signals import SLACK_S
from tests.wait import until
from tests.web_process import WebProcess
from warpmeter.settings import Token, Web

ANN = Token("ann", "operator", "operator-of-this-test")
HTML = {"accept": "text/html"}
PATIENCE_S = 60.0
get = partial(httpx.get, timeout=PATIENCE_S)
"""httpx itself waits five seconds, which a busy machine may take for a page."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebProcess]:
    """By default: on loopback, everybody here is its operator."""
    with closing(WebProcess(tmp_path_factory.mktemp("web"))) as process:
        yield process.ready()


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[WebProcess]:
    """With a token."""
    with closing(WebProcess(tmp_path, Web(tokens=(ANN,)))) as process:
        yield process.ready()


def open_socket(process: WebProcess, origin: str | None, **headers: str) -> ClientConnection:
    """NiceGUI's websocket, as a page opens it; raises InvalidStatus when it is refused."""
    url = process.url.replace("http", "ws") + "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    return connect(url, origin=Origin(origin) if origin else None, additional_headers=headers, open_timeout=PATIENCE_S)


def refused(process: WebProcess, origin: str | None, **headers: str) -> int:
    with pytest.raises(InvalidStatus) as error:
        open_socket(process, origin, **headers)
    return error.value.response.status_code


def test_beside_the_socket_is_none(page: WebProcess) -> None:
    with pytest.raises(InvalidStatus) as error:
        connect(page.url.replace("http", "ws") + "/_nicegui_ws/x", open_timeout=PATIENCE_S)
    assert error.value.response.status_code == 403


def test_a_page_runs_its_own_scripts_and_no_others(page: WebProcess) -> None:
    answer = get(page.url, headers=HTML)
    policy = answer.headers["content-security-policy"]
    found = re.search(r"'nonce-([\w-]+)'", policy)
    assert answer.status_code == 200
    assert found
    scripts = re.findall(r"<script[^>]*>", answer.text)
    assert len(scripts) > 5
    assert all(f'nonce="{found[1]}"' in script for script in scripts)
    assert get(page.url, headers=HTML).headers["content-security-policy"] != policy
    assert "evil.example" not in get(page.url, headers={**HTML, "x-forwarded-prefix": "//evil.example"}).text
    assert "server" not in answer.headers
    files = re.findall(r'"(/_nicegui/[^"]+\.js)"', answer.text)
    assert get(page.url + files[0]).headers["x-content-type-options"] == "nosniff"


def test_no_page_of_another_site_opens_the_socket(page: WebProcess) -> None:
    assert refused(page, "http://evil.example") == 403
    assert refused(page, None, Host="evil.example") == 403
    polling = f"{page.url}/_nicegui_ws/socket.io/?EIO=4&transport=polling"
    assert get(polling, headers={"origin": "http://evil.example"}).status_code == 403
    assert get(polling, headers={"origin": page.url}).status_code == 200
    with open_socket(page, page.url) as socket:
        assert socket.recv(PATIENCE_S)
        gauge = "warpmeter_web_websockets 1.0"
        until(lambda: gauge in get(f"http://127.0.0.1:{page.metrics}/metrics").text, "the socket to be counted")


def test_who_opens_a_connection_and_does_not_come_to_ask_is_let_go(page: WebProcess) -> None:
    half = b"GET /api/v1/queries HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half"
    body = b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\ntoken="
    with ExitStack() as opened:
        made = (opened.enter_context(create_connection(("127.0.0.1", page.port), 120)) for _ in range(4))
        silent, slow, again, long = made
        slow.sendall(half)
        long.sendall(body)
        again.sendall(b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + half)
        assert again.recv(4096).startswith(b"HTTP/1.1 303")
        for connection in (silent, slow, again, long):
            while connection.recv(4096):
                pass


def test_head_is_answered_for_pages_too(page: WebProcess) -> None:
    # One connection: no body may be left in it.
    with httpx.Client(base_url=page.url, headers=HTML, timeout=PATIENCE_S) as client:
        for path, status in (
            ("/", 200),
            ("/hosts", 200),
            ("/host/a%2Fb", 200),
            ("/nowhere", 404),
            ("/api/v1/session", 200),
        ):
            answer = client.head(path)
            assert (answer.status_code, answer.content) == (status, b""), path


def test_a_store_that_is_away_is_a_line_in_the_log_and_not_one_a_request(page: WebProcess) -> None:
    for _ in range(5):
        assert get(f"{page.url}/api/v1/hosts").status_code == 503
    told = [line for line in page.said if line["level"] == "warning" and "refused" not in line["event"]]
    assert 0 < len(told) < 5, told
    assert {line["event"] for line in told} == {"the store does not answer"}


def test_one_address_cannot_take_all_connections(tmp_path: Path) -> None:
    with ExitStack() as opened:
        process = opened.enter_context(closing(WebProcess(tmp_path)))
        resource.prlimit(process.process.pid, resource.RLIMIT_NOFILE, (400, 400))  # so 200 connections
        process.ready()
        for _ in range(250):
            opened.enter_context(create_connection(("127.0.0.1", process.port), 60, ("127.0.0.2", 0)))
        assert get(f"{process.url}/login").status_code == 303


def test_what_is_asked_is_counted_by_route(page: WebProcess) -> None:
    for path in ("/", "/api/v1/queries", "/api/v1/queries/nothing", "/api/v1/nowhere", "/api/v1/host/a"):
        get(page.url + path, headers=HTML)
    wanted = {("/", "200"), ("/api/v1/queries", "200"), ("/api/v1/queries/{name}", "404"), ("other", "404")}

    def counted() -> bool:
        """A request is counted when all is done, its answer may be here before."""
        text = get(f"http://127.0.0.1:{page.metrics}/metrics").text
        found = set(re.findall(r'warpmeter_web_requests_total\{route="([^"]+)",status="(\d+)"\}', text))
        return wanted <= found and 'warpmeter_web_request_seconds_count{route="/api/v1/queries"}' in text

    until(counted, f"{wanted} to be counted")


def test_pages_are_only_for_who_is_known_and_end_at_once_when_told_to(guarded: WebProcess) -> None:
    with httpx.Client(base_url=guarded.url, timeout=PATIENCE_S) as browser:
        assert browser.get("/hosts", headers=HTML).headers["location"] == "/login?next=%2Fhosts"
        assert browser.get("/_nicegui/x/static/nicegui.js").status_code == 401
        assert refused(guarded, guarded.url) == 403
        logged_in = browser.post("/login", data={"token": ANN.token, "next": "/"})
        assert (logged_in.status_code, logged_in.headers["location"]) == (303, "/")
        assert browser.get("/", headers=HTML).status_code == 200
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    assert refused(guarded, "http://evil.example", Cookie=cookie) == 403
    with open_socket(guarded, guarded.url, Cookie=cookie) as socket:
        assert socket.recv(PATIENCE_S)
        began = time.monotonic()
        assert guarded.stop() == 0
        assert time.monotonic() - began < SLACK_S
        with suppress(ConnectionClosed):
            while socket.recv(PATIENCE_S):
                pass
    assert guarded.said[-1]["event"] == "stopped"
    assert ANN.token not in guarded.log.read_text()
    assert any(line["event"] == "audit" and line["action"] == "login" for line in guarded.said)


def test_what_it_cannot_start_with_is_one_line(tmp_path: Path) -> None:
    missing = Web(tokens=(Token("ann", "operator", token_file=tmp_path / "none"),))
    certificate = Web(tls_certificate=tmp_path / "none.pem", tls_key=tmp_path / "none.key")
    started = [WebProcess(tmp_path, web) for web in (missing, certificate)]
    for process, why in zip(started, ("none: No such file", "web.tls_certificate"), strict=True):
        assert process.process.wait(120) == 78
        (line,) = process.said
        assert (line["event"], why in line["why"]) == ("cannot start", True)


def test_a_port_that_is_taken_is_one_line(page: WebProcess) -> None:
    again = subprocess.run(
        warpmeter("web", "--port", str(page.port), "--store", "http://127.0.0.1:1"),
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    said = [line for line in again.stderr.splitlines() if "own metrics" not in line]
    assert (again.returncode, len(said)) == (78, 1)
    assert f"cannot listen on 127.0.0.1:{page.port}" in said[0]


def test_beyond_this_machine_it_needs_to_know_who_looks() -> None:
    refusal = subprocess.run(warpmeter("web", "--listen", "0.0.0.0"), capture_output=True, text=True, timeout=120)
    assert refusal.returncode == 2
    assert "web.tokens" in refusal.stderr
    assert len(refusal.stderr.splitlines()) == 1


@pytest.mark.long
@pytest.mark.timeout(600)
def test_up_brings_the_page_and_says_its_address_last(tmp_path: Path) -> None:
    with up(tmp_path / "data", page=True) as running:
        address = f"http://127.0.0.1:{running.web}"
        until(lambda: address in running.said.read_text(), "the address to be printed")
        assert running.said.read_text().splitlines()[-1].split() == ["look", address]
        announced = json.loads((running.data / "up.json").read_text())
        assert (announced["web"], "web" in announced["parts"]) == (address, True)

        until(lambda: get(f"{address}/api/v1/health").json()["ok"], "the page to reach the store")
        until(lambda: rows(address, "SELECT count() > 0 FROM host_samples") == [[1]], "samples to be there", 60)
        rights = rows(address, "SELECT value FROM system.settings WHERE name = 'readonly'")
        assert rights == [["2"]]  # the engine's own word: it never had the write token

        taken = ("--broker-port", str(free_port()), "--http-port", str(free_port()), "--web-port", str(running.web))
        again = subprocess.run(
            warpmeter("up", "--data", str(tmp_path / "other"), *taken), capture_output=True, text=True, timeout=120
        )
        assert (again.returncode, "--web-port" in again.stderr) == (1, True)
        assert running.stop(60) == 0
    assert not list(running.data.glob("up.json"))


def rows(address: str, sql: str) -> list[list[object]]:
    """Through the page's console."""
    found = httpx.post(f"{address}/api/v1/sql", json={"sql": sql}, timeout=PATIENCE_S)
    return list(found.json()["rows"])
