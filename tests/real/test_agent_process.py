"""The agent as a process, against this host's own /proc as psutil reads it; no broker."""

import os
import re
import signal
import socket
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.brokers.process import free_ports
from tests.python import PYTHON
from tests.real import agents
from tests.signals import SLACK_S, tell
from tests.wait import until
from warpmeter.producers.agent import FLUSH_S
from warpmeter.producers.host import MODES
from warpmeter.producers.jobs.process import ProcessTable
from warpmeter.settings import Kafka, Metrics

NOWHERE = Kafka(bootstrap_servers="127.0.0.1:1")


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """The rows of one tick, with a python process from a shell running."""
    asked = agents.settings(tmp_path_factory.mktemp("once"), NOWHERE, interval_s=1.0, host=socket.gethostname())
    program = "import time; held = bytearray(50 << 20); held[::4096] = bytes(len(held[::4096])); time.sleep(60)"
    line = f'"{PYTHON}" -c "{program}" & echo; wait'
    shell = subprocess.Popen(["bash", "-c", line], process_group=0)
    try:
        until(lambda: psutil.Process(shell.pid).children(), "the child")
        (child,) = psutil.Process(shell.pid).children()
        until(lambda: child.memory_info().rss > 50 << 20, "the child's memory")
        done = agents.output(asked, "--once", "--json")
        assert done.returncode == 0, done.stderr
        rows = agents.json_rows(done.stdout)
        rows["child"] = [{"pid": child.pid, "rss": child.memory_info().rss, "started": child.create_time()}]
        return rows
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()


def test_one_tick_says_what_psutil_says_of_the_host(once: dict[str, list[dict[str, Any]]]) -> None:
    (host,) = once["host-samples"]
    memory = psutil.virtual_memory()
    assert host["host"] == socket.gethostname()
    assert abs(host["ts"] - time.time()) < 30
    assert host["mem_total_mebibytes"] == round(memory.total / 2**20)
    assert host["mem_available_mebibytes"] == pytest.approx(memory.available / 2**20, rel=0.5)
    assert host["cores"] == psutil.cpu_count()
    assert host["processes"] == pytest.approx(len(psutil.pids()), rel=0.5, abs=40)
    assert host["uptime_s"] == pytest.approx(time.time() - psutil.boot_time(), abs=30)
    modes = [host[f"cpu_{mode}_permille"] for mode in MODES]
    assert sum(modes) == pytest.approx(1000, abs=4)
    assert host["kernel"] == os.uname().release


@pytest.mark.parametrize(
    ("stdout", "status", "said"),
    [(">/dev/full", 1, "standard output cannot be written"), ("| true; exit ${PIPESTATUS[0]}", 0, ""), (">&-", 0, "")],
)
def test_one_tick_that_cannot_be_printed_ends_in_a_line(stdout: str, status: int, said: str) -> None:
    command = f'"{PYTHON}" -m warpmeter agent --once --json {stdout}'
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=60, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (status, False), done.stderr
    assert said in done.stderr


def test_one_tick_has_every_nic_and_disk_of_psutil(once: dict[str, list[dict[str, Any]]]) -> None:
    found = {(row["kind"], row["device"]) for row in once["device-samples"]}
    inner = ("lo", "ifb", "docker", "veth")
    nics = {name for name in psutil.net_io_counters(pernic=True) if not name.startswith(inner)}
    assert {name for kind, name in found if kind == "nic"} == nics
    assert all(name in psutil.disk_io_counters(perdisk=True) for kind, name in found if kind == "disk")


def test_one_tick_has_the_running_job(once: dict[str, list[dict[str, Any]]]) -> None:
    (child,) = once["child"]
    (event,) = [row for row in once["job-events"] if row["pid"] == child["pid"]]
    assert event["event"] == "running"
    assert event["command"].startswith(PYTHON)
    assert event["rss_mebibytes"] == pytest.approx(child["rss"] / 2**20, rel=0.1, abs=3)
    assert event["started_at"] == pytest.approx(child["started"], abs=2)
    assert event["cpu_cores_milli"] is not None


def test_one_tick_says_how_each_source_fares(once: dict[str, list[dict[str, Any]]]) -> None:
    states = {row["source"]: row["state"] for row in once["source-health"] if not row["subject"]}
    wanted = {"host", "devices", "jobs", "containers", "kubernetes", "cri"}
    assert {name: state for name, state in states.items() if name in wanted} == dict.fromkeys(wanted, "ok")


def test_the_process_table_has_every_process_of_this_host() -> None:
    before = set(psutil.pids())
    table = ProcessTable("/proc", 2.0)
    table.refresh()
    lasting = before & set(psutil.pids())
    kernel = {process.pid for process in psutil.process_iter() if 2 in (process.pid, process.ppid())}
    zombies = {process.pid for process in psutil.process_iter() if process.status() == psutil.STATUS_ZOMBIE}
    assert lasting - kernel - zombies - set(table.processes) == set()
    assert kernel & set(table.processes) == set()
    mine = table.processes[os.getpid()]
    assert mine.argv == tuple(psutil.Process().cmdline())[: len(mine.argv)]
    assert mine.ppid == os.getppid()
    assert [Path(f"/proc/{pid}/comm").read_text().strip()[:8] for pid in _ancestors()] == [
        name[:8] for name in mine.lineage
    ]  # fmt: skip


