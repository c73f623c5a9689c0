"""`warpmeter replay`: a time range landed again is in the raw table and every rollup once, killed wherever."""

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from confluent_kafka.admin import OffsetSpec

from tests.brokers import Broker
from tests.engine import EngineServer
from tests.ingest_bench import HALTED
from tests.ingest_process import IngestProcess
from tests.replay_world import GPUS, HOSTS, JOBS, Crash, Watching, World
from tests.wait import until
from warpmeter import bus, queries, store
from warpmeter.cli import common
from warpmeter.consumers import status
from warpmeter.consumers.audit.run import audit
from warpmeter.consumers.ledger import Declared, Settled
from warpmeter.consumers.ledger.file import FileLedger
from warpmeter.consumers.replay import book, rollups, staging, totals
from warpmeter.consumers.replay.errors import ReplayError
from warpmeter.consumers.replay.hours import HOUR_S, widened
from warpmeter.consumers.replay.run import Asked, replay
from warpmeter.consumers.sink.clickhouse import ONE_BLOCK
from warpmeter.consumers.span import Partition, Span
from warpmeter.schemas.topics import TOPICS

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    with closing(EngineServer(tmp_path_factory.mktemp("engine") / "data")) as server:
        yield server


@pytest.fixture(scope="module")
def world(tansu: Broker, engine: EngineServer, tmp_path_factory: pytest.TempPathFactory) -> World:
    """One for all tests here: each leaves the tables as they were."""
    return World.landed(tansu, engine, tmp_path_factory.mktemp("world"))


@pytest.fixture(autouse=True)
def unchanged(world: World) -> Iterator[None]:
    yield
    assert world.snapshot() == world.before
    assert world.staging_tables() == []


def test_what_is_whole_is_the_same_after_a_replay(world: World) -> None:
    for topic in (GPUS, JOBS):
        outcome = world.replay(topic)
        assert outcome.done
        assert (outcome.rows, outcome.messages, outcome.rejected) == (world.sent * 4, world.sent, 0)
        assert [(hour.in_table, hour.start) for hour in outcome.after] == [
            (hour.in_table, hour.start) for hour in outcome.hours
        ]
        assert world.snapshot() == world.before, topic


@pytest.mark.parametrize("damage", ["everything gone", "doubled"])
def test_what_was_deleted_by_hand_or_doubled_is_once_in_raw_and_rollups(world: World, damage: str) -> None:
    world.damage(damage)
    world.replay(GPUS)


@pytest.mark.long
@pytest.mark.parametrize("stage", ["deleting", "step of landing"])
def test_a_crash_at_any_stage_loses_nothing_and_the_same_again_ends_it(world: World, stage: str) -> None:
    world.crash(GPUS, stage)
    found = audit(world.settings, looks=1).findings
    assert [each.kind for each in found] == ["replay"], "what it took out is not held against anything"
    assert "warpmeter replay --topic gpu-samples" in found[0].remedy
    outcome = world.replay(GPUS)
    assert outcome.done
    assert outcome.rows == sum(hour.in_table for hour in outcome.after) == world.sent * 4


@pytest.mark.long
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


@pytest.mark.long
def test_a_dry_run_and_a_no_change_nothing(world: World) -> None:
    world.command("ALTER TABLE host_samples DELETE WHERE cpu_util_permille < 10")
    had = world.snapshot()
    for outcome in (world.replay(HOSTS, dry_run=True), world.replay(HOSTS, Watching(answer=False))):
        assert not outcome.done
        assert any(hour.staged > hour.in_table for hour in outcome.hours)
    assert world.snapshot() == had
    world.replay(HOSTS)


@pytest.mark.long
@pytest.mark.parametrize("fuse", ["deleting", "landing"])
def test_what_ingest_landed_of_the_range_while_it_was_interrupted_stays(world: World, fuse: str) -> None:
    """Killed when it had begun to delete, with late samples of the same hours landed before the same command again."""
    world.crash(GPUS, fuse)
    if fuse == "landing":
        world.command("ALTER TABLE gpu_samples DELETE WHERE 1")
        world.command("RENAME TABLE replay_landing_gpu_samples TO replay_staged_gpu_samples")
    with closing(IngestProcess(world.settings, world.log)) as process:
        had, all_of = world.value("SELECT count() FROM gpu_samples"), "SELECT uniqExact(host, ts, gpu) FROM gpu_samples"
        world.send(5)
        until(lambda: world.value("SELECT count() FROM gpu_samples") == had + 20, f"late samples ({world.log})", 60)
        until(lambda: world.value("SELECT count() FROM job_events") == world.sent * 4, f"the others ({world.log})", 60)
        assert process.stop() == 0
    assert world.replay(GPUS).done
    assert world.value(all_of) == world.value("SELECT count() FROM gpu_samples") == world.sent * 4
    assert world.value("SELECT sum(samples) FROM gpu_heatmap_1h") == world.sent * 4
    again = world.snapshot()
    world.replay(GPUS)
    world.before = world.snapshot()
    assert world.before == again


@pytest.mark.long
def test_totals_count_what_ingest_landed_beside_the_range_while_it_was_interrupted(world: World) -> None:
    with pytest.raises(Crash):
        world.replay(JOBS, Watching("deleting"), wanted=widened(world.start, world.start + HOUR_S))
    world.send(30)
    world.ingest()
    world.before = world.snapshot()
    world.replay(JOBS, wanted=widened(world.start, world.start + HOUR_S))


