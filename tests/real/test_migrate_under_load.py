"""Migrations while samples come: they refuse while anything is under way, nothing is declared while they are at work,
and what was deleted lands again."""

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.brokers import Broker, KafkaCluster, Tansu
from tests.engine import EngineServer
from tests.ingest_bench import HALTED, Bench, make_bench
from tests.ingest_process import GPUS, Feed, migrated
from tests.wait import until
from warpmeter import launch, migrate
from warpmeter.cli import doctor, migrating
from warpmeter.consumers import status
from warpmeter.consumers.audit.run import audit
from warpmeter.settings import Settings

SLOW_S: Final = 90.0
LOCK: Final = "schema_lock_0000000000000_of_another"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineServer]:
    with closing(EngineServer(tmp_path / "data")) as server:
        yield migrated(server)


@contextmanager
def load(feed: Feed) -> Iterator[None]:
    """Samples all the time; all of them are acknowledged at its end."""
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.05):
            feed.good(5)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def changed(settings: Settings) -> Settings:
    """Settings that need one change of the tables."""
    return replace(settings, store=replace(settings.store, raw_ttl_days=9))


def one_more(settings: Settings) -> migrate.Script:
    """A migration of a later version: a column, and a rollup's view made anew, as a change of its query needs it."""
    files = migrate.migrations()
    made = next(
        statement
        for script in files
        for statement in migrate.render(script, settings.store)
        if re.search(r"CREATE MATERIALIZED VIEW.*gpu_heatmap_1m_mv", statement)
    )
    database = migrate.identifier(settings.store.database)
    text = (
        f"ALTER TABLE {database}.gpu_samples ADD COLUMN IF NOT EXISTS later Nullable(UInt8);\n"
        f"DROP TABLE IF EXISTS {database}.gpu_heatmap_1m_mv SYNC;\n{made};\n"
    )
    return migrate.Script(f"{len(files) + 1:04}_later", text, len(files) + 1)


def rolled_up(at: Bench) -> set[int]:
    """Samples in every rollup of minutes and hours."""
    rollups = ("gpu_heatmap_1m", "gpu_heatmap_1h", "fleet_windows_1m", "fleet_windows_1h")
    return {at.table.value(f"SELECT sum(samples) FROM {rollup}") for rollup in rollups}


def settles(at: Bench) -> None:
    """Start ingest until all that was sent is in and settled, and stop it."""
    with closing(at.start()) as process:
        at.table.reaches(at.feed.sent, process, within_s=SLOW_S)
        until(lambda: status.pending(at.settings) == [], "all to be settled", SLOW_S)
        process.stop(60)


@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_migrate_refuses_while_ingest_runs_or_has_left_spans_and_passes_after(
    kafka: KafkaCluster, engine: EngineServer, topic_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = make_bench(kafka, engine, topic_prefix, tmp_path)
    with load(at.feed):
        with closing(at.start(settle_after_s=1e9)) as process:
            at.table.reaches(40, process, within_s=SLOW_S)
            assert audit(at.settings).findings == [], "check may look while all of it moves"
            with pytest.raises(migrate.MigrationError, match=r"ingest runs, group .* has 1 member\(s\): stop it"):
                migrating.run(changed(at.settings))
            process.kill()
        until(lambda: status.group_members(at.settings) == 0, "the session of the killed one to end", SLOW_S)
        tokens = status.pending(at.settings)
        assert tokens
        with pytest.raises(migrate.MigrationError, match="declared but not stored") as refused:
            migrating.run(changed(at.settings))
        assert all(token in str(refused.value) for token in tokens[:3])
        assert "let `warpmeter ingest` finish them" in str(refused.value)
    settles(at)
    with load(at.feed):
        files = (*migrate.migrations(), one_more(at.settings))
        monkeypatch.setattr(migrate, "migrations", lambda: files)
        migrating.run(changed(at.settings))
        assert at.table.value("SELECT count() FROM system.columns WHERE table = 'gpu_samples' AND name = 'later'") == 1
        with closing(at.start()) as process:
            at.table.reaches(at.feed.sent, process, within_s=SLOW_S)
            process.kill()
    settles(at)
    at.once()
    at.spans_meet()
    assert rolled_up(at) == {at.feed.sent}
    assert audit(at.settings).findings == []


def test_a_consumer_that_starts_while_a_migration_is_at_work_declares_nothing_until_it_is_done(
    broker: Broker, engine: EngineServer, topic_prefix: str, tmp_path: Path
) -> None:
    at = make_bench(broker, engine, topic_prefix, tmp_path)
    at.feed.good(20)
    with engine.client(write=True) as client:
        client.command(f"CREATE TABLE {LOCK} (x UInt8) ENGINE = Memory COMMENT 'elsewhere:1'")
    with closing(at.start()) as process:
        until(lambda: "a migration is at work (elsewhere:1)" in process.said(), "ingest to wait", SLOW_S)
        assert (at.table.rows(), status.records(at.settings)) == (0, {})
        with pytest.raises(migrate.MigrationError, match="ingest runs"):
            migrating.run(changed(at.settings))
        with engine.client(write=True) as client:
            client.command(f"DROP TABLE {LOCK}")
        at.table.reaches(at.feed.sent, process, within_s=SLOW_S)
        process.stop(60)
    at.once()


@pytest.mark.long
def test_what_was_deleted_lands_again_when_the_same_bytes_come_again(
    broker: Broker, engine: EngineServer, topic_prefix: str, tmp_path: Path
) -> None:
    at = make_bench(broker, engine, topic_prefix, tmp_path)
    envelopes = [at.feed.envelope(4, GPUS) for _ in range(20)]
    with closing(at.start()) as process:
        for _ in range(2):
            for envelope in envelopes:
                at.feed.put(envelope)
            at.feed.flush()
            at.table.reaches(at.feed.sent, process, within_s=SLOW_S)
            until(lambda: rolled_up(at) == {at.feed.sent}, "the rollups", SLOW_S)
            at.once()
            with engine.client(write=True) as client:
                for table in (
                    "gpu_samples",
                    "gpu_heatmap_1m",
                    "gpu_heatmap_1h",
                    "fleet_windows_1m",
                    "fleet_windows_1h",
                ):
                    client.command(f"DELETE FROM {table} WHERE 1")
            assert (at.table.rows(), rolled_up(at)) == (0, {0})
        process.stop(60)


@pytest.mark.long
def test_after_a_killed_migration_ingest_halts_until_it_is_finished(
    tansu: Tansu, topic_prefix: str, tmp_path: Path
) -> None:
    with closing(EngineServer(tmp_path / "data")) as server:
        at = make_bench(tansu, server, topic_prefix, tmp_path)
        server.make_database()
        with (tmp_path / "killed.log").open("wb") as log:
            assert launch.spawn("tests.real.killed_migration", at.settings, log=log).wait(120) == -signal.SIGKILL
        at.feed.good(10)
        with closing(at.start()) as process:
            until(lambda: "a migration is at work" in process.said(), "ingest to wait for the lock", SLOW_S)
            with server.client(write=True) as client:  # as after ten minutes
                ((lock,),) = client.query("SELECT name FROM system.tables WHERE name LIKE 'schema_lock%'").result_rows
                client.command(f"DROP TABLE {lock}")
            assert process.ended() == HALTED
            assert "the tables are half migrated" in process.said()
            assert "run `warpmeter migrate`" in process.said()
        found = doctor.tables(at.settings)
        assert (found.verdict, "half done" in found.seen) == ("failed", True)
        migrating.run(at.settings)
        assert doctor.tables(at.settings).verdict == "ok"
        settles(at)
        at.once()
