"""Ways out besides Kafka: real agents, a real OTLP receiver, Prometheus' own checker; and receivers that hang."""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tests.brokers.process import free_ports
from tests.clock import FakeClock
from tests.full_rows import everything, full_row
from tests.nvml import NvmlStub
from tests.otlp import Receiver, Say
from tests.real import agents
from tests.signals import SLACK_S, tell
from tests.wait import until
from warpmeter.cli import doctor
from warpmeter.cli.finding import Finding
from warpmeter.clock import SystemClock
from warpmeter.producers.out.exporter import Exporter, Peer
from warpmeter.producers.out.latest import Latest
from warpmeter.producers.out.page import Collected
from warpmeter.settings import Agent, Kafka, Metrics, Settings

NOWHERE = Kafka(bootstrap_servers="127.0.0.1:1")
LINT_ONLY = 3
"""promtool's exit status for names that it does not like, in a page that it could read."""


def promtool(page: str) -> subprocess.CompletedProcess[str]:
    """What Prometheus' own checker says of a page."""
    if (tool := shutil.which("promtool")) is None:
        pytest.skip("promtool is missing: apt-get install prometheus")
    return subprocess.run(
        [tool, "check", "metrics"], input=page, capture_output=True, text=True, timeout=30, check=False
    )


def asked(folder: Path, *outputs: str, **agent: Any) -> Settings:
    """An agent with these outputs, its broker nowhere."""
    settings = agents.settings(folder, NOWHERE, outputs=outputs, **agent)
    return replace(settings, metrics=Metrics(agent_port=free_ports(1)[0]))


def series(port: int, name: str) -> list[str]:
    """The lines of one metric on an agent's page."""
    return [line for line in agents.metrics_page(port).splitlines() if line.startswith((f"{name}{{", f"{name} "))]


@pytest.mark.parametrize("dynolog", [False, True])
def test_promtool_has_nothing_to_say_of_a_page_with_every_metric(dynolog: bool) -> None:
    latest = Latest(Agent(), FakeClock())
    for topic, rows in everything().items():
        latest.publish(topic, rows)
    registry = CollectorRegistry()
    registry.register(Collected(latest.rows, dynolog))
    done = promtool(generate_latest(registry).decode())
    assert done.returncode in ((0, LINT_ONLY) if dynolog else (0,)), done.stdout + done.stderr


def test_the_page_alone_needs_no_broker_and_passes_promtool(tmp_path: Path) -> None:
    settings = asked(tmp_path, "prometheus")
    with agents.running(settings, log=tmp_path / "log") as process:
        port = settings.metrics.agent_port
        pages: list[str] = []

        def whole() -> bool:
            pages.append(agents.metrics_page(port))
            wanted = ("warpmeter_host_cpu_util_ratio", "warpmeter_device_rx_bytes_per_second")
            return all(f"\n{name}{{" in pages[-1] for name in wanted)

        until(whole, "the host's row and the NICs'")
        page = pages[-1]
        tell(process)
        assert process.wait(60) == 0
    assert promtool(page).returncode == 0
    assert 'warpmeter_source_up{source="host"} 1.0' in page
    assert not (tmp_path / "spool").exists()
    assert "broker" not in (tmp_path / "log").read_text()


def test_a_gpu_that_is_lost_leaves_the_page_and_its_xid_stands_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = Receiver()
    settings = asked(tmp_path, "prometheus", "otlp", gpu=True, otlp_url=receiver.url, otlp_interval_s=0.5)
    with NvmlStub(tmp_path, gpus=3) as stub:
        for name, value in stub.environment().items():
            monkeypatch.setenv(name, value)
        with agents.running(settings, log=tmp_path / "log"):
            power = partial(series, settings.metrics.agent_port, "warpmeter_gpu_power_watts")
            until(lambda: len(power()) == 3, "all GPUs on the page")
            until(lambda: any("hw.power" in got.metrics for got in receiver.got), "GPUs by OTLP")
            sent = next(got.metrics["hw.power"] for got in receiver.got if "hw.power" in got.metrics)
            assert len({tuple(map(str, point.attributes)) for point in sent.gauge.data_points}) == 3
            assert series(settings.metrics.agent_port, "warpmeter_gpu_event_raised") == []
            stub.gpus[1].lost = True
            stub.xid(1, 79)
            until(lambda: len(power()) == 2, "the lost one to be absent")
            assert not any('gpu="1"' in line for line in power())
            raised = partial(series, settings.metrics.agent_port, "warpmeter_gpu_event_raised")
            until(lambda: any('code="79"' in line and 'gpu="1"' in line for line in raised()), "its XID")
    receiver.close()


