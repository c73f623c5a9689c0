"""Scraping over HTTP: a real exporter, and endpoints that are slow, large, packed, locked, broken or not there."""

import gzip
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram, Info, start_http_server

from tests.brokers import Tansu
from tests.brokers.process import free_ports
from tests.pages import packed, page, serving
from tests.real import agents
from tests.signals import tell
from tests.wait import until
from warpmeter.cli import doctor
from warpmeter.producers.scrape.exporter import ExporterPage
from warpmeter.producers.source import Reading, Sample, SourceError
from warpmeter.settings import Agent, Scrape, Settings

PAGE = b'up 1\nrequests_total{code="200"} 5\n'
PAGES = Path(__file__).parents[1] / "golden" / "pages"
NODE_EXPORTER = shutil.which("prometheus-node-exporter")
needs_node_exporter = pytest.mark.skipif(
    NODE_EXPORTER is None, reason="prometheus-node-exporter is not installed (apt-get install prometheus-node-exporter)"
)


def scraped(url: str, **asked: Any) -> Reading:
    """One read and what it means."""
    source = ExporterPage("gpu01", Scrape("e", url, **asked))
    return source.parse(Sample(1.8e9, 1.0, 10.0, source.read()), None)


def test_a_page_is_scraped() -> None:
    with serving(page(PAGE)) as url:
        rows: list[Any] = list(scraped(url).rows)
    assert [(row.name, dict(row.labels), row.value) for row in rows] == [
        ("up", {}, 1.0), ("requests_total", {"code": "200"}, 5.0),
    ]  # fmt: skip


def test_a_packed_page_is_unpacked() -> None:
    with serving(packed(PAGE)) as url:
        assert len(scraped(url).rows) == 2


def negotiating(request: BaseHTTPRequestHandler) -> None:
    """What it is asked for: OpenMetrics, or the text format."""
    wanted = request.headers["Accept"].startswith("application/openmetrics-text;version=1.0.0")
    kind = "application/openmetrics-text; version=1.0.0; charset=utf-8" if wanted else "text/plain; version=0.0.4"
    body = b"# TYPE b counter\n# UNIT b_bytes bytes\nb_bytes_total 1\n" if wanted else b"# TYPE b counter\nb 2\n"
    page(body, Content_Type=kind)(request)


def test_openmetrics_is_asked_for_and_left_alone_where_an_exporter_writes_it_wrongly() -> None:
    with serving(negotiating) as url:
        source = ExporterPage("gpu01", Scrape("e", url))
        first = source.parse(Sample(1.8e9, 1.0, 10.0, source.read()), None)
        assert [health.subject for health in first.health] == ["page"]
        (row,) = source.parse(Sample(1.8e9, 1.0, 10.0, source.read()), None).rows
    assert (row.name, row.value) == ("b", 2.0)  # type: ignore[attr-defined]


def test_a_real_openmetrics_server_is_read() -> None:
    registry = CollectorRegistry()
    counted = Counter("jobs", "Jobs done.", ("queue",), registry=registry)
    took = Histogram("took", "What a job took.", unit="seconds", buckets=(0.1, 1.0), registry=registry)
    Info("build", "What runs.", registry=registry).info({"version": "7"})
    counted.labels("a b").inc(3)
    took.observe(0.5)
    server, thread = start_http_server(0, "127.0.0.1", registry=registry)
    try:
        source = ExporterPage("gpu01", Scrape("e", f"http://127.0.0.1:{server.server_port}/metrics"))
        first = Sample(1.8e9, 1.0, 10.0, source.read())
        assert first.raw.openmetrics
        assert list(source.parse(first, None).health) == []
        counted.labels("a b").inc(20)
        rows: list[Any] = list(source.parse(Sample(1.8e9 + 10, 11.0, 10.0, source.read()), first).rows)
        counted.clear()  # another counter of the same name and labels: higher, and yet it began anew
        counted.labels("a b").inc(100)
        anew: list[Any] = list(source.parse(Sample(1.8e9 + 20, 21.0, 10.0, source.read()), first).rows)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    found = {(row.name, row.labels.get("le", "")): (row.kind, row.unit, row.value) for row in rows}
    assert found == {
        ("jobs_total", ""): ("counter", "", 23.0),
        ("took_seconds_bucket", "0.1"): ("histogram", "seconds", 0.0),
        ("took_seconds_bucket", "1.0"): ("histogram", "seconds", 1.0),
        ("took_seconds_bucket", "+Inf"): ("histogram", "seconds", 1.0),
        ("took_seconds_count", ""): ("histogram", "seconds", 1.0),
        ("took_seconds_sum", ""): ("histogram", "seconds", 0.5),
        ("build_info", ""): ("info", "", 1.0),
    }
    assert [row.rate_per_s for row in rows if row.name == "jobs_total"] == [2.0]
    assert [row.HasField("rate_per_s") for row in anew if row.name == "jobs_total"] == [False]


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


