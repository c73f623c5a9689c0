"""A simulated fleet on a real broker."""

import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.brokers import Broker
from tests.signals import SLACK_S, tell
from warpmeter import launch, tail, topics
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Kafka, Settings
from warpmeter.simulate.fleet import Fleet
from warpmeter.simulate.run import PUBLISHED, Bus, Nowhere, Pace, Report, Totals, prepare, run
from warpmeter.tail import Seen, Wanted
from warpmeter.wire import unpack

SMALL = Fleet(hosts=4, gpus=2, interval_s=1.0, faults_per_hour=0)
QUIET = Report(quiet=True)


@pytest.fixture
def kafka_settings(broker: Broker, topic_prefix: str) -> Kafka:
    return Kafka(broker.bootstrap_servers, topic_prefix, partitions=2, replication_factor=1)


def send(kafka: Kafka, pace: Pace, fleet: Fleet = SMALL) -> Totals:
    prepare(kafka)
    stop = threading.Event()
    sink = Bus(kafka, stop)
    totals = run(fleet, pace, sink, stop, QUIET)
    assert sink.close(60) == 0
    return totals


def published(kafka: Kafka) -> dict[str, list[Seen]]:
    """All messages by topic."""
    stop = threading.Event()
    return {name: list(tail.read(kafka, Wanted(name, since="2020-01-01", follow=False), stop)) for name in PUBLISHED}


def test_history_arrives_whole_and_readable(kafka_settings: Kafka) -> None:
    before = time.time()
    totals = send(kafka_settings, Pace(backfill_s=60, duration_s=0))
    took_s = time.time() - before
    seen = published(kafka_settings)
    assert [each.problem for messages in seen.values() for each in messages if each.problem] == []
    assert sum(len(messages) for messages in seen.values()) == totals.messages
    assert sum(len(each.rows) for messages in seen.values() for each in messages) == totals.rows
    times = Counter(each.ts for each in seen["host-samples"])
    assert 60 <= len(times) <= 62 + took_s
    assert min(time for time in times if time) >= before - 61
    assert set(times.values()) == {SMALL.hosts}


def test_a_host_stays_on_one_partition_and_in_order(kafka_settings: Kafka) -> None:
    send(kafka_settings, Pace(backfill_s=20, duration_s=0))
    for messages in published(kafka_settings).values():
        places: dict[str, list[Seen]] = {}
        for each in messages:
            places.setdefault(each.key, []).append(each)
        for mine in places.values():
            assert len({each.partition for each in mine}) == 1
            times: list[Any] = [each.ts for each in sorted(mine, key=lambda each: each.offset)]
            assert times == sorted(times)


def test_a_run_after_another_sends_no_instant_twice(kafka_settings: Kafka, tmp_path: Path) -> None:
    pace = Pace(backfill_s=20, duration_s=0, resume=tmp_path / "simulated")
    began = time.time()
    first = send(kafka_settings, pace)
    second = send(kafka_settings, pace)
    assert second.ticks <= time.time() - began + 1, "no history, but the moment that the first took"
    assert first.ticks >= 20
    times = Counter((each.key, each.ts) for each in published(kafka_settings)["gpu-samples"])
    assert set(times.values()) == {1}


def test_jobs_end_with_a_run_and_the_next_begins_its_own(tmp_path: Path) -> None:
    told: list[list[Any]] = []
    for backfill_s in (600, 900):
        sink = Nowhere(kept=[])
        run(SMALL, Pace(backfill_s, duration_s=0, resume=tmp_path / "simulated"), sink, threading.Event(), QUIET)
        kept = [each for each in sink.kept or () if each.topic == "job-events"]
        told.append([row for each in kept for row in unpack(TOPICS["job-events"], each.value)])
        (tmp_path / "simulated").write_text(f"{time.time() - 300:020.3f}\n")  # the next one comes later
    for rows in told:
        ids = {event: {row.job_id for row in rows if row.event == event} for event in ("started", "ended")}
        assert ids["started"] == ids["ended"] != set()
    first, second = told
    assert not {row.job_id for row in first} & {row.job_id for row in second}
    assert min(row.started_at for row in second) >= time.time() - 300 - 120


def test_the_present_comes_in_time() -> None:
    sink = Nowhere(kept=[])
    fleet = Fleet(hosts=1, gpus=1, interval_s=0.2)
    began = time.monotonic()
    totals = run(fleet, Pace(duration_s=1.0), sink, threading.Event(), QUIET)
    assert 4 <= totals.ticks <= 6
    assert 0.7 <= time.monotonic() - began < SLACK_S


def test_a_rate_can_be_set() -> None:
    began = time.monotonic()
    totals = run(SMALL, Pace(backfill_s=30, duration_s=0, max_rate=1500), Nowhere(), threading.Event(), QUIET)
    assert totals.rows / (time.monotonic() - began) < 2000


@pytest.fixture
def process(kafka_settings: Kafka) -> Iterator["subprocess.Popen[bytes]"]:
    """The simulator as `up` starts it."""
    started = launch.spawn("warpmeter.simulate", Settings(kafka=kafka_settings), ["--hosts", "2", "--backfill", "5s"])
    yield started
    started.kill()
    started.wait()


def test_signals_end_it_with_all_acknowledged(process: "subprocess.Popen[bytes]", kafka_settings: Kafka) -> None:
    wait_for_messages(kafka_settings)
    tell(process, signal.SIGINT)
    assert process.wait(60) == 0


def wait_for_messages(kafka: Kafka, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        missing = topics.check(kafka, [TOPICS["gpu-samples"]])
        if not missing and list(tail.read(kafka, Wanted("gpu-samples", follow=False), threading.Event())):
            return
    raise AssertionError(f"nothing on gpu-samples after {timeout_s} s")


def test_a_broker_that_is_away_ends_it_with_what_to_do(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        settings = Settings(kafka=Kafka("127.0.0.1:1"))
        child = launch.spawn("warpmeter.simulate", settings, ["--duration", "1"], file)
    assert child.wait(120) == 1
    assert log.read_text().startswith("warpmeter simulate: cannot reach Kafka at 127.0.0.1:1")
