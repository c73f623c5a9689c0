"""`warpmeter replay`: a time range landed again is in the raw table and every rollup once, killed wherever."""

import json
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from tests.brokers import Broker
from tests.engine import EngineServer
from tests.ingest_process import IngestProcess
from tests.replay_world import GPUS, HOSTS, JOBS, Crash, Watching, World
from tests.tables import row
from tests.wait import until
from warpmeter import bus, queries, store
from warpmeter.consumers.replay import run
from warpmeter.consumers.replay.errors import ReplayError
from warpmeter.consumers.replay.hours import HOUR_S, said, widened
from warpmeter.consumers.sink import ONE_BLOCK
from warpmeter.settings import Settings

STAGES = ["reading", "comparing", "deleting", "landing", "step of landing", "removing"]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    with closing(EngineServer(tmp_path_factory.mktemp("engine") / "data")) as server:
        yield server


@pytest.fixture(scope="module")
def world(broker: Broker, engine: EngineServer, tmp_path_factory: pytest.TempPathFactory) -> World:
    """One for all tests here: each leaves the tables as they were."""
    return landed(broker, engine, tmp_path_factory.mktemp("world"))


def landed(broker: Broker, engine: EngineServer, folder: Path) -> World:
    world = World.made(broker, engine, f"t{secrets.token_hex(4)}", folder)
    world.send()
    world.ingest()
    world.before = world.snapshot()
    assert all(world.before[table] for table in ("gpu_samples", "fleet_windows_1h", "job_windows_1m", "job_trees"))
    return world