class Sending(Watching):
    """Sends more of the same hours, and has them landed, once the topic was read."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    def stage(self, what: str, steps: int = 0) -> None:
        super().stage(what, steps)
        if what.startswith("comparing"):
            self.world.send(3)
            count = "SELECT count() FROM gpu_samples"
            until(lambda: self.world.value(count) == self.world.sent * 4, "late samples", 60)


@pytest.mark.long
def test_a_dry_run_beside_ingest_tells_of_no_losses_that_are_none(world: World) -> None:
    with closing(IngestProcess(world.settings, world.log)) as process:
        process.ready()
        outcome = world.replay(GPUS, Sending(world), dry_run=True)
        assert outcome.left_out
        assert [hour for hour in outcome.hours if hour.lost] == []
        again = world.replay(GPUS, dry_run=True)
        assert (again.left_out, again.rows) == ((), world.sent * 4), "what is landed and not settled is read, too"
        until(lambda: world.value("SELECT count() FROM job_events") == world.sent * 4, f"the others ({world.log})", 60)
        assert process.stop() == 0
    world.before = world.snapshot()


def test_what_ingest_had_declared_and_not_stored_is_stored_first(world: World) -> None:
    """As a kill between declare and insert leaves it; ingest goes on behind it."""
    world.send(3, [GPUS])
    ingest, found = world.settings.ingest, status.records(world.settings)
    assert ingest.ledger_dir is not None
    where, entry = next((place, each) for place, each in found.items() if place.topic.endswith(GPUS)
                        and isinstance(each, Settled) and each.next < ends(world, place))  # fmt: skip
    assert isinstance(entry, Settled)
    with closing(FileLedger(ingest.ledger_dir, ingest.group)) as ledger:
        ledger.declare([Declared(Span(where.topic, entry.uuid, where.number, entry.next, entry.next), time.time())])
    assert status.pending(world.settings)
    watching = Watching()
    assert world.replay(GPUS, watching).done
    assert any(f"{where} {entry.next}-{entry.next}" in stage for stage in watching.stages)
    assert status.pending(world.settings) == []
    assert world.value("SELECT count() FROM gpu_samples") == world.sent * 4 - 8
    world.send(3, [HOSTS, JOBS])
    world.sent -= 3
    world.ingest()
    assert world.value("SELECT sum(samples) FROM gpu_heatmap_1h") == world.sent * 4
    world.before = world.snapshot()


def ends(world: World, where: Partition) -> int:
    """The end of a partition, a lower bound."""
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    return status.offsets(bus.admin(world.settings.kafka), [where], latest)[where]


def test_it_refuses_while_ingest_is_at_work(world: World) -> None:
    with closing(IngestProcess(world.settings, world.log)) as process:
        process.ready()
        with pytest.raises(ReplayError, match="stop"):
            world.replay(GPUS)
        assert world.replay(GPUS, dry_run=True).messages == world.sent
        assert process.stop() == 0


@pytest.mark.long
def test_a_folder_of_the_ledger_that_cannot_be_used_is_one_line_and_somebodys_to_mend(
    world: World, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    elsewhere = replace(world.settings, ingest=replace(world.settings.ingest, ledger_dir=tmp_path / "file"))
    with pytest.raises(ReplayError, match=r"^cannot keep the ledger in .* it is no folder") as refused:
        replay(elsewhere, Asked(TOPICS[GPUS], world.wanted), Watching())
    with pytest.raises(typer.Exit) as ended, common.explained(ReplayError):
        raise refused.value
    assert ended.value.exit_code == HALTED


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
    gaps = queries.get("ingest_gaps").statement({})
    with closing(store.connect(world.settings.store)) as client:
        found = list(client.query(gaps.sql, dict(gaps.values)).named_results())
    assert found
    assert [(each["missing"], each["doubled"]) for each in found] == [(0, 0)] * len(found)
    ends = "SELECT min(first), max(last) FROM ingest_batches WHERE topic_uuid = '{}' AND partition = {}"
    assert world.query(ends.format(life, partition)) == [(first, last)]


def test_the_statements_for_a_cluster_are_understood(world: World) -> None:
    with closing(store.connect(world.settings.store)) as client:
        raw, made = rollups.read(client, world.settings.store, "job_events")
        cluster = replace(world.settings.store, cluster="fleet")
        asked = staging.Run("1", JOBS, "job_events", "g", world.wanted.start, world.wanted.end, 0.0)
        statements = [
            *rollups.deletes(cluster, raw, made, world.wanted),
            *(rows for table in made.totals for rows in totals.kept(cluster, asked, raw, table)),
            book.delete(cluster, asked),
            staging.creation(cluster, asked.name("loading"), raw.name, "ORDER BY ts", "{}"),
            staging.token_column(cluster, asked.name("loading"), staging.SPAN),
            staging.renaming(cluster, asked.name("loading"), asked.name("staged")),
            staging.dropping(cluster, asked.name("landing")),
        ]
        for statement in statements:
            client.command(f"EXPLAIN AST {statement}")
    assert sum("ON CLUSTER `fleet`" in statement for statement in statements) == len(statements) - 2 * len(made.totals)
