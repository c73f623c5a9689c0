"""Stopping in time, whatever else is away, slow or changing; and what was told twice to stop has lost nothing."""

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

from tests.brokers import Broker, KafkaCluster
from tests.engine import EngineServer
from tests.engine.template import with_tables
from tests.gateway import Fault, Gateway
from tests.ingest_bench import Bench, bench_behind
from tests.ingest_process import IngestProcess
from tests.real.test_up import numbered
from tests.real.up import free_port, up, warpmeter
from tests.signals import SLACK_S, hears
from tests.wait import until
from warpmeter.consumers import status

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]
WITHIN_S = 5.0


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    with closing(with_tables(tmp_path_factory.mktemp("engine") / "data")) as server:
        yield server


@pytest.fixture
def gateway(engine: EngineServer) -> Iterator[Gateway]:
    with closing(Gateway(engine.port)) as found:
        yield found


@pytest.fixture
def at(broker: Broker, engine: EngineServer, gateway: Gateway, topic_prefix: str, tmp_path: Path) -> Bench:
    return bench_behind(broker, engine, topic_prefix, tmp_path, gateway.port)


def stopped(process: IngestProcess, *numbers: int, apart_s: float = 0.3) -> float:
    """Send the signals; seconds from the first of them until the process has ended."""
    until(lambda: hears(process.process.pid), "it to handle signals")
    begun = time.monotonic()
    for number in numbers or (signal.SIGTERM,):
        process.process.send_signal(number)
        if len(numbers) > 1:
            time.sleep(apart_s)
    assert process.process.wait(60) in (0, 1), process.said()
    took_s = time.monotonic() - begun
    print(f"stopped in {took_s:.2f} s")
    return took_s


def lands_once_after(at: Bench) -> None:
    """The next consumer brings in all that the one before left."""
    with closing(at.start()) as process:
        until(lambda: "partitions taken" in process.said(), "the group to form", 60)
        at.table.reaches(at.feed.sent, process, within_s=120)
        assert process.stop(30) == 0
    at.once()


def test_while_the_store_hangs(at: Bench, gateway: Gateway) -> None:
    with closing(at.start()) as process:
        at.feed.good(50)
        at.table.reaches(at.feed.sent, process.ready())
        gateway.fault = Fault.HANGS
        at.feed.good(50)
        until(lambda: gateway.hits, "an insert to meet the fault")
        assert stopped(process) < WITHIN_S + SLACK_S
        gateway.fault = Fault.NONE  # the insert that hung goes to the engine now, beside the next consumer's
    lands_once_after(at)


@pytest.mark.kafka
def test_an_unclean_stop_says_why_and_leaves_the_group_at_once(
    kafka: Broker, engine: EngineServer, gateway: Gateway, topic_prefix: str, tmp_path: Path
) -> None:
    at = bench_behind(kafka, engine, topic_prefix, tmp_path, gateway.port)
    with closing(at.start(session_timeout_s=45.0)) as process:
        at.feed.good(50)
        at.table.reaches(at.feed.sent, process.ready())
        gateway.fault = Fault.HANGS
        at.feed.good(50)
        until(lambda: gateway.hits, "an insert to meet the fault")
        assert stopped(process) < WITHIN_S + SLACK_S
        left = time.monotonic()
        until(lambda: status.group_members(at.settings) == 0, "it to have left the group", 30)
        assert time.monotonic() - left < 20
        said = json.loads(process.said().splitlines()[-1])
        assert (said["event"], said["clean"]) == ("stopped", False)
        assert re.match(
            r"the store has not answered for \d+ s; \d declared spans are not known to be stored", said["why"]
        )
        gateway.fault = Fault.NONE
    lands_once_after(at)


@pytest.mark.kafka
def test_with_full_batches_under_load(kafka: Broker, engine: EngineServer, topic_prefix: str, tmp_path: Path) -> None:
    at = bench_behind(kafka, engine, topic_prefix, tmp_path, engine.port)
    done = threading.Event()

    def feed() -> None:
        for _ in range(20):
            if not done.is_set():
                at.feed.good(100, rows=20)

    feeding = threading.Thread(target=feed)
    feeding.start()
    try:
        with closing(at.start(batch_bytes=100_000, budget_bytes=400_000)) as process:
            at.table.reaches(500, process.ready(), within_s=120)
            assert stopped(process) < WITHIN_S + SLACK_S
    finally:
        done.set()
        feeding.join()
    lands_once_after(at)


