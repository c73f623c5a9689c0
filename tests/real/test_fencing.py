"""A member that slept past its session, on real Apache Kafka: it wakes up and inserts nothing that others took over."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.brokers import KafkaCluster
from tests.engine import DATABASE, EngineServer
from tests.engine.template import with_tables
from tests.ingest_bench import Bench, make_bench
from tests.ingest_process import GPUS, T0, IngestProcess
from tests.tables import land, row
from tests.wait import until
from warpmeter.consumers import status

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

SLOW_S = 60.0
WINDOW = 3
ENDS = pytest.mark.parametrize("others_end", [False, True], ids=["others go on", "the group is empty"])


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    with closing(with_tables(tmp_path_factory.mktemp("engine") / "data")) as server:
        yield server


@contextmanager
def sleeping(process: IngestProcess) -> Iterator[None]:
    """Stopped for the length of the block."""
    process.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.process.send_signal(signal.SIGCONT)


def finds_out(sleeper: IngestProcess) -> None:
    """Wait until it knows that its partitions are lost."""
    until(lambda: '"lost": true' in sleeper.said(), f"the sleeper to find out: {sleeper}", SLOW_S)


@ENDS
def test_a_member_that_sleeps_past_its_session_inserts_nothing_that_others_took_over(
    kafka: KafkaCluster, engine: EngineServer, topic_prefix: str, tmp_path: Path, others_end: bool
) -> None:
    at = make_bench(kafka, engine, topic_prefix, tmp_path)
    with (
        closing(at.start(batch_age_s=1.0)) as sleeper,
        closing(IngestProcess(at.settings, tmp_path / "other.log")) as other,
    ):
        at.feed.good(50)
        at.table.reaches(at.feed.sent, sleeper.ready(), within_s=SLOW_S)
        at.feed.good(50)  # in its open batches, or declared, when it falls asleep
        with sleeping(sleeper):
            at.feed.good(100)
            at.table.reaches(at.feed.sent, other, within_s=SLOW_S)
            if others_end:
                until(lambda: not status.pending(at.settings), "all to be settled: a stop has nothing left", SLOW_S)
                assert other.stop(SLOW_S) == 0
        at.feed.good(100)
        at.table.reaches(at.feed.sent, sleeper if others_end else other, within_s=SLOW_S)
        finds_out(sleeper)
        assert sleeper.stop(SLOW_S) == 0
    at.once()
    at.spans_meet()


def small_windows(engine: EngineServer) -> None:
    """Every table forgets a token after `WINDOW` more blocks."""
    with engine.client(write=True) as client:
        names = client.query(
            "SELECT name FROM system.tables WHERE database = {database:String} AND engine LIKE '%MergeTree'"
            " AND create_table_query LIKE '%non_replicated_deduplication_window%'",
            {"database": DATABASE},
        ).result_rows
        for (name,) in names:
            client.command(f"ALTER TABLE {name} MODIFY SETTING non_replicated_deduplication_window = {WINDOW}")


def one_partition(kafka: KafkaCluster, engine: EngineServer, prefix: str, folder: Path) -> Bench:
    """A corner whose GPU topic has one partition, and no other topic is read: its window is this test's alone."""
    at = make_bench(kafka, engine, prefix, folder, partitions=1)
    at.settings = replace(at.settings, ingest=replace(at.settings.ingest, topics=(GPUS.name,)))
    return at


@ENDS
def test_a_member_that_slept_between_declare_and_insert_until_the_window_forgot_inserts_nothing(
    kafka: KafkaCluster, topic_prefix: str, tmp_path: Path, others_end: bool
) -> None:
    server = with_tables(tmp_path / "data")
    at = one_partition(kafka, server, topic_prefix, tmp_path)
    with closing(at.start()) as sleeper:
        at.feed.good(20)
        at.table.reaches(at.feed.sent, sleeper, within_s=SLOW_S)
        small_windows(server)
        server.kill()
        at.feed.good(50)
        until(lambda: "insert into gpu_samples" in sleeper.said(), "a declared span that cannot be inserted", SLOW_S)
        with ExitStack() as stack:
            stack.enter_context(sleeping(sleeper))
            server = stack.enter_context(closing(EngineServer(tmp_path / "data", port=server.port)))
            (slept_on,) = status.pending(at.settings)  # before anybody can bring it in
            other = stack.enter_context(closing(IngestProcess(at.settings, tmp_path / "other.log")))
            at.table.reaches(at.feed.sent, other, within_s=SLOW_S)
            assert "replaying a declared span" in other.said()
            for _ in range(2 * WINDOW):
                at.feed.good(10)
                at.table.reaches(at.feed.sent, other, within_s=SLOW_S)
            if others_end:
                assert other.stop(SLOW_S) == 0
            sleeper.process.send_signal(signal.SIGCONT)
            at.feed.good(10)
            at.table.reaches(at.feed.sent, sleeper if others_end else other, within_s=SLOW_S)
            finds_out(sleeper)
            assert sleeper.stop(SLOW_S) == 0
            if not others_end:
                assert other.stop(SLOW_S) == 0
            at.once()
            at.spans_meet()
            assert status.pending(at.settings) == []
            _window_has_forgotten(server, at, slept_on)


def _window_has_forgotten(server: EngineServer, at: Bench, token: str) -> None:
    """The store would have taken that span a second time: what held is the group's fence, not the window."""
    before = at.table.rows()
    with server.client(write=True) as client:
        land(client, GPUS.name, [row(GPUS.name, host=f"{at.feed.tag}-again", ts=float(T0), period_ms=1000)], token)
    assert at.table.rows() == before + 1
