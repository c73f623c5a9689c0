"""Ingest as a process, on real brokers and the real engine: every row once, whatever ends when."""

import random
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.brokers import Broker, Tansu
from tests.brokers.process import free_ports
from tests.engine import EngineServer
from tests.engine.template import with_tables
from tests.ingest_bench import HALTED, Bench, make_bench
from tests.ingest_process import (
    GPUS,
    HOSTS,
    Feed,
    IngestProcess,
    Table,
    make_anew,
    make_topics,
)
from tests.real import agents
from tests.signals import SLACK_S, tell
from tests.wait import until
from warpmeter import wire
from warpmeter.consumers import status
from warpmeter.schemas.generated import gpu_samples_pb2
from warpmeter.settings import Metrics


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    with closing(with_tables(tmp_path_factory.mktemp("engine") / "data")) as server:
        yield server


@pytest.fixture
def at(broker: Broker, engine: EngineServer, topic_prefix: str, tmp_path: Path) -> Bench:
    return make_bench(broker, engine, topic_prefix, tmp_path)


def test_every_row_lands_once_and_a_stop_leaves_nothing_declared(at: Bench) -> None:
    at.feed.good(500)
    with closing(at.start()) as process:
        at.table.reaches(at.feed.sent, process)
        at.feed.good(100)
        at.table.reaches(at.feed.sent, process)
        at.feed.good(10)
        time.sleep(0.3)
        began = time.monotonic()
        assert process.stop() == 0
        assert time.monotonic() - began < 5 + SLACK_S
    with closing(at.start()) as process:
        at.table.reaches(at.feed.sent, process.ready())
        assert process.stop() == 0
    at.once()
    at.spans_meet()
    assert status.pending(at.settings) == []
    problems: list[str] = []
    rows = [row for row in status.lag(at.settings, problems) if row["topic"].endswith("gpu-samples")]
    assert not problems
    assert rows
    assert sum(row["lag_messages"] for row in rows) == 0


def test_corrupt_messages_are_in_the_dead_letters_and_the_rest_in_its_table(at: Bench) -> None:
    at.feed.good(200)
    bad = [b"", b"\xff\xff\xff", at.feed.envelope(2).value[:-3], None]
    at.feed.sent -= 2  # the truncated one does not count
    for value in bad:
        at.feed.raw(value, [("type", b"GpuSample"), ("rows", b"2")])
    host = at.feed.envelope(1, HOSTS)
    at.feed.sent -= 1
    at.feed.raw(host.value, host.headers)
    at.feed.put(wire.pack(GPUS, "", [gpu_samples_pb2.Envelope.GpuSample(ts=1.8e9)]))
    at.feed.good(200)
    with closing(at.start()) as process:
        at.table.reaches(at.feed.sent, process)
        letters = (
            f"SELECT value, reason FROM dead_letters FINAL WHERE topic = '{at.settings.kafka.topic_prefix}.gpu-samples'"
        )
        until(lambda: len(at.table.query(letters)) == 6, "six dead letters")
        assert process.stop() == 0
    at.once()
    found = dict(at.table.query(letters))
    assert any("host" in reason for reason in found.values()), found
    assert any("HostSample" in reason for reason in found.values()), found


@pytest.mark.long
def test_kill_9_between_insert_and_settle_doubles_nothing(at: Bench) -> None:
    at.feed.good(300)
    with closing(at.start(settle_after_s=1e9)) as process:
        at.table.reaches(at.feed.sent, process)
        process.kill()
    assert status.pending(at.settings)
    at.feed.good(50)
    with closing(at.start()) as process:
        at.table.reaches(at.feed.sent, process)
        assert "replaying a declared span" in process.said()
        assert process.stop() == 0
    at.once()
    assert status.pending(at.settings) == []


@pytest.mark.long
def test_kill_9_at_any_moment_loses_nothing_and_doubles_nothing(at: Bench) -> None:
    rng = random.Random(4)
    for _ in range(2):
        with closing(at.start(batch_age_s=0.05, settle_after_s=0.1)) as process:
            process.ready()
            ends = time.monotonic() + rng.uniform(0.05, 0.5)
            while time.monotonic() < ends:
                at.feed.good(20)
            process.kill()
    with closing(at.start()) as process:
        at.table.reaches(at.feed.sent, process)
        assert process.stop() == 0
    at.once()


@pytest.mark.long
def test_the_engine_killed_and_started_again_loses_nothing(tansu: Broker, topic_prefix: str, tmp_path: Path) -> None:
    server = with_tables(tmp_path / "data")
    at = make_bench(tansu, server, topic_prefix, tmp_path)
    with closing(at.start()) as process:
        at.feed.good(100)
        at.table.reaches(at.feed.sent, process)
        server.kill()
        at.feed.good(100)
        until(lambda: "nothing is lost" in process.said(), "the outage to be noticed")
        with closing(EngineServer(tmp_path / "data", port=server.port)):
            at.table.reaches(at.feed.sent, process)
            until(lambda: "inserting again" in process.said(), "the way back")
            assert process.stop() == 0
            at.once()