def test_a_second_signal_ends_it_where_it_stands(
    tansu: Broker, engine: EngineServer, gateway: Gateway, topic_prefix: str, tmp_path: Path
) -> None:
    at = bench_behind(tansu, engine, topic_prefix, tmp_path, gateway.port)
    with closing(at.start()) as process:
        process.ready()
        gateway.fault = Fault.HANGS
        at.feed.good(50)
        until(lambda: gateway.hits, "an insert to hang")
        assert stopped(process, signal.SIGTERM, signal.SIGTERM) < WITHIN_S
        assert "told again" in process.said()
        gateway.fault = Fault.NONE
    lands_once_after(at)


@pytest.mark.kafka
def test_in_the_middle_of_a_rebalance(kafka: Broker, engine: EngineServer, topic_prefix: str, tmp_path: Path) -> None:
    at = bench_behind(kafka, engine, topic_prefix, tmp_path, engine.port)
    one, two = at.start(), None
    with closing(one):
        at.feed.good(50)
        at.table.reaches(at.feed.sent, one.ready())
        two = IngestProcess(at.settings, tmp_path / "two.log")
        with closing(two):
            until(lambda: "ingesting" in two.said(), "the second to join")
            at.feed.good(50)
            assert stopped(one) < WITHIN_S + SLACK_S
            assert stopped(two) < WITHIN_S + SLACK_S
    lands_once_after(at)


@pytest.mark.kafka
def test_while_the_broker_is_away(engine: EngineServer, topic_prefix: str, tmp_path: Path) -> None:
    with closing(KafkaCluster(tmp_path / "kafka", 1)) as cluster:
        at = bench_behind(cluster, engine, topic_prefix, tmp_path, engine.port)
        with closing(at.start(batch_age_s=30.0)) as process:
            process.ready()
            at.feed.good(50)
            time.sleep(1.0)  # they are in its open batch, or not: both are right
            cluster.pause(0)
            try:
                assert stopped(process) < WITHIN_S + SLACK_S
            finally:
                cluster.resume(0)
        lands_once_after(at)


def lives(pid: int) -> bool:
    """Whether a process is at work: one that ended may stay a zombie where the first process waits for nobody."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


@pytest.mark.long
def test_up_told_twice_ends_at_once_and_doubles_nothing(tmp_path: Path) -> None:
    with up(tmp_path / "data") as running:
        numbered(running.kafka, 0, 500)
        parts = running.parts
        begun = time.monotonic()
        running.process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(60) in (0, 1, 130)
        print(f"up told twice ended in {time.monotonic() - begun:.2f} s")
        assert time.monotonic() - begun < 2 * SLACK_S
        assert "Traceback" not in running.said.read_text()
        until(lambda: not [pid for pid in parts.values() if lives(pid)], "its parts to be gone")
    with up(tmp_path / "data") as running:

        def found() -> tuple[int, int]:
            rows = running.query("SELECT count(), uniqExact(uptime_s) FROM host_samples WHERE host = 'numbered'")
            return int(rows[0][0]), int(rows[0][1])

        numbered(running.kafka, 500, 100)
        until(lambda: found()[0] >= 100, "what came after it", 100)
        rows, numbers = found()
        assert rows == numbers
        assert running.stop(60) == 0


@pytest.mark.long
def test_up_stops_while_it_starts(tmp_path: Path) -> None:
    said = tmp_path / "said"
    ports = ("--broker-port", str(free_port()), "--http-port", str(free_port()), "--web-port", str(free_port()))
    with said.open("wb") as terminal:
        line = warpmeter("up", "--data", str(tmp_path / "data"), *ports)
        process = subprocess.Popen(line, stdout=terminal, stderr=terminal, env=os.environ)
    try:
        until(lambda: (tmp_path / "data" / "logs").exists(), "up to begin")
        time.sleep(0.5)  # somewhere between its first part and its last
        children = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, 1, -signal.SIGTERM)
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in said.read_text(), said.read_text()
    assert not (tmp_path / "data" / "up.json").exists()
    until(lambda: not [pid for pid in children if lives(pid)], "its parts to be gone")