def locked(secret: str) -> Any:
    """A page behind a secret."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        (page(PAGE) if request.headers["Authorization"] == secret else page(b"who?", status=401))(request)

    return answer


def test_credentials_come_from_files_that_may_change(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    with serving(locked("Bearer abc")) as url:
        secret.write_text("old\n")
        source = ExporterPage("gpu01", Scrape("e", url, token_file=secret))
        with pytest.raises(SourceError, match=r"401.*set token_file") as raised:
            source.read()
        assert raised.value.state == "denied"
        secret.write_text("abc\n")
        assert source.read().body == PAGE
        secret.unlink()
        with pytest.raises(SourceError, match="must be able to read it"):
            source.read()
    secret.write_text("open sesame\n")
    with serving(locked("Basic bWU6b3BlbiBzZXNhbWU=")) as url:
        assert len(scraped(url, username="me", password_file=secret).rows) == 2


def test_a_secret_does_not_follow_a_redirect(tmp_path: Path) -> None:
    secret, seen = tmp_path / "secret", []

    def other(request: BaseHTTPRequestHandler) -> None:
        seen.append(request.headers["Authorization"])
        page(PAGE)(request)

    secret.write_text("abc")
    with serving(other) as there, serving(page(b"", status=302, Location=there)) as url:
        assert len(scraped(url, token_file=secret).rows) == 2
    assert seen == [None]


@pytest.mark.parametrize("written", [b"hush\nmore", b"hu\xffsh", "hush\u2713".encode(), b"", b"hu sh"])
def test_a_token_that_cannot_be_sent_is_told_without_it(written: bytes, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(written)
    with serving(page(PAGE)) as url, pytest.raises(SourceError, match=r"secret ") as raised:
        scraped(url, token_file=secret)
    assert "hu" not in str(raised.value)


def test_a_redirect_leads_to_http_alone() -> None:
    for target, said in (
        ("ftp://127.0.0.1:1/x", "ftp"),
        ("file:///etc/passwd", "not allowed"),
        ("http://[::1", "IPv6"),
    ):
        with serving(page(b"", status=302, Location=target)) as url, pytest.raises(SourceError, match=said):
            scraped(url)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_https_is_read_with_its_own_authority_and_not_without(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    line = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    line += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*line, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with serving(page(PAGE), tls) as url:
        assert len(scraped(url, ca_file=certificate).rows) == 2
        with pytest.raises(SourceError, match=r"certificate verify failed"):
            scraped(url)
        with pytest.raises(SourceError, match=r"ca_file /nowhere"):
            scraped(url, ca_file=Path("/nowhere"))


def test_an_endpoint_that_does_not_answer_is_a_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(SourceError) as raised:
        scraped(f"http://127.0.0.1:{silent.getsockname()[1]}/metrics", timeout_s=0.2)
    assert raised.value.state == "timeout"


def dripping(head: bytes, more: bytes) -> Any:
    """What comes in time, byte by byte, and never ends."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        for part in (head, *(more for _ in range(600))):
            try:
                request.wfile.write(part)
            except OSError:
                return
            time.sleep(0.05)

    return answer


FINE = b"HTTP/1.0 200 OK\r\n"


