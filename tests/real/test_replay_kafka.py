"""`warpmeter replay` on Apache Kafka, where the group keeps the records: killed, refused, and more kinds of damage."""

import json
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from tests.brokers import Broker
from tests.engine import EngineServer
from tests.ingest_process import IngestProcess
from tests.replay_world import DAMAGE, GPUS, HOSTS, JOBS, Watching, World
from tests.tables import row
from tests.wait import until
from warpmeter import bus, store
from warpmeter.consumers import status
from warpmeter.consumers.ledger import Declared
from warpmeter.consumers.replay.errors import ReplayError
from warpmeter.consumers.replay.hours import HOUR_S, said, widened
from warpmeter.consumers.sink.clickhouse import ONE_BLOCK
from warpmeter.settings import Settings

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    with closing(EngineServer(tmp_path_factory.mktemp("engine") / "data")) as server:
        yield server


@pytest.fixture(scope="module")
def own(kafka: Broker, engine: EngineServer, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World.landed(kafka, engine, tmp_path_factory.mktemp("own"))


@pytest.fixture
def world(own: World) -> Iterator[World]:
    """Left as it was by each test."""
    yield own
    assert own.snapshot() == own.before
    assert own.staging_tables() == []


@pytest.mark.parametrize("damage", sorted(DAMAGE.keys() - {"everything gone", "doubled"}))
def test_what_was_deleted_by_hand_is_once_in_raw_and_rollups(world: World, damage: str) -> None:
    world.damage(damage)
    world.replay(GPUS)


@pytest.mark.parametrize("stage", ["reading", "landing", "removing"])
def test_a_crash_at_any_stage_with_totals(world: World, stage: str) -> None:
    world.crash(JOBS, stage)
    assert world.replay(JOBS).done


class Starting(Watching):
    """Starts ingest when everything was deleted."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.process: IngestProcess | None = None
        self.taken = ""

    def stage(self, what: str, steps: int = 0) -> None:
        super().stage(what, steps)
        if what.startswith("landing"):
            self.process = IngestProcess(self.world.settings, self.world.log).ready()
            time.sleep(4 * self.world.settings.ingest.session_timeout_s)
            self.taken = self.process.said()


def taken(log: str) -> set[str]:
    """The topics of which partitions were taken, by a process's log."""
    events = [json.loads(line) for line in log.splitlines() if line.startswith("{") and line.endswith("}")]
    return {topic for event in events if event["event"] == "partitions taken" for topic in event["topics"]}


def test_ingest_that_is_started_meanwhile_waits_for_its_end(world: World) -> None:
    """It gets the topics that are not replayed at once, and the one that is once the replay is done."""
    starting = Starting(world)
    world.replay(GPUS, starting)
    assert starting.process is not None
    with closing(starting.process) as process:
        assert f"{world.settings.kafka.topic_prefix}.{HOSTS}" in taken(starting.taken)
        replayed = f"{world.settings.kafka.topic_prefix}.{GPUS}"
        assert replayed not in taken(starting.taken)
        until(lambda: replayed in taken(process.said()), "the replayed topic")
        assert process.stop() == 0


@pytest.mark.parametrize(
    "damage",
    ["TRUNCATE TABLE job_events", "INSERT INTO job_events SELECT * FROM job_events WHERE ts < now()"],
    ids=["truncated", "doubled"],
)
def test_totals_over_all_time_are_right_as_well(world: World, damage: str) -> None:
    world.command(damage)
    world.replay(JOBS)


def test_totals_of_a_job_older_than_the_raw_rows_keep_what_is_gone_from_them(world: World) -> None:
    old = "SELECT job_id, host, pid, sum(cpu_core_seconds) FROM job_trees GROUP BY ALL ORDER BY ALL"
    had = world.query(old)
    world.command("CREATE TABLE aside AS job_trees ENGINE = MergeTree ORDER BY job_id")
    world.command("INSERT INTO aside SELECT * FROM job_trees")
    world.command(
        "INSERT INTO job_trees SELECT * REPLACE (toDateTime64(now() - INTERVAL 30 DAY, 3, 'UTC') AS first_at, "
        "1000 AS cpu_core_seconds, 5 AS read_bytes) FROM job_trees LIMIT 1 BY job_id, host, pid"
    )
    read = world.query("SELECT sum(read_bytes) FROM job_trees")
    try:
        world.replay(JOBS)
        assert world.query(old) == [(*key, total + 1000) for *key, total in had]
        assert world.query("SELECT sum(read_bytes) FROM job_trees") == read
    finally:
        world.command("TRUNCATE TABLE job_trees")
        world.command("INSERT INTO job_trees SELECT * FROM aside")
        world.command("DROP TABLE aside SYNC")


def test_rows_that_only_a_rollup_has_stop_it_as_well(world: World) -> None:
    with closing(store.connect(world.settings.store)) as client:
        more = "INSERT INTO gpu_samples SELECT * REPLACE ('by-hand' AS host) FROM gpu_samples LIMIT 3"
        client.command(more, settings={**ONE_BLOCK, "insert_deduplication_token": "by hand again"})
    world.command("ALTER TABLE gpu_samples DELETE WHERE host = 'by-hand'")
    with pytest.raises(ReplayError, match="rows that the tables hold are not in the topic"):
        world.replay(GPUS)
    world.replay(GPUS, allow_loss=True)
    world.command("ALTER TABLE gpu_last DELETE WHERE host = 'by-hand'")


@pytest.mark.parametrize("line", ["reading", "deleting", "landing"])
def test_kill_9_of_the_command_at_any_line_and_the_same_again(world: World, tmp_path: Path, line: str) -> None:
    """On a broker whose group remembers the dead member for a session."""
    words = ["--topic", GPUS, "--from", said(world.start), "--to", said(world.start + 2 * HOUR_S), "--yes"]
    command = [sys.executable, "-m", "warpmeter", "replay", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=world.environment(tmp_path)) as process:
        assert process.stderr is not None
        assert any(each.startswith(line) for each in process.stderr), "it ended before"
        process.kill()
    done = subprocess.run(command, capture_output=True, timeout=200, env=world.environment(tmp_path))
    assert done.returncode == 0, done.stderr


def test_what_the_topic_lost_by_retention_is_told_before_anything_is_read(own: World) -> None:
    name = f"{own.settings.kafka.topic_prefix}.{HOSTS}"
    place, end = next((p, e) for p in range(3) if (e := own.value(
        f"SELECT max(last) FROM ingest_batches WHERE table = 'host_samples' AND partition = {p}"
    )))  # fmt: skip
    admin = bus.admin(own.settings.kafka)
    for future in admin.delete_records([TopicPartition(name, place, end // 2)]).values():
        future.result()
    with pytest.raises(ReplayError, match="no longer holds all of it"):
        own.replay(HOSTS)
    assert own.snapshot() == own.before


def test_a_declared_span_is_ended_by_the_replay_and_a_moved_offset_is_refused(own: World) -> None:
    with closing(IngestProcess(replace_settle(own), own.log)) as process:
        own.send(3)
        until(lambda: own.value("SELECT count() FROM gpu_samples") == own.sent * 4, "all to land")
        process.kill()
    until(lambda: status.members(own.settings) == 0, "the killed one to be forgotten")
    assert status.pending(own.settings)
    assert own.replay(GPUS).done
    assert f"{own.settings.kafka.topic_prefix}.{GPUS}" not in pending_topics(own)
    own.ingest()
    own.before = own.snapshot()
    own.replay(GPUS)
    assert own.snapshot() == own.before
    consumer = bus.consumer(own.settings.kafka, own.settings.ingest.group)
    with closing(consumer):
        consumer.commit(offsets=[TopicPartition(f"{own.settings.kafka.topic_prefix}.{GPUS}", 0, 0)], asynchronous=False)
    with pytest.raises(ReplayError, match="ingest itself could not go on"):
        own.replay(GPUS)


def pending_topics(world: World) -> set[str]:
    """The topics of which something is declared and not settled."""
    return {where.topic for where, entry in status.records(world.settings).items() if isinstance(entry, Declared)}


def replace_settle(world: World) -> Settings:
    """Settings with which nothing is settled."""
    return replace(world.settings, ingest=replace(world.settings.ingest, settle_after_s=1e9))


def test_into_an_engine_in_the_commands_own_process(kafka: Broker, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with closing(EngineServer(data)) as server:
        world = World.landed(kafka, server, tmp_path)
        world.command("TRUNCATE TABLE gpu_samples")
    environment = {**world.environment(tmp_path), "WARPMETER_STORE__DSN": f"chdb://{data}"}
    words = ["--topic", GPUS, "--from", said(world.start), "--to", said(world.start + 2 * HOUR_S), "--yes", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "warpmeter", "replay", *words], capture_output=True, timeout=200, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert [outcome["done"] for outcome in json.loads(done.stdout)] == [True]
    with closing(EngineServer(data, port=server.port)):
        assert world.snapshot() == world.before


def test_bad_messages_stay_out_and_are_sent_to_the_dead_letters_once(
    kafka: Broker, engine: EngineServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = World.made(kafka, engine, f"t{secrets.token_hex(4)}", tmp_path_factory.mktemp("other"))
    other.send(30, [GPUS, HOSTS, JOBS])
    other.put(GPUS, b"\xff\xff", other.start + 5)
    other.put(GPUS, [row(GPUS, host="", ts=other.start + 5)], other.start + 5)
    late = [row(GPUS, host="late", ts=other.start + n, period_ms=1000, gpu=1, uuid="u") for n in range(4)]
    other.put(GPUS, late, other.start + 3 * HOUR_S)  # from a spool, long after the range
    other.flush()
    other.sent += 1
    other.send(1, [HOSTS, JOBS])
    other.sent -= 1
    other.ingest()
    with closing(IngestProcess(other.settings, other.log)) as process:
        process.ready()
        assert process.stop() == 0
    before = other.snapshot()
    outcome = other.replay(GPUS, wanted=widened(other.start, other.start + HOUR_S))
    assert (outcome.done, outcome.rejected) == (True, 2)
    assert other.snapshot() == before
    assert other.value("SELECT count() FROM gpu_samples WHERE host = 'late'") == 4