def test_a_burst_of_slow_readers_keeps_nobody_waiting(tmp_path: Path) -> None:
    settings = asked(tmp_path, "prometheus")
    port = settings.metrics.agent_port
    with agents.running(settings), ExitStack() as slow:
        until(lambda: agents.metrics_page(port), "the page")
        for _ in range(60):
            slow.enter_context(socket.create_connection(("127.0.0.1", port), 60)).sendall(b"GET /metr")
        began = time.monotonic()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            assert b"warpmeter_source_up" in answer.read()
        assert time.monotonic() - began < 5 + SLACK_S


def test_a_port_that_is_taken_is_told_and_tried_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = asked(tmp_path, "prometheus", "stdout")
        settings = replace(settings, metrics=Metrics(agent_port=taken.getsockname()[1]))
        with agents.running(settings, log=tmp_path / "log") as process:
            until(lambda: "is not served: Address already in use" in (tmp_path / "log").read_text(), "its health")
            tell(process)  # so that its last line is whole
            process.wait(60)
    (told,) = [
        row for row in agents.json_rows((tmp_path / "log").read_text())["source-health"]
        if row["source"] == "output/prometheus"
    ][:1]  # fmt: skip
    assert told["state"] == "failed"
    assert told["why"].endswith("set metrics.agent_port to a free port")


