"""The agent as a process, against this host's own /proc as psutil reads it; no broker."""

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.brokers.process import free_ports
from tests.python import PYTHON
from tests.real import agents
from tests.signals import SLACK_S, tell
from tests.wait import until
from warpmeter.producers.host import MODES
from warpmeter.producers.jobs.process import ProcessTable
from warpmeter.settings import Kafka, Metrics

NOWHERE = Kafka(bootstrap_servers="127.0.0.1:1")


@dataclass(frozen=True)
class Seen:
    """What psutil says of this host at one moment: another test, or somebody else, adds devices and takes memory."""

    at: float
    available: int
    processes: int
    nics: frozenset[str]
    disks: frozenset[str]

    @classmethod
    def now(cls) -> "Seen":
        inner = ("lo", "ifb", "docker", "veth")
        nics = frozenset(name for name in psutil.net_io_counters(pernic=True) if not name.startswith(inner))
        disks = frozenset(psutil.disk_io_counters(perdisk=True) or ())
        return cls(time.time(), psutil.virtual_memory().available, len(psutil.pids()), nics, disks)


@dataclass(frozen=True)
class Once:
    """The rows of one tick, the host just before and just after it, and the python process that ran meanwhile."""

    rows: dict[str, list[dict[str, Any]]]
    before: Seen
    after: Seen
    pid: int
    rss: int
    started: float

    def __getitem__(self, topic: str) -> list[dict[str, Any]]:
        return self.rows[topic]


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """One tick, with a python process from a shell running, which has all the memory that it will have."""
    asked = agents.settings(tmp_path_factory.mktemp("once"), NOWHERE, interval_s=1.0, host=socket.gethostname())
    program = (
        "import time; held = bytearray(50 << 20); held[::4096] = bytes(len(held[::4096]))\n"
        "print('held', flush=True); time.sleep(600)"
    )
    line = f'"{PYTHON}" -c "{program}" & echo; wait'
    shell = subprocess.Popen(["bash", "-c", line], process_group=0, stdout=subprocess.PIPE)
    try:
        assert shell.stdout is not None
        assert any(said == b"held\n" for said in shell.stdout), "the child ended"
        (child,) = psutil.Process(shell.pid).children()
        before = Seen.now()
        done = agents.output(asked, "--once", "--json", timeout_s=180)
        after = Seen.now()
        assert done.returncode == 0, done.stderr
        rows = agents.json_rows(done.stdout)
        return Once(rows, before, after, child.pid, child.memory_info().rss, child.create_time())
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()


def test_one_tick_says_what_psutil_says_of_the_host(once: Once) -> None:
    (host,) = once["host-samples"]
    moments = (once.before, once.after)
    available, processes = [seen.available / 2**20 for seen in moments], [seen.processes for seen in moments]
    assert host["host"] == socket.gethostname()
    assert once.before.at - 1 <= host["ts"] <= once.after.at
    assert host["mem_total_mebibytes"] == round(psutil.virtual_memory().total / 2**20)
    assert min(available) * 0.5 <= host["mem_available_mebibytes"] <= max(available) * 1.5
    assert host["cores"] == psutil.cpu_count()
    assert min(processes) * 0.5 - 40 <= host["processes"] <= max(processes) * 1.5 + 40
    assert host["uptime_s"] == pytest.approx(host["ts"] - psutil.boot_time(), abs=30)
    modes = [host[f"cpu_{mode}_permille"] for mode in MODES]
    assert sum(modes) == pytest.approx(1000, abs=4)
    assert host["kernel"] == os.uname().release


@pytest.mark.parametrize(
    ("stdout", "status", "said"),
    [(">/dev/full", 1, "standard output cannot be written"), ("| true; exit ${PIPESTATUS[0]}", 0, ""), (">&-", 0, "")],
)
def test_one_tick_that_cannot_be_printed_ends_in_a_line(stdout: str, status: int, said: str) -> None:
    command = f'"{PYTHON}" -m warpmeter agent --once --json {stdout}'
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=180, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (status, False), done.stderr
    assert said in done.stderr


def test_one_tick_has_every_nic_and_disk_of_psutil(once: Once) -> None:
    found = {(row["kind"], row["device"]) for row in once["device-samples"]}
    nics = {name for kind, name in found if kind == "nic"}
    assert once.before.nics & once.after.nics <= nics <= once.before.nics | once.after.nics
    assert {name for kind, name in found if kind == "disk"} <= once.before.disks | once.after.disks


