"""`warpmeter up`: from nothing to SQL that agrees with this host, and nothing lost or doubled by stopping it."""

import itertools
import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.python import PYTHON
from tests.real.up import Up, environment, free_port, up, warpmeter
from tests.wait import until
from warpmeter import bus, topics, wire
from warpmeter.schemas.generated.host_samples_pb2 import Envelope
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Kafka
from warpmeter.store import ClickHouseError

pytestmark = pytest.mark.timeout(600)
HOST_SAMPLES = TOPICS["host-samples"]
THOUSANDS = itertools.count(0, 1000)  # a test's numbers are its own, whatever became of the others'
BUSY = "import time\nx = bytearray(100 << 20)\nend = time.time() + 600\nwhile time.time() < end: pass"


@pytest.fixture(scope="module", params=["embedded", pytest.param("kafka3", marks=pytest.mark.kafka)])
def bus_of(request: pytest.FixtureRequest) -> Kafka | None:
    """The embedded broker (None), and three nodes of Apache Kafka."""
    if request.param == "embedded":
        return None
    servers = request.getfixturevalue(request.param).bootstrap_servers
    return Kafka(bootstrap_servers=servers, topic_prefix=f"up{secrets.token_hex(4)}")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, bus_of: Kafka | None) -> Iterator[Up]:
    with up(tmp_path_factory.mktemp("up") / "data", kafka=bus_of) as started:
        yield started


on_its_own_broker = pytest.mark.parametrize("bus_of", ["embedded"], indirect=True)
"""For what is the same whatever broker there is."""


class Used:
    """What a process used up to each time that this was asked, so that there is a mean of any span between."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._at = [(process.create_time(), 0.0)]

    def agrees(self, cores: float) -> bool:
        """Whether so many cores are the mean of a span of seconds up to now: one, unless the machine is busy."""
        used = self._process.cpu_times()
        self._at.append((time.time(), float(used.user + used.system)))
        (now, total), before = self._at[-1], self._at[:-1]
        return any(abs((total - cpu) / (now - at) - cores) <= 0.4 for at, cpu in before if 5 <= now - at <= 30)


def command(running: Up, *arguments: str) -> str:
    """What a command says about a running `up`."""
    done = tried(running, *arguments)
    done.check_returncode()
    return done.stdout


def tried(running: Up, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A command about a running `up`, whatever comes of it."""
    line = warpmeter(*arguments, "--data", str(running.data))
    return subprocess.run(
        line, capture_output=True, text=True, timeout=120, env=environment(running.kafka), check=False
    )


def numbered(kafka: Kafka, first: int, count: int) -> None:
    """Send `count` messages of host `numbered` whose uptime is their number; returns once the broker has them."""
    failed: list[object] = []
    producer = bus.producer(kafka)
    for number in range(first, first + count):
        row = Envelope.HostSample(host="numbered", ts=float(int(time.time())), period_ms=1000, uptime_s=number)
        sent = wire.pack(HOST_SAMPLES, "numbered", [row])
        producer.produce(
            HOST_SAMPLES.full_name(kafka.topic_prefix), sent.value, sent.key, headers=list(sent.headers),
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )  # fmt: skip
    assert producer.flush(60) == 0
    assert not failed


def landed(running: Up, first: int, end: int) -> tuple[int, int]:
    """Rows of host `numbered` with numbers from `first` to before `end`, and different numbers among them."""
    of_these = f"host = 'numbered' AND uptime_s >= {first} AND uptime_s < {end}"
    rows, numbers = running.query(f"SELECT count(), uniqExact(uptime_s) FROM host_samples WHERE {of_these}")[0]
    return rows, numbers


def test_counts_grow_and_agree_with_proc(running: Up) -> None:
    until(lambda: running.value("SELECT count() FROM host_samples") > 0, "the first sample")
    before = running.value("SELECT count() FROM host_samples")
    until(lambda: running.value("SELECT count() FROM host_samples") >= before + 5, "five more")
    total, available, cores, boot = running.query(
        "SELECT mem_total_bytes, mem_available_bytes, cores, toFloat64(ts) - uptime_s FROM host_samples"
        " ORDER BY ts DESC LIMIT 1"
    )[0]
    memory = psutil.virtual_memory()
    assert total == pytest.approx(memory.total, abs=1 << 20)
    assert available == pytest.approx(memory.available, rel=0.5)  # other tests take and free gigabytes meanwhile
    assert cores == psutil.cpu_count()
    assert boot == pytest.approx(psutil.boot_time(), abs=3)
    stamps = running.query("SELECT ts, period_ms FROM host_samples ORDER BY ts")
    assert all(stamp.microsecond == 0 for stamp, _ in stamps)
    periods = {period for _, period in stamps}
    assert min(periods) == 1000
    assert not {period % 1000 for period in periods} - {0}, "after a tick that a busy machine missed it is two, or more"


@on_its_own_broker
def test_a_python_process_of_a_shell_is_a_job_while_it_runs(running: Up) -> None:
    shell = subprocess.Popen(["bash", "-c", f'"{PYTHON}" -c "$0"; true', BUSY])
    try:
        until(lambda: psutil.Process(shell.pid).children(), "the shell's child")
        child = psutil.Process(shell.pid).children()[0]
        used = Used(child)
        mine = f"SELECT command, cpu_cores, rss_bytes, state FROM jobs WHERE has(pids, {child.pid})"
        grown = 100 << 20  # the kernel gives it its pages one by one
        until(lambda: [row for row in running.query(mine) if row[1] and (row[2] or 0) >= grown], "what it uses", 100)
        said, _, rss, state = running.query(mine)[0]
        assert BUSY.splitlines()[1] in said
        assert state == "running"
        assert 100 << 20 <= rss <= child.memory_info().rss * 1.2
        until(
            lambda: used.agrees(running.query(mine)[0][1] or 0.0), "its cores to be those that it used", 100, every_s=1
        )
        child.kill()
        until(lambda: running.query(mine)[0][3] == "ended", "its end", 100)
    finally:
        for process in (*psutil.Process(shell.pid).children(), psutil.Process(shell.pid)):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        shell.wait()