@contextmanager
def cli(*arguments: str, stdout: int = subprocess.PIPE, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """`warpmeter agent` as a user starts it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WARPMETER_")}
    given = {"METRICS__AGENT_PORT": "0", **variables}
    process = subprocess.Popen(
        [sys.executable, "-m", "warpmeter", "agent", *arguments],
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        env={**environment, **{f"WARPMETER_{name}": value for name, value in given.items()}},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)
        if process.stdout is not None:
            process.stdout.close()


def test_json_lines_come_until_the_reader_leaves() -> None:
    with cli("--out", "stdout", "--interval", "0.2", "--host", "gpu07") as process:
        assert process.stdout is not None
        rows: list[dict[str, Any]] = []
        while len(rows) < 20 or "host-samples" not in {row["topic"] for row in rows}:  # a host may have many devices
            rows.append(json.loads(process.stdout.readline()))
        assert {row["host"] for row in rows} == {"gpu07"}
        process.stdout.close()
        assert process.wait(60) == 1  # it was its only way out


def test_an_unknown_output_is_refused_with_those_that_there_are() -> None:
    command = [sys.executable, "-m", "warpmeter", "agent", "--out", "files"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "'kafka', 'stdout', 'prometheus' or 'otlp'" in done.stderr


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process that does nothing for a while."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def peers(received: Path, rows: Path) -> Iterator[tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]]:
    """An OTLP receiver and a reader of standard output, as processes."""
    receiver = subprocess.Popen([sys.executable, "-m", "tests.otlp", str(received)])
    with rows.open("wb") as target:
        reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=target)
    try:
        until(received.exists, "the receiver")
        yield receiver, reader
    finally:
        for child in (receiver, reader):
            child.kill()
            child.wait(10)


@pytest.mark.long
def test_receivers_that_hang_delay_nobody(tmp_path: Path) -> None:
    """With no broker, and two receivers frozen, the page goes on; the two catch up when they are thawed."""
    received, rows = tmp_path / "received", tmp_path / "rows"
    with peers(received, rows) as (receiver, reader):
        assert reader.stdin is not None
        fcntl.fcntl(reader.stdin, fcntl.F_SETPIPE_SZ, 4096)  # a few rows
        (port,) = free_ports(1)
        variables = {
            "METRICS__AGENT_PORT": str(port),
            "AGENT__OTLP_URL": f"http://127.0.0.1:{received.read_text().split()[0]}",
            "AGENT__OTLP_INTERVAL_S": "0.5",
            "AGENT__SPOOL_DIR": str(tmp_path / "spool"),
        }
        arguments = ("--out", "stdout,otlp,prometheus,kafka", "--interval", "0.5", "--bootstrap-servers", "127.0.0.1:1")
        with cli(*arguments, stdout=reader.stdin.fileno(), **variables) as process:
            reader.stdin.close()
            until(lambda: len(received.read_text().split()) > 2 and "host-samples" in rows.read_text(), "both")
            with stopped(receiver.pid), stopped(reader.pid):
                read_at = _ticks_seen(port, 8)
                before = len(received.read_text().split())
            assert max(later - earlier for earlier, later in pairwise(read_at)) < 5
            until(lambda: len(received.read_text().split()) > before + 4, "OTLP to catch up", 100)
            tell(process)
            assert process.wait(60) == 0
        reader.wait(60)
    times = [row["ts"] for row in agents.json_rows(rows.read_text())["host-samples"]]
    assert times == sorted(set(times))
    assert len(times) >= 8


def test_a_stop_waits_for_no_receiver_that_hangs(tmp_path: Path) -> None:
    received = tmp_path / "received"
    (port,) = free_ports(1)
    with peers(received, tmp_path / "rows") as (receiver, reader), stopped(reader.pid):
        assert reader.stdin is not None
        fcntl.fcntl(reader.stdin, fcntl.F_SETPIPE_SZ, 4096)
        url = f"http://127.0.0.1:{received.read_text().split()[0]}"
        variables = {"METRICS__AGENT_PORT": str(port), "AGENT__OTLP_URL": url, "AGENT__OTLP_INTERVAL_S": "0.5"}
        arguments = ("--out", "stdout,otlp,prometheus", "--interval", "0.2")
        with stopped(receiver.pid), cli(*arguments, stdout=reader.stdin.fileno(), **variables) as process:
            queued = partial(agents.metric, port, 'warpmeter_output_queue_bytes{output="output/otlp"}')
            until(lambda: queued() > 0, "an export to wait")
            began = time.monotonic()
            tell(process)
            process.wait(60)
            took = time.monotonic() - began
    assert took < 5 + SLACK_S, took


def _ticks_seen(port: int, count: int) -> list[float]:
    """When the page had each of `count` new values of a metric that never stands still."""
    seen: list[str] = []
    at: list[float] = []

    def another() -> bool:
        line = "".join(series(port, "warpmeter_host_context_switches_per_second"))
        if line and line not in seen:
            seen.append(line)
            at.append(time.monotonic())
        return len(seen) >= count

    until(another, f"{count} ticks")
    return at


def exporter(receiver: Receiver, **agent: Any) -> Exporter:
    """An exporter that is pumped by hand."""
    return Exporter(Agent(host="gpu01", otlp_url=receiver.url, otlp_interval_s=0.1, **agent), SystemClock())


def push(out: Exporter) -> None:
    """One row and its export."""
    out.publish("host-samples", [full_row("host-samples")])
    out._export()


def test_an_export_is_protobuf_gzipped_and_once() -> None:
    receiver = Receiver()
    out = exporter(receiver, otlp_headers={"x-tenant": "a"})
    for topic, rows in everything().items():
        out.publish(topic, rows)
    out._export()
    until(lambda: receiver.got, "the export")
    out.close(5)
    receiver.close()
    (got,) = receiver.got
    assert (got.path, got.headers["content-type"], got.headers["content-encoding"], got.headers["x-tenant"]) == (
        "/v1/metrics", "application/x-protobuf", "gzip", "a",
    )  # fmt: skip
    assert "hw.gpu.utilization" in got.metrics
    assert got.points > 200


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_what_can_be_tried_again_is_after_the_time_that_the_receiver_says(status: int) -> None:
    receiver = Receiver([Say(status, {"Retry-After": "1"})])
    out = exporter(receiver)
    push(out)
    until(receiver.taken, "the second try")
    out.close(5)
    receiver.close()
    first, second = receiver.got
    assert second.at - first.at >= 1
    assert second.request == first.request
    assert out.health() == (out.health()[0], [])


def test_what_is_refused_for_good_is_dropped_and_counted() -> None:
    receiver = Receiver([Say(400), Say(200, rejected=3, message="too old")])
    out = exporter(receiver)
    push(out)
    until(lambda: len(receiver.got) == 1, "the refusal")
    push(out)
    until(lambda: len(out.health()[1]) == 2, "both to be counted")
    state, told = out.health()
    assert state.state == "ok"
    assert {each.subject: each.count for each in told} == {
        "dropped/refused": receiver.got[0].points, "dropped/rejected": 3,
    }  # fmt: skip
    out.close(5)
    receiver.close()
    assert len(receiver.got) == 2


def test_a_receiver_that_rejects_more_than_it_got_is_sent_to_all_the_same() -> None:
    receiver = Receiver([Say(200, rejected=10**12), Say(200, rejected=-5)])
    out = exporter(receiver)
    for count in (1, 2, 3):
        push(out)
        until(lambda count=count: len(receiver.got) == count, "the next export")  # type: ignore[misc]
    (told,) = out.health()[1]
    assert (told.subject, told.count) == ("dropped/rejected", receiver.got[0].points)
    out.close(5)
    receiver.close()


@pytest.mark.parametrize("part", [b"HTTP/1.1 100 Continue\r\n\r\n", b"H"])
def test_a_receiver_that_drips_its_answer_is_one_that_does_not_answer(
    part: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpmeter.producers.out.exporter.TIMEOUT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = Peer(Agent(host="gpu01", otlp_url=f"http://127.0.0.1:{server.getsockname()[1]}"))
        stop = threading.Event()

        def drip() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                while not stop.wait(0.05):
                    connection.sendall(part)

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        began = time.monotonic()
        assert peer.post(b"x").status == 0
        assert time.monotonic() - began < 5 + SLACK_S
        stop.set()
        thread.join(10)


def test_a_receiver_that_comes_back_gets_what_the_queue_held_and_the_rest_is_counted() -> None:
    (port,) = free_ports(1)
    agent = Agent(host="gpu01", otlp_url=f"http://127.0.0.1:{port}", otlp_queue_max_bytes=20_000)
    out = Exporter(agent, SystemClock())
    for _ in range(40):
        push(out)
    assert out._bytes <= 20_000
    kept = len(out._queue)
    assert 1 < kept < 40
    receiver = Receiver(port=port)
    until(lambda: len(receiver.got) == kept, "what was kept", 120)
    (dropped,) = out.health()[1]
    points = receiver.got[0].points
    assert (dropped.subject, dropped.count) == ("dropped/full", (40 - kept) * points)
    out.close(5)
    receiver.close()


def test_a_connection_that_the_receiver_closed_while_it_rested_is_no_failure() -> None:
    receiver = Receiver([Say(headers={"Connection": "close"})])
    out = exporter(receiver)
    push(out)
    until(receiver.taken, "the first")
    push(out)
    until(lambda: len(receiver.taken()) == 2, "the second")
    out.close(5)
    receiver.close()
    assert out._why == ""


def test_a_receiver_that_is_away_is_told_without_its_password() -> None:
    clock = FakeClock()
    (port,) = free_ports(1)
    out = Exporter(Agent(host="gpu01", otlp_url=f"http://me:hunter2@127.0.0.1:{port}"), clock)
    push(out)
    until(lambda: out._failing_since is not None, "the first failure")
    assert out.health()[0].state == "ok"
    clock.sleep(11)
    (state, _) = out.health()
    assert state.state == "failed"
    assert "Connection refused; 1 exports wait" in state.why
    assert f"http://127.0.0.1:{port}/v1/metrics takes nothing" in state.why
    assert "hunter2" not in state.why
    receiver = Receiver(port=port)
    until(receiver.taken, "it to come back")
    until(lambda: out.health()[0].state == "ok", "its health")
    assert receiver.got[0].headers["authorization"] == "Basic bWU6aHVudGVyMg=="
    out.close(5)
    receiver.close()


def test_a_stop_sends_what_came_last(tmp_path: Path) -> None:
    receiver = Receiver()
    settings = asked(tmp_path, "otlp", otlp_url=receiver.url, otlp_interval_s=600.0)
    with agents.running(settings) as process:
        port = settings.metrics.agent_port
        until(lambda: 'warpmeter_source_up{source="host"} 1.0' in agents.metrics_page(port), "the host's row")
        tell(process)
        assert process.wait(60) == 0
    receiver.close()
    (got,) = receiver.got
    assert "system.memory.usage" in got.metrics


def verdicts(settings: Settings) -> dict[str, Finding]:
    """What the doctor says of the ways out."""
    checks = (doctor.page, doctor.otlp, doctor.broker, doctor.topic_table)
    return {found.check: found for found in (check(settings) for check in checks)}


def test_the_doctor_asks_each_output_that_is_on_and_no_other(tmp_path: Path) -> None:
    receiver = Receiver([Say(), Say(401)])
    settings = asked(tmp_path, "prometheus", "otlp", otlp_url=receiver.url, otlp_interval_s=600.0)  # the doctor alone
    assert {name: found.verdict for name, found in verdicts(settings).items()} == {
        "prometheus": "ok", "otlp": "ok", "broker": "ok", "topics": "ok",
    }  # fmt: skip
    assert receiver.got[0].points == 0
    with agents.running(settings):
        until(lambda: "serves" in doctor.page(settings).seen, "the page")
    refused = doctor.otlp(settings)
    receiver.close()
    away = doctor.otlp(settings)
    assert (refused.verdict, refused.seen) == ("failed", f"{receiver.url}/v1/metrics: 401 Unauthorized")
    assert (away.verdict, away.remedy) == ("failed", "start it, or correct agent.otlp_url")
    checked = {found.check: found.seen for found in doctor.examine(settings)}
    assert {checked[name][:41] for name in ("clickhouse", "tables", "ingest", "replays")} == {
        "not asked: agent.outputs has no kafka, so"
    }
    other = Receiver(port=settings.metrics.agent_port)
    assert doctor.page(settings).verdict == "failed"
    other.close()
    assert doctor.otlp(asked(tmp_path, "kafka")).seen == "not asked: agent.outputs has no otlp"
