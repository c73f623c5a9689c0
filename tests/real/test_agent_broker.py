"""The agent with a real broker: what arrives, jobs from start to end, outages, kills."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.brokers import Broker, KafkaCluster, Tansu
from tests.brokers.process import free_ports
from tests.nvml import NvmlStub, Process
from tests.python import PYTHON
from tests.real import agents
from tests.real.agents import Reader
from tests.signals import SLACK_S, tell
from tests.wait import until
from warpmeter.clock import SystemClock
from warpmeter.producers import outbox
from warpmeter.producers.shipper import Shipper, open_spool
from warpmeter.schemas.generated.metric_samples_pb2 import Envelope
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Kafka, Metrics, Settings

MIB = 1 << 20
CLOCK_TICK_S = 0.02
NOBODY = "127.0.0.1:1"
BUSY = """
import time
held = bytearray(80 << 20)
held[::4096] = bytes(len(held[::4096]))
end = time.monotonic() + 200
while time.monotonic() < end:
    until = time.monotonic() + 0.05
    while time.monotonic() < until:
        pass
    time.sleep(0.05)
"""


@pytest.fixture
def bus(broker: Broker, topic_prefix: str) -> Kafka:
    """Topics of this test's own, one partition each."""
    return agents.with_topics(broker.bootstrap_servers, topic_prefix)


@pytest.fixture
def reader(bus: Kafka) -> Iterator[Reader]:
    """All that is published on them."""
    made = Reader(bus)
    yield made
    made.close()


def test_every_tick_arrives_once_with_key_and_headers(bus: Kafka, reader: Reader, tmp_path: Path) -> None:
    port = free_ports(1)[0]
    asked = replace(agents.settings(tmp_path, bus), metrics=Metrics(agent_port=port))
    with agents.running(asked) as process:
        reader.wait(lambda r: len(r.rows("host-samples")) >= 10, "ten host samples")
        reader.wait(lambda r: _states(r) >= WELL and r.rows("device-samples"), "a word of every source")
        whole, late = len(reader.rows("host-samples")), agents.metric(port, agents.LATE)
        began = time.monotonic()
        tell(process)
        assert process.wait(30) == 0
    assert time.monotonic() - began < 5 + SLACK_S
    reader.poll()
    for message in reader.messages:
        assert message.key == b"gpu01"
        assert message.headers == {
            "type": TOPICS[message.topic].message.encode(), "rows": str(len(message.rows)).encode(),
        }  # fmt: skip
    assert {message.topic for message in reader.messages} >= {"host-samples", "device-samples", "source-health"}
    times = [row.ts for row in reader.rows("host-samples")]
    assert agents.skipped(times, 0.2) >= 0
    assert agents.skipped(times[:whole], 0.2) <= late, "more is missing than a busy machine made it skip"
    assert {row.host for row in reader.rows("device-samples")} == {"gpu01"}
    assert any(row.HasField("cpu_util_permille") for row in reader.rows("host-samples"))
    assert _states(reader) >= WELL


WELL = {("host", "ok"), ("devices", "ok"), ("jobs", "ok"), ("shipper", "ok")}


def _states(reader: Reader) -> set[tuple[str, str]]:
    """What was said of whole sources."""
    return {(row.source, row.state) for row in reader.rows("source-health") if not row.subject}


def test_a_python_process_from_a_shell_starts_runs_and_ends(bus: Kafka, reader: Reader, tmp_path: Path) -> None:
    with _busy(tmp_path, "--lr 1") as child, agents.running(agents.settings(tmp_path, bus)):
        reader.wait(lambda r: len(_mine(r, "running")) >= 2, "two events of the job")
        seen, early, early_cpu = len(_mine(reader, "running")), time.time(), _cpu_s(child)
        reader.wait(lambda r: any(_began(row) >= early for row in _mine(r, "running")), "a whole event since")
        middle, middle_cpu = time.time(), _cpu_s(child)
        reader.wait(lambda r: _mine(r, "running")[-1].ts >= middle, "an event after it")
        resident, running, late_cpu = child.memory_info().rss, _mine(reader, "running"), _cpu_s(child)
        child.kill()
        reader.wait(lambda r: _mine(r, "ended"), "its end")
    (started,) = _mine(reader, "started")
    assert started.pid == child.pid
    assert started.command == f"{PYTHON} {tmp_path / 'busy.py'} --lr 1"
    assert started.user == psutil.Process().username()
    assert "/bash/python" in started.tree_id
    assert {row.job_id for row in _mine(reader, "ended")} == {started.job_id}
    assert running[-1].rss_mebibytes == pytest.approx(resident / MIB, rel=0.1)
    assert running[-1].processes == 1
    assert sum(map(_used_s, running[seen:])) >= middle_cpu - early_cpu - CLOCK_TICK_S
    within = [row for row in running if _began(row) >= early]
    assert sum(map(_used_s, within)) <= late_cpu - early_cpu + CLOCK_TICK_S