def test_the_commands_find_what_runs(running: Up, bus_of: Kafka | None) -> None:
    until(lambda: running.value("SELECT count() FROM host_samples") > 0, "the first sample")
    rows = json.loads(command(running, "sql", "SELECT count() AS n FROM host_samples", "--format", "JSON"))
    assert int(rows["data"][0]["n"]) > 0
    # While the group is forming, status says so and ends with 1; devices have their first rows after ten seconds.
    answers: list[subprocess.CompletedProcess[str]] = []

    def well() -> bool:
        answers.append(tried(running, "status", "--json"))
        return answers[-1].returncode == 0 and "device_samples" in answers[-1].stdout

    until(well, "a group, and samples of all", 100)
    status = json.loads(answers[-1].stdout)
    own = {"broker"} if bus_of is None else set()
    assert {part["name"] for part in status["parts"]} == {"engine", "ingest", "agent", "scheduler"} | own
    assert all(part["state"] == "running" for part in status["parts"])
    assert {each["table"] for each in status["freshness"]} >= {"host_samples", "device_samples"}
    assert status["problems"] == []


@on_its_own_broker
def test_a_second_up_on_the_folder_and_a_taken_port_are_one_line_each(running: Up, tmp_path: Path) -> None:
    again = subprocess.run(warpmeter("up", "--data", str(running.data)), capture_output=True, text=True, timeout=90)
    assert again.returncode == 1
    assert again.stderr.strip().count("\n") == 0
    assert f"(pid {running.process.pid})" in again.stderr
    line = warpmeter(
        "up", "--data", str(tmp_path), "--broker-port", str(free_port()), "--http-port", str(running.http_port)
    )
    taken = subprocess.run(line, capture_output=True, text=True, timeout=90)
    assert taken.returncode == 1
    assert taken.stderr.strip().count("\n") == 0
    assert f"port {running.http_port} for ClickHouse's HTTP protocol is in use" in taken.stderr


@on_its_own_broker
def test_readers_cannot_write(running: Up) -> None:
    line = warpmeter("sql", "--data", str(running.data), "DROP TABLE host_samples")
    refused = subprocess.run(line, capture_output=True, text=True, timeout=90)
    assert refused.returncode == 1
    assert "readonly" in refused.stderr.lower()


@pytest.mark.long
@pytest.mark.parametrize("part", ["ingest", "engine"])
def test_a_killed_part_comes_back_and_nothing_is_lost_or_doubled(running: Up, part: str) -> None:
    first = next(THOUSANDS)
    numbered(running.kafka, first, 500)
    os.kill(running.parts[part], signal.SIGKILL)
    numbered(running.kafka, first + 500, 500)
    await_numbers(running, first, first + 1000)


def await_numbers(running: Up, first: int, end: int) -> None:
    """All numbers from `first` to before `end` once; the engine may be away for a moment."""

    def complete() -> bool:
        try:
            return landed(running, first, end)[1] >= end - first
        except ClickHouseError:
            return False

    until(complete, f"numbers {first} to {end}", 120)
    assert landed(running, first, end) == (end - first, end - first)


@pytest.mark.long
def test_a_topic_deleted_and_made_again_loses_and_doubles_nothing(running: Up) -> None:
    first = next(THOUSANDS)
    numbered(running.kafka, first, 500)
    await_numbers(running, first, first + 500)
    admin = bus.admin(running.kafka)
    name = HOST_SAMPLES.full_name(running.kafka.topic_prefix)
    admin.delete_topics([name])[name].result()
    until(lambda: name not in admin.list_topics(timeout=60).topics, "the topic to be gone")
    topics.ensure(replace(running.kafka, partitions=1))
    numbered(running.kafka, first + 500, 500)
    await_numbers(running, first, first + 1000)


@pytest.mark.long
def test_restarts_lose_and_double_nothing(tmp_path: Path, bus_of: Kafka | None) -> None:
    ports = free_port(), free_port()
    kafka = bus_of and replace(bus_of, topic_prefix=f"{bus_of.topic_prefix}r")
    turns = 5 if kafka is None else 2  # the embedded broker forgets with each stop; Kafka is only gone on with
    for turn in range(turns):
        with up(tmp_path / "data", ports=ports, kafka=kafka) as running:
            numbered(running.kafka, turn * 1000, 1000)
            assert running.stop() == 0
    with up(tmp_path / "data", ports=ports, kafka=kafka) as running:
        await_numbers(running, 0, turns * 1000)
        doubled = (
            "SELECT host, ts, count() FROM host_samples WHERE host != 'numbered' GROUP BY host, ts HAVING count() > 1"
        )
        assert running.query(doubled) == []
        # A row comes each second, and what is made of an insert's rows is seen a moment after them.
        counts = "SELECT (SELECT sum(samples) FROM host_windows_1m), (SELECT count() FROM host_samples)"
        until(lambda: len(set(running.query(counts)[0])) == 1, "the minutes to count what there is")