@pytest.fixture(autouse=True)
def unchanged(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "world" not in request.fixturenames:
        return
    world: World = request.getfixturevalue("world")
    assert world.snapshot() == world.before
    assert world.staging_tables() == []


@pytest.mark.parametrize("topic", [GPUS, HOSTS, JOBS])
def test_what_is_whole_is_the_same_after_a_replay(world: World, topic: str) -> None:
    outcome = world.replay(topic)
    assert outcome.done
    assert (sum(hour.staged for hour in outcome.hours), outcome.rejected) == (world.sent * 4, 0)


DAMAGE = {
    "deleted": ["ALTER TABLE gpu_samples DELETE WHERE gpu = 1"],
    "dropped": ["ALTER TABLE gpu_samples DROP PARTITION ID '{day}'"],
    "truncated": ["TRUNCATE TABLE gpu_samples"],
    "rollups gone": ["TRUNCATE TABLE gpu_heatmap_1m", "TRUNCATE TABLE fleet_windows_1h"],
    "everything gone": [
        "TRUNCATE TABLE gpu_samples", "TRUNCATE TABLE gpu_heatmap_1m", "TRUNCATE TABLE gpu_heatmap_1h",
        "TRUNCATE TABLE fleet_windows_1m", "TRUNCATE TABLE fleet_windows_1h",
    ],
    "doubled": ["INSERT INTO gpu_samples SELECT * FROM gpu_samples WHERE gpu < 2"],
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_what_was_deleted_by_hand_or_doubled_is_once_in_raw_and_rollups(world: World, damage: list[str]) -> None:
    days = {day for (day,) in world.query("SELECT DISTINCT toYYYYMMDD(ts) FROM gpu_samples")}
    for statement in damage:
        for day in days if "{day}" in statement else ("",):
            world.command(statement.format(day=day))
    assert world.snapshot() != world.before
    world.replay(GPUS)


@pytest.mark.parametrize(
    "damage",
    ["TRUNCATE TABLE job_events", "INSERT INTO job_events SELECT * FROM job_events WHERE ts < now()"],
    ids=["truncated", "doubled"],
)
def test_totals_over_all_time_are_right_as_well(world: World, damage: str) -> None:
    world.command(damage)
    world.replay(JOBS, wanted=world.wanted)


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


@pytest.mark.parametrize("stage", STAGES)
def test_a_crash_at_any_stage_loses_nothing_and_the_same_again_ends_it(world: World, stage: str) -> None:
    topic = JOBS if stage in ("landing", "removing") else GPUS
    with pytest.raises(Crash):
        world.replay(topic, Watching(stage))
    with store.client(world.settings.store) as client:
        left = run.unfinished(client, world.settings)
    assert bool(left) == (stage not in ("reading", "comparing"))
    assert world.replay(topic).done


def test_one_half_is_replayed_without_touching_the_other(world: World) -> None:
    world.command("ALTER TABLE gpu_samples DELETE WHERE 1")
    world.replay(GPUS, wanted=widened(world.start, world.start + HOUR_S))
    first = [found for found in world.before["gpu_samples"] if found[1].timestamp() < world.start + HOUR_S]
    assert world.snapshot()["gpu_samples"] == first
    world.replay(GPUS)


def test_a_row_that_the_topic_does_not_have_stops_it_before_anything_is_deleted(world: World) -> None:
    with closing(store.connect(world.settings.store)) as client:
        more = "INSERT INTO gpu_samples SELECT * REPLACE ('by-hand' AS host) FROM gpu_samples LIMIT 1"
        client.command(more, settings={**ONE_BLOCK, "insert_deduplication_token": "by hand"})
    had = world.snapshot()
    with pytest.raises(ReplayError, match="1 rows that the tables hold are not in the topic"):
        world.replay(GPUS)
    assert world.snapshot() == had
    assert world.replay(GPUS, allow_loss=True).done
    world.command("ALTER TABLE gpu_last DELETE WHERE host = 'by-hand'")


def test_rows_that_only_a_rollup_has_stop_it_as_well(world: World) -> None:
    with closing(store.connect(world.settings.store)) as client:
        more = "INSERT INTO gpu_samples SELECT * REPLACE ('by-hand' AS host) FROM gpu_samples LIMIT 3"
        client.command(more, settings={**ONE_BLOCK, "insert_deduplication_token": "by hand again"})
    world.command("ALTER TABLE gpu_samples DELETE WHERE host = 'by-hand'")
    with pytest.raises(ReplayError, match="rows that the tables hold are not in the topic"):
        world.replay(GPUS)
    world.replay(GPUS, allow_loss=True)
    world.command("ALTER TABLE gpu_last DELETE WHERE host = 'by-hand'")


def test_a_dry_run_and_a_no_change_nothing(world: World) -> None:
    world.command("ALTER TABLE host_samples DELETE WHERE cpu_util_permille < 10")
    had = world.snapshot()
    for outcome in (world.replay(HOSTS, dry_run=True), world.replay(HOSTS, Watching(answer=False))):
        assert not outcome.done
        assert any(hour.staged > hour.in_table for hour in outcome.hours)
    assert world.snapshot() == had
    world.replay(HOSTS)


def test_it_refuses_while_ingest_is_at_work_and_ingest_waits_for_it(world: World) -> None:
    with closing(IngestProcess(world.settings, world.log)) as process:
        process.ready()
        with pytest.raises(ReplayError, match="stop"):
            world.replay(GPUS)
        assert world.replay(GPUS, dry_run=True).messages == world.sent
        assert process.stop() == 0


def test_the_book_is_mended_with_what_was_in_no_span_or_in_two(world: World) -> None:
    span = (
        "SELECT topic_uuid, partition, first, last FROM ingest_batches WHERE table = 'gpu_samples' AND rows > 8 LIMIT 1"
    )
    life, partition, first, last = world.query(span)[0]
    world.command(f"ALTER TABLE ingest_batches DELETE WHERE topic_uuid = '{life}' AND partition = {partition}")
    middle = (first + last) // 2
    times = f"toDateTime64({world.start}, 3, 'UTC')"
    for one, other in ((first, middle), (middle - 1, last - 1)):
        world.command(
            "INSERT INTO ingest_batches (table, topic_uuid, partition, first, last, rows, min_ts, max_ts, token) "
            f"VALUES ('gpu_samples', '{life}', {partition}, {one}, {other}, 1, {times}, {times}, 'x')"
        )
    world.replay(GPUS)
    gaps = queries.get("ingest_gaps")
    with closing(store.connect(world.settings.store)) as client:
        found = list(client.query(gaps.sql, gaps.values({})).named_results())
    assert found
    assert [(each["missing"], each["doubled"]) for each in found] == [(0, 0)] * len(found)
    ends = "SELECT min(first), max(last) FROM ingest_batches WHERE topic_uuid = '{}' AND partition = {}"
    assert world.query(ends.format(life, partition)) == [(first, last)]


def test_bad_messages_stay_out_and_are_sent_to_the_dead_letters_once(
    broker: Broker, engine: EngineServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = World.made(broker, engine, f"t{secrets.token_hex(4)}", tmp_path_factory.mktemp("other"))
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


@pytest.mark.kafka
@pytest.mark.parametrize("line", ["reading", "comparing", "deleting", "landing", "removing"])
def test_kill_9_of_the_command_at_any_line_and_the_same_again(own: World, tmp_path: Path, line: str) -> None:
    """On a broker whose group remembers the dead member for a session."""
    words = ["--topic", GPUS, "--from", said(own.start), "--to", said(own.start + 2 * HOUR_S), "--yes"]
    command = [sys.executable, "-m", "warpmeter", "replay", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=own.environment(tmp_path)) as process:
        assert process.stderr is not None
        assert any(each.startswith(line) for each in process.stderr), "it ended before"
        process.kill()
    done = subprocess.run(command, capture_output=True, timeout=100, env=own.environment(tmp_path))
    assert done.returncode == 0, done.stderr
    assert own.snapshot() == own.before
    assert own.staging_tables() == []


@pytest.fixture(scope="module")
def own(kafka: Broker, engine: EngineServer, tmp_path_factory: pytest.TempPathFactory) -> World:
    return landed(kafka, engine, tmp_path_factory.mktemp("own"))


@pytest.mark.kafka
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


@pytest.mark.kafka
def test_a_declared_span_and_a_moved_offset_are_refused(own: World) -> None:
    with closing(IngestProcess(replace_settle(own), own.log)) as process:
        own.send(3)
        until(lambda: own.value("SELECT count() FROM gpu_samples") == own.sent * 4, "all to land", 40)
        process.kill()
    with pytest.raises(ReplayError, match="declared but not stored"):
        own.replay(GPUS)
    own.ingest()
    own.before = own.snapshot()
    own.replay(GPUS)
    assert own.snapshot() == own.before
    consumer = bus.consumer(own.settings.kafka, own.settings.ingest.group)
    with closing(consumer):
        consumer.commit(offsets=[TopicPartition(f"{own.settings.kafka.topic_prefix}.{GPUS}", 0, 0)], asynchronous=False)
    with pytest.raises(ReplayError, match="ingest itself could not go on"):
        own.replay(GPUS)


def replace_settle(world: World) -> Settings:
    """Settings with which nothing is settled."""
    return replace(world.settings, ingest=replace(world.settings.ingest, settle_after_s=1e9))


def test_into_an_engine_in_the_commands_own_process(tansu: Broker, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with closing(EngineServer(data)) as server:
        world = landed(tansu, server, tmp_path)
        world.command("TRUNCATE TABLE gpu_samples")
    environment = {**world.environment(tmp_path), "WARPMETER_STORE__DSN": f"chdb://{data}"}
    words = ["--topic", GPUS, "--from", said(world.start), "--to", said(world.start + 2 * HOUR_S), "--yes", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "warpmeter", "replay", *words], capture_output=True, timeout=100, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert [outcome["done"] for outcome in json.loads(done.stdout)] == [True]
    with closing(EngineServer(data, port=server.port)):
        assert world.snapshot() == world.before