def test_one_tick_has_the_running_job(once: Once) -> None:
    (event,) = [row for row in once["job-events"] if row["pid"] == once.pid]
    assert event["event"] == "running"
    assert event["command"].startswith(PYTHON)
    assert event["rss_mebibytes"] == pytest.approx(once.rss / 2**20, rel=0.1, abs=3)
    assert event["started_at"] == pytest.approx(once.started, abs=2)
    assert event["cpu_cores_milli"] is not None


def test_one_tick_says_how_each_source_fares(once: Once) -> None:
    states = {row["source"]: row["state"] for row in once["source-health"] if not row["subject"]}
    wanted = {"host", "devices", "jobs", "containers", "kubernetes", "cri"}
    assert {name: state for name, state in states.items() if name in wanted} == dict.fromkeys(wanted, "ok")


def test_the_process_table_has_every_process_of_this_host() -> None:
    before = {(process.pid, process.started) for process in _living()}
    table = ProcessTable("/proc", 2.0)
    table.refresh()
    lasting = {process for process in _living() if (process.pid, process.started) in before}
    assert {process.pid for process in lasting if not process.kernel} - set(table.processes) == set()
    assert {process.pid for process in lasting if process.kernel} & set(table.processes) == set()
    mine = table.processes[os.getpid()]
    assert mine.argv == tuple(psutil.Process().cmdline())[: len(mine.argv)]
    assert mine.ppid == os.getppid()
    assert [Path(f"/proc/{pid}/comm").read_text().strip()[:8] for pid in _ancestors()] == [
        name[:8] for name in mine.lineage
    ]  # fmt: skip


@dataclass(frozen=True)
class Living:
    """A process that is no zombie. `kernel`: a thread of the kernel, which a container has none of."""

    pid: int
    started: float
    kernel: bool


def _living() -> Iterator[Living]:
    """All that live now; one that lived before and still does was neither gone nor a zombie in between."""
    threads_of = _kthreadd()
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                yield Living(process.pid, process.create_time(), threads_of in (process.pid, process.ppid()))


def _kthreadd() -> int:
    """Pid of the parent of the kernel's threads; -1 in a container, where pid 2 is like any other."""
    with suppress(OSError):
        return 2 if Path("/proc/2/comm").read_text() == "kthreadd\n" else -1
    return -1


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
        assert process.wait(60) == 0
    assert not (tmp_path / "spool").exists()


def late_ticks(port: int) -> float:
    """Ticks that the host source skipped so far; waits for the agent's page, for no answer is no 0."""
    page = ""

    def served() -> bool:
        nonlocal page
        page = agents.metrics_page(port)
        return agents.LATE in page

    until(served, "the agent's own metrics")
    return agents.value_of(page, agents.LATE)


def test_a_dry_run_prints_rows_as_json_lines(tmp_path: Path) -> None:
    log, port = tmp_path / "log", free_ports(1)[0]
    asked = replace(agents.settings(tmp_path, NOWHERE), metrics=Metrics(agent_port=port))
    with agents.running(asked, "--dry-run", "--json", log=log) as process:
        until(lambda: log.read_text().count('"host-samples"') >= 3, "rows")
        whole = log.read_text().count('"host-samples"')
        late = late_ticks(port)
        tell(process, signal.SIGINT)
        assert process.wait(60) == 0
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
        assert process.wait(60) == 0
        took_s = time.monotonic() - began
    assert took_s < 5 + SLACK_S
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
            process.terminate()
            assert process.wait(60) == -signal.SIGTERM  # the kernel's doing: the stop that was under way ends with 0
    assert "agent_stopped" not in log.read_text()


def test_its_own_metrics_are_served(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    asked = replace(agents.settings(tmp_path, NOWHERE), metrics=Metrics(agent_port=port))

    def served() -> bool:
        page = agents.metrics_page(port)
        return 'warpmeter_source_up{source="jobs"} 1.0' in page and agents.LATE in page

    with agents.running(asked):
        until(served, "the jobs source, and how often the host's was late")


def test_a_taken_metrics_port_is_a_warning(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        asked = replace(agents.settings(tmp_path, NOWHERE), metrics=Metrics(agent_port=taken.getsockname()[1]))
        with agents.running(asked, log=tmp_path / "log") as process:
            until(lambda: "agent_started" in (tmp_path / "log").read_text(), "the start")
            assert process.poll() is None
    assert "set metrics.agent_port" in (tmp_path / "log").read_text()
