"""Scraping over HTTP: a real exporter, and endpoints that are slow, large, packed, broken or not there."""

import gzip
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from tests.brokers.process import free_ports
from warpmeter.producers import prometheus
from warpmeter.producers.prometheus import PrometheusSource
from warpmeter.producers.source import Reading, Sample, SourceError
from warpmeter.settings import Scrape

PAGE = b'up 1\nrequests_total{code="200"} 5\n'


@contextmanager
def serving(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """An HTTP server that answers each GET with `answer`; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()


def page(content: bytes, status: int = 200, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """An answer with a body."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        request.wfile.write(content)

    return answer


def scraped(url: str) -> Reading:
    """One read and what it means."""
    source = PrometheusSource("gpu01", Scrape("e", url))
    return source.parse(Sample(1.8e9, 1.0, 10.0, source.read()), None)


def test_a_page_is_scraped() -> None:
    with serving(page(PAGE)) as url:
        rows: list[Any] = list(scraped(url).rows)
    assert [(row.name, dict(row.labels), row.value) for row in rows] == [
        ("up", {}, 1.0), ("requests_total", {"code": "200"}, 5.0),
    ]  # fmt: skip


def test_a_packed_page_is_unpacked() -> None:
    with serving(page(gzip.compress(PAGE), Content_Encoding="gzip")) as url:
        assert len(scraped(url).rows) == 2


def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with serving(page(PAGE)) as url:
        assert len(scraped(url).rows) == 2


def test_nobody_there_is_a_failure_that_names_the_endpoint() -> None:
    with pytest.raises(SourceError, match=r"http://127\.0\.0\.1:1/metrics.*refused") as raised:
        scraped("http://127.0.0.1:1/metrics")
    assert raised.value.state == "failed"


def test_an_error_status_is_a_failure() -> None:
    with serving(page(b"no", status=503)) as url, pytest.raises(SourceError, match=r"Service Unavailable") as raised:
        scraped(url)
    assert raised.value.state == "failed"


def test_an_endpoint_that_does_not_answer_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(SourceError) as raised:
        scraped(f"http://127.0.0.1:{silent.getsockname()[1]}/metrics")
    assert raised.value.state == "timeout"


def test_an_endpoint_that_drips_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "TIMEOUT_S", 0.3)
    monkeypatch.setattr(prometheus, "CHUNK", 10)

    def drip(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        for _ in range(100):
            try:
                request.wfile.write(b"up 1\nup 1\n")
            except OSError:
                return
            time.sleep(0.05)

    began = time.monotonic()
    with serving(drip) as url, pytest.raises(SourceError, match="still sending") as raised:
        scraped(url)
    assert raised.value.state == "timeout"
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("packed", [False, True])
def test_a_page_without_end_is_refused(monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    monkeypatch.setattr(prometheus, "LARGEST", 1 << 20)
    endless = PAGE * (1 << 17)
    answer = page(gzip.compress(endless), Content_Encoding="gzip") if packed else page(endless)
    with serving(answer) as url, pytest.raises(SourceError, match="over 1 MiB") as raised:
        scraped(url)
    assert raised.value.state == "failed"


def test_bytes_that_only_claim_to_be_packed_are_a_failure() -> None:
    with serving(page(PAGE, Content_Encoding="gzip")) as url, pytest.raises(SourceError, match="gzip"):
        scraped(url)


@pytest.mark.skipif(
    shutil.which("prometheus-node-exporter") is None, reason="prometheus-node-exporter is not installed"
)
def test_node_exporter_says_what_the_kernel_says() -> None:
    port = free_ports(1)[0]
    line = ["prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    exporter = subprocess.Popen(line, stderr=subprocess.DEVNULL)
    try:
        reading = _when_up(f"http://127.0.0.1:{port}/metrics")
    finally:
        exporter.terminate()
        exporter.wait(10)
    rows: list[Any] = list(reading.rows)
    assert reading.health == ()
    assert len(rows) > 200
    found = {(row.name, tuple(sorted(row.labels.items()))): row.value for row in rows}
    with open("/proc/meminfo") as meminfo:  # noqa: PTH123
        assert found["node_memory_MemTotal_bytes", ()] == int(meminfo.readline().split()[1]) * 1024
    assert ("node_cpu_seconds_total", (("cpu", "0"), ("mode", "idle"))) in found


def _when_up(url: str) -> Reading:
    deadline = time.monotonic() + 10
    while True:
        try:
            return scraped(url)
        except SourceError:
            assert time.monotonic() < deadline, "the exporter did not answer"
            time.sleep(0.05)