def _ancestors() -> list[int]:
    """Pids from the oldest ancestor to this process."""
    return [process.pid for process in reversed([psutil.Process(), *psutil.Process().parents()])]


def test_people_get_values_with_units(tmp_path: Path) -> None:
    done = agents.output(agents.settings(tmp_path, NOWHERE), "--once")
    assert done.returncode == 0
    assert re.search(r"^  mem_total +\d+(\.\d+)?GiB$", done.stdout, re.MULTILINE), done.stdout
    assert done.stderr == ""


def test_an_unknown_option_is_refused(tmp_path: Path) -> None:
    done = agents.output(agents.settings(tmp_path, NOWHERE), "--twice")
    assert done.returncode == 1
    assert "unknown option --twice" in done.stderr


def test_options_that_librdkafka_refuses_are_named(tmp_path: Path) -> None:
    broken = replace(NOWHERE, options={"no.such.option": "1"})
    done = agents.output(agents.settings(tmp_path, broken))
    assert done.returncode == 2
    assert "no.such.option" in done.stderr


def test_a_dry_run_counts_and_sends_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with agents.running(agents.settings(tmp_path, NOWHERE), "--dry-run", log=log) as process:
        until(lambda: "host-samples=" in log.read_text(), "counts")
        tell(process)
        assert process.wait(30) == 0
    assert not (tmp_path / "spool").exists()


def test_a_dry_run_prints_rows_as_json_lines(tmp_path: Path) -> None:
    log, port = tmp_path / "log", free_ports(1)[0]
    asked = replace(agents.settings(tmp_path, NOWHERE), metrics=Metrics(agent_port=port))
    with agents.running(asked, "--dry-run", "--json", log=log) as process:
        until(lambda: log.read_text().count('"host-samples"') >= 3, "rows")
        whole, late = log.read_text().count('"host-samples"'), agents.metric(port, agents.LATE)
        tell(process, signal.SIGINT)
        assert process.wait(30) == 0
    rows = agents.json_rows(log.read_text())["host-samples"]
    times = [row["ts"] for row in rows]
    assert agents.skipped(times, 0.2) >= 0
    assert agents.skipped(times[:whole], 0.2) <= late


def test_a_stop_with_the_broker_away_takes_under_five_seconds_and_keeps_everything(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    asked = replace(agents.settings(tmp_path, NOWHERE), metrics=Metrics(agent_port=port))
    with agents.running(asked) as process:
        until(lambda: agents.metric(port, "warpmeter_shipper_queue_bytes") > 1000, "samples in the queue")
        began = time.monotonic()
        tell(process)
        assert process.wait(30) == 0
    assert time.monotonic() - began < 5 + SLACK_S
    assert any(path.stat().st_size > 1000 for path in (tmp_path / "spool").glob("*.spool"))


def test_a_second_signal_stops_at_once(tmp_path: Path) -> None:
    """The broker takes connections and never answers, so the stop that the first signal began waits for it."""
    port, log = free_ports(1)[0], tmp_path / "log"
    with socket.create_server(("127.0.0.1", 0)) as mute:
        servers = Kafka(bootstrap_servers=f"127.0.0.1:{mute.getsockname()[1]}")
        asked = replace(agents.settings(tmp_path, servers), metrics=Metrics(agent_port=port))
        with agents.running(asked, log=log) as process:
            until(lambda: agents.metric(port, "warpmeter_shipper_queue_bytes") > 0, "something to wait for")
            tell(process)
            until(lambda: "agent_stopping" in log.read_text(), "the first signal to be taken", every_s=0.01)
            began = time.monotonic()
            process.terminate()
            assert process.wait(10) == -signal.SIGTERM
            assert time.monotonic() - began < FLUSH_S / 2
    assert "agent_stopped" not in log.read_text()


def test_its_own_metrics_are_served(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    asked = replace(agents.settings(tmp_path, NOWHERE), metrics=Metrics(agent_port=port))

    with agents.running(asked):
        until(lambda: 'warpmeter_source_up{source="jobs"} 1.0' in agents.metrics_page(port), "the jobs source")
        assert 'warpmeter_source_late_ticks_total{source="host"}' in agents.metrics_page(port)


def test_a_taken_metrics_port_is_a_warning(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        asked = replace(agents.settings(tmp_path, NOWHERE), metrics=Metrics(agent_port=taken.getsockname()[1]))
        with agents.running(asked, log=tmp_path / "log") as process:
            until(lambda: "agent_started" in (tmp_path / "log").read_text(), "the start")
            assert process.poll() is None
    assert "set metrics.agent_port" in (tmp_path / "log").read_text()