def test_a_missing_table_halts_and_says_which(at: Bench) -> None:
    at.feed.good(5)
    wrong = replace(at.settings, store=replace(at.settings.store, database="system"))
    with closing(IngestProcess(wrong, at.log)) as process:
        assert process.ended() == HALTED
        assert "ingest_batches" in process.said()


def test_too_many_bad_messages_halt(at: Bench) -> None:
    for _ in range(100):
        at.feed.raw(b"\xff", [("type", b"GpuSample"), ("rows", b"1")])
    at.feed.flush()
    with closing(at.start(batch_age_s=2.0)) as process:
        assert process.ended() == HALTED
        assert "were refused, more than 5%" in process.said()


def test_a_second_signal_ends_it_at_once(at: Bench) -> None:
    with closing(at.start()) as process:
        process.ready()
        tell(process.process)
        process.process.terminate()
        assert process.ended(5 + SLACK_S) in (0, 1)


@pytest.mark.long
def test_a_topic_deleted_and_made_again_starts_at_its_first_offset(at: Bench) -> None:
    at.feed.good(100)
    with closing(at.start()) as process:
        at.table.reaches(at.feed.sent, process)
        assert process.stop() == 0
    make_anew(at.settings)
    at.feed = Feed(at.settings, at.feed.tag)
    again = at.feed
    again.sent = 1000
    again.good(60)
    with closing(at.start()) as process:
        at.table.reaches(400 + 240, process)
        assert process.stop() == 0
    assert at.table.rows() == at.table.distinct() == at.table.rolled_up() == 640


@pytest.mark.kafka
def test_a_topic_deleted_and_made_again_under_a_running_consumer(
    kafka: Broker, engine: EngineServer, topic_prefix: str, tmp_path: Path
) -> None:
    at = make_bench(kafka, engine, topic_prefix, tmp_path)
    at.feed.good(100)
    with closing(at.start()) as process:
        at.table.reaches(at.feed.sent, process)
        make_anew(at.settings)
        at.feed = Feed(at.settings, topic_prefix)
        at.feed.sent = 400
        at.feed.good(200)
        at.table.reaches(1200, process)
        at.feed.good(20)
        at.table.reaches(at.feed.sent, process)
        assert process.stop() == 0
    at.once()


@pytest.mark.kafka
def test_two_consumers_share_and_one_is_killed(
    kafka: Broker, engine: EngineServer, topic_prefix: str, tmp_path: Path
) -> None:
    at = make_bench(kafka, engine, topic_prefix, tmp_path)
    one = at.start()
    two = IngestProcess(at.settings, tmp_path / "two.log")
    with closing(one), closing(two):
        one.ready()
        two.ready()
        for _ in range(20):
            at.feed.good(20)
        two.kill()
        at.feed.good(100)
        at.table.reaches(at.feed.sent, one)
        assert one.stop() == 0
    at.once()


@pytest.mark.long
def test_restarts_of_a_broker_that_forgets_everything(engine: EngineServer, topic_prefix: str, tmp_path: Path) -> None:
    """The embedded broker: its log dies with it, so whoever restarts it restarts its clients."""
    with closing(Tansu(tmp_path / "tansu")) as broker:
        at = make_bench(broker, engine, topic_prefix, tmp_path)
        sent = 0
        for _ in range(2):
            at.feed.sent = sent
            at.feed.good(25)
            sent = at.feed.sent
            with closing(at.start()) as process:
                at.table.reaches(sent, process)
                assert process.stop() == 0
            broker.stop()
            broker.start()
            make_topics(at.settings)
            at.feed = Feed(at.settings, topic_prefix)
        at.feed.sent = sent
        at.once()


@pytest.mark.long
def test_the_same_into_an_engine_in_its_own_process(tansu: Broker, topic_prefix: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with closing(with_tables(data)) as server:
        at = make_bench(tansu, server, topic_prefix, tmp_path)
    port = free_ports(1)[0]
    inside = replace(
        at.settings, store=replace(at.settings.store, dsn=f"chdb://{data}"), metrics=Metrics(ingest_port=port)
    )
    at.feed.good(300)
    with closing(IngestProcess(inside, at.log)) as process:
        process.ready()
        at.feed.good(100)
        inserted = f'warpmeter_ingest_rows_total{{table="{GPUS.table}"}}'
        until(lambda: agents.metric(port, inserted) >= at.feed.sent, "all to be inserted")  # nobody else may look
        assert process.stop() == 0
    with closing(EngineServer(data)) as server:
        at.table = Table(server, topic_prefix)
        at.once()