def _used_s(row: Any) -> float:
    return float(row.cpu_cores_milli * row.period_ms / 1e6)


def _began(row: Any) -> float:
    """From when on an event counts, UTC seconds: it may come long after what it counts was read."""
    return float(row.ts - row.period_ms / 1000)


def _mine(reader: Reader, event: str) -> list[Any]:
    return [row for row in reader.rows("job-events") if row.event == event and row.name == "busy.py"]


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@contextmanager
def _busy(folder: Path, arguments: str = "") -> Iterator[psutil.Process]:
    """A python process, started from a shell, that uses half a core and 80 MiB; gone in the end."""
    (folder / "busy.py").write_text(BUSY)
    line = f"{PYTHON} {folder / 'busy.py'} {arguments}; true"
    shell = subprocess.Popen(["bash", "-c", line], process_group=0)
    try:
        until(lambda: psutil.Process(shell.pid).children(), "the child")
        (child,) = psutil.Process(shell.pid).children()
        until(lambda: str(folder / "busy.py") in child.cmdline(), "it to be Python, no copy of the shell")
        yield child
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()


def test_gpus_carry_the_jobs_that_run_on_them(
    bus: Kafka, reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _busy(tmp_path) as child, NvmlStub(tmp_path, gpus=2) as stub:
        stub.gpus[1].set_processes(Process(child.pid, 3 * 1024 * MIB))
        for name, value in stub.environment().items():
            monkeypatch.setenv(name, value)
        with agents.running(agents.settings(tmp_path, bus, gpu=True)):
            reader.wait(lambda r: any(row.job_ids for row in r.rows("gpu-samples")), "a GPU with a job")
            reader.wait(lambda r: any(list(row.gpus) == [1] for row in r.rows("job-events")), "a job with a GPU")
    job = next(row for row in reader.rows("job-events") if list(row.gpus) == [1])
    assert (job.pid, job.gpu_memory_mebibytes) == (child.pid, 3 * 1024)
    assert {(row.gpu, tuple(row.job_ids)) for row in reader.rows("gpu-samples") if row.job_ids} == {(1, (job.job_id,))}


def test_a_kill_with_a_full_spool_loses_only_what_was_in_memory(bus: Kafka, reader: Reader, tmp_path: Path) -> None:
    port = free_ports(1)[0]
    small = agents.settings(tmp_path, agents.at(bus, NOBODY), queue_max_bytes=2048, interval_s=0.1)
    watched = replace(small, metrics=Metrics(agent_port=port))
    with agents.running(watched) as process:
        until(lambda: agents.metric(port, "warpmeter_spool_bytes") > 6_000, "a spool with samples")
        until(lambda: _spooled(tmp_path) > 10, "some of them the host's own, however many devices it has")
        late, whole_until = agents.metric(port, agents.LATE), time.time() - 1
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    killed_at = time.time()
    with agents.running(agents.settings(tmp_path, bus)):
        reader.wait(lambda r: [row for row in r.rows("host-samples") if row.ts > killed_at + 0.5], "samples from now")
    times = [row.ts for row in reader.rows("host-samples")]
    spooled = [ts for ts in times if ts < killed_at]
    assert len(spooled) > 5
    assert agents.skipped(spooled, 0.1) >= 0
    assert agents.skipped([ts for ts in spooled if ts < whole_until], 0.1) <= late
    assert times == sorted(set(times))


def _spooled(folder: Path) -> int:
    """Messages of `host-samples` in the spool of an agent with that folder."""
    return sum(path.read_bytes().count(b"host-samples") for path in (folder / "spool").glob("*.spool"))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process a broker counts as away after a second."""
    monkeypatch.setattr(outbox, "STALL_S", 1.0)


def numbered(shipper: Shipper, first: int, seconds: float, enough: Callable[[], bool] = lambda: True) -> int:
    """Publish a number every 20 ms for a while, and on until a thing holds, a minute at most; the next number."""
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < seconds or not (enough() or passed > 60):
        shipper.publish("metric-samples", [Envelope.MetricSample(host="gpu01", ts=1.8e9, name="n", value=first)])
        first += 1
        shipper.pump()
        time.sleep(0.02)
    return first


def test_an_outage_keeps_order_and_doubles_nothing(tmp_path: Path, topic_prefix: str) -> None:
    """The broker is frozen: connections stand, nothing is answered, then everything is."""
    broker = Tansu(tmp_path / "tansu")
    try:
        kafka = agents.with_topics(broker.bootstrap_servers, topic_prefix)
        _outage(
            agents.settings(tmp_path, kafka),
            away=lambda: os.kill(_pid(broker), signal.SIGSTOP),
            back=lambda: os.kill(_pid(broker), signal.SIGCONT),
        )
    finally:
        broker.close()


@pytest.mark.kafka
def test_a_broker_that_ends_and_comes_back_keeps_order_and_doubles_nothing(tmp_path: Path, topic_prefix: str) -> None:
    """The same with a broker that is killed: connections are cut, requests in flight get no answer."""
    cluster = KafkaCluster(tmp_path / "kafka", 1)
    try:
        kafka = agents.with_topics(cluster.bootstrap_servers, topic_prefix)
        _outage(agents.settings(tmp_path, kafka), away=lambda: cluster.kill(0), back=lambda: cluster.start(0))
    finally:
        cluster.close()


@pytest.mark.kafka
def test_topics_made_after_the_agent_started_get_what_waited(
    kafka: KafkaCluster, topic_prefix: str, tmp_path: Path
) -> None:
    """A broker that makes no topics by itself; meanwhile health says which topic waits, and what to do."""
    there = Kafka(bootstrap_servers=kafka.bootstrap_servers, topic_prefix=topic_prefix, partitions=1)
    settings = agents.settings(tmp_path, there)
    shipper = Shipper(settings, open_spool(settings.agent, SystemClock()), SystemClock())
    number = numbered(shipper, 0, 2.0, lambda: shipper.health()[0].state == "failed")
    assert shipper.health()[0].state == "failed"
    agents.with_topics(there.bootstrap_servers, topic_prefix)
    until(lambda: not shipper.pump() and shipper._outbox.unacked == 0, "what waited to be sent")
    number = numbered(shipper, number, 0.2)
    shipper.close(30.0)
    reader = Reader(there)
    reader.wait(lambda r: len(r.rows("metric-samples")) >= number, "all messages")
    reader.close()
    assert [int(row.value) for row in reader.rows("metric-samples")] == list(range(number))


def _outage(settings: Settings, away: Any, back: Any) -> None:
    clock = SystemClock()
    spool = open_spool(settings.agent, clock)
    assert spool is not None
    shipper = Shipper(settings, spool, clock)
    number = numbered(shipper, 0, 0.5)
    away()
    number = numbered(shipper, number, 2.5, lambda: spool.bytes > 0 and shipper.health()[0].state == "failed")
    assert spool.bytes > 0
    assert shipper.health()[0].state == "failed"
    back()
    number = numbered(shipper, number, 1.0)
    until(lambda: not shipper.pump() and shipper._outbox.unacked == 0, "the spool to be sent")
    assert spool.bytes == 0
    assert shipper.health() == (shipper.health()[0], [])
    number = numbered(shipper, number, 0.2)
    shipper.close(30.0)
    reader = Reader(settings.kafka)
    reader.wait(lambda r: len(r.rows("metric-samples")) >= number, "all messages")
    reader.poll()
    reader.close()
    assert [int(row.value) for row in reader.rows("metric-samples")] == list(range(number))


def _pid(broker: Tansu) -> int:
    assert broker._process is not None
    return broker._process.pid


def test_a_killed_agent_sends_twice_at_most_what_was_taken_from_the_spool(
    bus: Kafka, reader: Reader, tmp_path: Path
) -> None:
    """The kill falls between the broker's acknowledgement and the agent's hearing of it."""
    settings = agents.settings(tmp_path, agents.at(bus, NOBODY))
    first = Shipper(settings, open_spool(settings.agent, SystemClock()), SystemClock())
    number = numbered(first, 0, 1.5)
    first.close(0.0)
    line = (
        "import pickle, sys, time; from warpmeter.clock import SystemClock;"
        "from warpmeter.producers.shipper import Shipper, open_spool;"
        "s = pickle.load(sys.stdin.buffer); c = SystemClock(); p = Shipper(s, open_spool(s.agent, c), c);"
        "p.pump(); print('taken', flush=True); time.sleep(60)"
    )
    there = replace(settings, kafka=bus)
    agents.killed_after(
        line, there, "taken", lambda: reader.wait(lambda r: len(r.rows("metric-samples")) >= number, "all")
    )
    second = Shipper(there, open_spool(there.agent, SystemClock()), SystemClock())
    until(lambda: not second.pump() and second._outbox.unacked == 0, "the spool to be sent again")
    second.close(30.0)
    reader.wait(lambda r: len(r.rows("metric-samples")) >= 2 * number, "all again")
    values = [int(row.value) for row in reader.rows("metric-samples")]
    assert values == [*range(number), *range(number)]