@pytest.mark.parametrize(
    ("head", "more"),
    [
        (FINE + b"\r\n", b"up 1\n" * 8000),
        (FINE + b"\r\n", b"#"),
        (FINE + b"Content-Length: 100000\r\n\r\n", b"#"),
        (FINE.replace(b"1.0", b"1.1") + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n#\r\n"),
        (FINE + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(PAGE)[:12], b"\0"),
        (FINE + b"X-More: ", b"#"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["lines", "body", "announced body", "chunks", "gzip", "headers", "continue"],
)
def test_an_endpoint_that_drips_is_a_timeout(head: bytes, more: bytes) -> None:
    began = time.monotonic()
    with serving(dripping(head, more)) as url, pytest.raises(SourceError, match=r"still sending|not answer") as raised:
        scraped(url, timeout_s=0.3)
    assert raised.value.state == "timeout"
    assert time.monotonic() - began < 15  # it would drip for 30 s


@pytest.mark.parametrize("small", [False, True])
def test_a_page_without_end_is_refused(small: bool) -> None:
    endless = PAGE * (1 << 17)
    with (
        serving(packed(endless) if small else page(endless)) as url,
        pytest.raises(SourceError, match="over max_bytes = 1048576") as raised,
    ):
        scraped(url, max_bytes=1 << 20)
    assert raised.value.state == "failed"


@pytest.mark.parametrize(
    "answer",
    [
        page(PAGE, Content_Encoding="gzip"),
        page(gzip.compress(PAGE * 99)[:60], Content_Encoding="gzip"),
        page(gzip.compress(PAGE)[:12] + b"\xff" * 60, Content_Encoding="gzip"),
        page(PAGE, Content_Encoding="br"),
    ],
)
def test_bytes_that_are_not_packed_well_are_a_failure(answer: Any) -> None:
    with serving(answer) as url, pytest.raises(SourceError) as raised:
        scraped(url)
    assert raised.value.state == "failed"


def test_an_answer_that_breaks_off_is_a_failure() -> None:
    with serving(page(PAGE, Content_Length="5000")) as url, pytest.raises(SourceError, match="broke off: 4966 bytes"):
        scraped(url)


def test_doctor_says_of_each_endpoint_whether_it_answers() -> None:
    pages = {name: (PAGES / name).read_bytes() for name in ("dcgm.prom", "pcm_1.prom", "vllm_1.prom")}
    with (
        serving(page(pages["dcgm.prom"])) as dcgm,
        serving(page(pages["pcm_1.prom"])) as pcm,
        serving(page(pages["vllm_1.prom"])) as vllm,
    ):
        asked = (
            Scrape("dcgm", dcgm, "dcgm"), Scrape("pcm", pcm, "pcm"), Scrape("vllm", vllm),
            Scrape("few", vllm, max_series=3), Scrape("dead", "http://127.0.0.1:1/"), Scrape("swapped", vllm, "dcgm"),
        )  # fmt: skip
        found = list(doctor.scrapes(Settings(agent=Agent(host="gpu01", scrape=asked))))
    assert [(each.check, each.verdict) for each in found] == [
        ("scrape dcgm", "ok"), ("scrape pcm", "ok"), ("scrape vllm", "ok"), ("scrape few", "warning"),
        ("scrape dead", "failed"), ("scrape swapped", "failed"),
    ]  # fmt: skip
    assert [each.seen.partition(" in ")[0] for each in found[:4]] == ["2 GPUs", "2 sockets", "22 series", "3 series"]
    assert found[3].seen.endswith(" s; 19 more are over max_series")
    assert "refused" in found[4].seen
    assert "none of what a dcgm page has" in found[5].seen


@contextmanager
def node_exporter(*arguments: str) -> Iterator[str]:
    """The real one; its URL, once it answers."""
    assert NODE_EXPORTER is not None
    port = free_ports(1)[0]
    line = [NODE_EXPORTER, f"--web.listen-address=127.0.0.1:{port}", "--log.level=error", *arguments]
    exporter = subprocess.Popen(line, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/metrics"
    try:
        until(lambda: _answers(url), "the exporter to answer")
        yield url
    finally:
        exporter.terminate()
        exporter.wait(30)


def _answers(url: str) -> bool:
    try:
        return bool(scraped(url).rows)
    except SourceError:
        return False


@needs_node_exporter
def test_node_exporter_says_what_the_kernel_says() -> None:
    with node_exporter() as url:
        reading = scraped(url)
        denied = scraped(url, allow="node_.*", deny="node_cpu_.*")
    rows: list[Any] = list(reading.rows)
    assert list(reading.health) == []
    assert len(rows) > 200
    found = {(row.name, tuple(sorted(row.labels.items()))): row for row in rows}
    with open("/proc/meminfo") as meminfo:  # noqa: PTH123
        assert found["node_memory_MemTotal_bytes", ()].value == int(meminfo.readline().split()[1]) * 1024
    assert found["node_cpu_seconds_total", (("cpu", "0"), ("mode", "idle"))].kind == "counter"
    assert found["node_memory_MemTotal_bytes", ()].kind == "gauge"
    names = {row.name for row in denied.rows}  # type: ignore[attr-defined]
    assert names == {row.name for row in rows if row.name.startswith("node_") and not row.name.startswith("node_cpu_")}


@needs_node_exporter
def test_the_agent_publishes_node_exporter_while_other_endpoints_hang_garble_and_die(
    tansu: Tansu, topic_prefix: str, tmp_path: Path
) -> None:
    bus = agents.with_topics(tansu.bootstrap_servers, topic_prefix)
    reader = agents.Reader(bus)
    vllm = (PAGES / "vllm_1.prom").read_bytes()
    with (
        node_exporter("--collector.disable-defaults", "--collector.stat", "--collector.meminfo") as exporter,
        socket.create_server(("127.0.0.1", 0)) as silent,
        serving(page(b"<html>\x00\xff\n")) as garbled,
        serving(dripping(FINE + b"\r\n", b"#")) as slow,
        serving(page(vllm)) as server,
    ):
        urls = {
            "node": exporter, "hangs": f"http://127.0.0.1:{silent.getsockname()[1]}/", "garbles": garbled,
            "drips": slow, "dead": "http://127.0.0.1:1/", "vllm": server,
        }  # fmt: skip
        endpoints = tuple(Scrape(name, url, period_s=1.0) for name, url in urls.items())
        endpoints = (*endpoints, replace(endpoints[0], name="few", max_series=10))
        with agents.running(agents.settings(tmp_path, bus, scrape=endpoints)) as agent:
            reader.wait(lambda r: len({row.ts for row in metrics(r, "node")}) >= 4, "four pages of node exporter", 120)
            reader.wait(lambda r: unwell(r) >= TROUBLE, "the trouble of the others to be told", 120)
            reader.wait(lambda r: metrics(r, "few") and metrics(r, "vllm"), "the pages of the others", 120)
            tell(agent)
            assert agent.wait(60) == 0
    reader.poll()
    rates = [row for row in metrics(reader, "node") if row.name == "node_context_switches_total"]
    assert [row.HasField("rate_per_s") for row in rates[:3]] == [False, True, True]
    assert all(row.rate_per_s > 0 for row in rates[1:])
    assert {row.kind for row in metrics(reader, "vllm")} >= {"counter", "gauge", "histogram", "summary"}
    assert max(ticks(metrics(reader, "few")).values()) == 10
    assert not [row for name in ("hangs", "garbles", "drips", "dead") for row in metrics(reader, name)]
    times = [row.ts for row in reader.rows("host-samples")]
    gaps = sorted(b - a for a, b in pairwise(times))
    assert gaps[len(gaps) * 9 // 10] < 0.5  # of 0.2 s; whoever waits for a page waits for a second
    reader.close()


TROUBLE = {
    ("scrape/hangs", "", "timeout"), ("scrape/garbles", "page", "failed"), ("scrape/drips", "", "timeout"),
    ("scrape/dead", "", "failed"), ("scrape/few", "series/over", "failed"),
}  # fmt: skip


def unwell(reader: agents.Reader) -> set[tuple[str, str, str]]:
    """What was told of sources and subjects that are not well."""
    rows = [row for row in reader.rows("source-health") if row.state != "ok"]
    return {(row.source, row.subject, row.state) for row in rows}


def metrics(reader: agents.Reader, source: str) -> list[Any]:
    """What came of an endpoint."""
    return [row for row in reader.rows("metric-samples") if row.source == source]


def ticks(rows: list[Any]) -> dict[float, int]:
    """Rows by time."""
    return {ts: sum(row.ts == ts for row in rows) for ts in {row.ts for row in rows}}
