"""Migrations against the engine: they apply once, in order, under a lock; and what they make takes replays."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from threading import Barrier, Timer
from typing import Any

import pytest

from tests.tables import ask, land, one, row, token
from warpmeter import migrate
from warpmeter.migrate import MigrationError
from warpmeter.schema_lock import AT_WORK
from warpmeter.settings import Store
from warpmeter.store import ClickHouseError, Client, connect

pytestmark = pytest.mark.long

MIDNIGHT = time.time() // 86400 * 86400


def gpu(ts: float, number: int = 0, **fields: Any) -> Any:
    return row("gpu-samples", host="h", ts=ts, period_ms=1000, gpu=number, uuid=f"GPU-{number}", **fields)


# --- applying ----------------------------------------------------------------------------------------------------


def test_an_empty_store_is_brought_up_to_date_once(empty: Store, admin: Client) -> None:
    steps = migrate.apply(admin, empty)
    assert [step.name for step in steps if step.script] == [
        script.name for script in (*migrate.migrations(), *migrate.views())
    ]
    assert migrate.plan(admin, empty) == ()
    assert migrate.apply(admin, empty) == ()
    assert ask(admin, f"SELECT version FROM {empty.database}.schema_migrations WHERE version > 0 ORDER BY version") == [
        (script.version,) for script in migrate.migrations()
    ]


def test_a_plan_changes_nothing(empty: Store, admin: Client) -> None:
    assert migrate.plan(admin, empty)
    assert one(admin, "SELECT count() FROM system.databases WHERE name = {name:String}", name=empty.database) == 0


def test_a_half_applied_migration_is_run_again(empty: Store, admin: Client) -> None:
    admin.command(f"CREATE DATABASE {empty.database}")
    for statement in migrate.render(migrate.migrations()[0], empty)[:4]:
        admin.command(statement)
    migrate.apply(admin, empty)
    assert migrate.plan(admin, empty) == ()


def test_an_edited_migration_is_refused(empty: Store, admin: Client, own_tables: Client) -> None:
    name = migrate.migrations()[0].name
    own_tables.command(f"INSERT INTO schema_migrations VALUES (1, '{name}', 'other', now64() + 1, 'test')")
    with pytest.raises(MigrationError, match="its checksum differs"):
        migrate.plan(admin, empty)


def test_a_view_whose_text_changed_is_made_anew_with_all_after_it(
    empty: Store, admin: Client, own_tables: Client
) -> None:
    first, *_ = migrate.views()
    own_tables.command(f"INSERT INTO schema_migrations VALUES (0, '{first.name}', 'older', now64() + 1, 'test')")
    assert [step.name for step in migrate.plan(admin, empty)] == [script.name for script in migrate.views()]
    time.sleep(1.1)  # the record above is from the future, so that it is the latest for the plan
    migrate.apply(admin, empty)
    assert migrate.plan(admin, empty) == ()


def test_times_to_live_follow_the_settings(empty: Store, admin: Client, own_tables: Client) -> None:
    shorter = replace(empty, raw_ttl_days=3, hour_ttl_days=400)
    steps = migrate.apply(admin, shorter)
    assert {step.kind for step in steps} == {"ttl"}
    assert migrate.plan(admin, shorter) == ()
    made = one(
        own_tables, "SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = 'gpu_samples'"
    )
    assert "toIntervalDay(3)" in made
    kept = one(
        own_tables, "SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = 'gpu_last'"
    )
    assert f"toIntervalDay({empty.minute_ttl_days})" in kept


def test_nothing_is_changed_while_spans_are_pending(empty: Store, admin: Client) -> None:
    with pytest.raises(MigrationError, match=r"1 span\(s\) are declared but not stored \(gpu-samples/0: 5-9\)"):
        migrate.apply(admin, empty, pending=lambda: ["gpu-samples/0: 5-9"])
    assert one(admin, "SELECT count() FROM system.databases WHERE name = {name:String}", name=empty.database) == 0


def test_nothing_is_changed_while_a_consumer_runs(empty: Store, admin: Client) -> None:
    with pytest.raises(MigrationError, match="ingest runs"):
        migrate.apply(admin, empty, busy=lambda: "ingest runs: stop it")
    assert one(admin, "SELECT count() FROM system.databases WHERE name = {name:String}", name=empty.database) == 0


def test_a_consumer_that_came_since_the_first_look_is_seen_under_the_lock(
    empty: Store, admin: Client, own_tables: Client
) -> None:
    locked = one(
        own_tables, "SELECT count() FROM system.tables WHERE database = currentDatabase() AND name LIKE 'schema_lock%'"
    )
    seen: list[Any] = []

    def busy() -> str | None:
        seen.append(ask(own_tables, AT_WORK))
        return "ingest runs" if len(seen) == 2 else None

    with pytest.raises(MigrationError, match="ingest runs"):
        migrate.apply(admin, replace(empty, raw_ttl_days=2), busy=busy)
    assert (locked, seen) == (0, [[], [(migrate.holder(), 0)]])
    assert ask(own_tables, AT_WORK) == []
    assert migrate.plan(admin, replace(empty, raw_ttl_days=2))


def test_a_migration_that_met_an_error_stands_half_done_until_it_is_run_again(
    empty: Store, admin: Client, own_tables: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = migrate.migrations()
    later = f"{len(files) + 1:04}_later"
    monkeypatch.setattr(
        migrate, "migrations", lambda: (*files, migrate.Script(later, "SELECT no_such", len(files) + 1))
    )
    with pytest.raises(ClickHouseError):
        migrate.apply(admin, empty)
    assert ask(own_tables, AT_WORK) == [(migrate.holder(), 1)] == [(migrate.half_done(admin, empty), 1)]
    monkeypatch.setattr(migrate, "migrations", lambda: files)
    with pytest.raises(MigrationError, match="ingest runs"):
        migrate.apply(admin, empty, busy=lambda: "ingest runs")
    migrate.apply(admin, empty, pending=lambda: ["gpu-samples/0: 5-9"])
    assert (ask(own_tables, AT_WORK), migrate.half_done(admin, empty)) == ([], None)


def test_pending_spans_do_not_matter_when_there_is_nothing_to_change(
    empty: Store, admin: Client, own_tables: Client
) -> None:
    assert own_tables.database == empty.database
    assert migrate.apply(admin, empty, pending=lambda: ["gpu-samples/0: 5-9"]) == ()


def test_another_at_work_is_refused_in_the_end_and_a_dead_ones_lock_is_not(
    empty: Store, admin: Client, own_tables: Client
) -> None:
    shorter = replace(empty, raw_ttl_days=2)
    lock = f"{empty.database}.schema_lock_of_another"
    admin.command(f"CREATE TABLE {lock} (x UInt8) ENGINE = Memory COMMENT '{migrate.holder()}'")
    with pytest.raises(MigrationError, match=r"another migration is at work \(.+:\d+, for \d+ s\): wait"):
        migrate.apply(admin, shorter, wait_s=0.3)
    admin.command(f"DROP TABLE {lock}")
    admin.command(f"CREATE TABLE {lock} (x UInt8) ENGINE = Memory COMMENT 'elsewhere:1'")
    assert migrate.apply(admin, shorter)
    assert ask(own_tables, "SELECT name FROM system.tables WHERE name LIKE 'schema_lock%'") == []


def test_of_four_at_once_on_a_fresh_database_one_migrates_and_the_others_find_nothing_to_do(
    empty: Store, admin: Client
) -> None:
    together = Barrier(4, timeout=120)

    def one_of_four(_: int) -> int:
        planned: list[str] = []

        def pending() -> list[str]:
            if not planned:  # asked again under the lock, by the one that migrates
                planned.append("seen")
                together.wait()
            return []

        with closing(connect(empty, database="default")) as client:
            return len(migrate.apply(client, empty, pending))

    with ThreadPoolExecutor(4) as pool:
        steps = sorted(pool.map(one_of_four, range(4)))
    assert steps == [0, 0, 0, len(migrate.migrations()) + len(migrate.views()) + 1]  # and what views mean
    assert migrate.plan(admin, empty) == ()
    assert ask(admin, f"SHOW TABLES FROM {empty.database} LIKE 'schema_lock%'") == []


@pytest.mark.parametrize("name", ["0", "z"])
def test_a_migration_waits_for_another_be_its_lock_older_or_younger(
    name: str, empty: Store, admin: Client, own_tables: Client
) -> None:
    lock = f"{empty.database}.schema_lock_{name}"
    own_tables.command(f"CREATE TABLE {lock} (x UInt8) ENGINE = Memory COMMENT '{migrate.holder()}'")
    ending = Timer(0.5, lambda: own_tables.command(f"DROP TABLE {lock}"))
    ending.start()
    steps = migrate.apply(admin, replace(empty, raw_ttl_days=2))
    ending.join()
    assert {step.kind for step in steps} == {"ttl"}
    assert ask(admin, f"SHOW TABLES FROM {empty.database} LIKE 'schema_lock%'") == []


@pytest.mark.parametrize("script", [*migrate.migrations(), *migrate.views()], ids=lambda script: script.name)
def test_the_statements_for_a_cluster_are_understood(script: migrate.Script, admin: Client) -> None:
    statements = migrate.render(script, Store(cluster="fleet", database="w"))
    for statement in statements:
        admin.command(f"EXPLAIN AST {statement}")
        assert "ON CLUSTER `fleet`" in statement
    text = "\n".join(statements)
    if script.version and "CREATE TABLE" in text:
        assert "ReplicatedMergeTree" in text or "ReplicatedAggregatingMergeTree" in text
        assert "ENGINE = Distributed(`fleet`, `w`, `" in text
        assert " MergeTree" not in text


# --- what they make ----------------------------------------------------------------------------------------------

WHOLE = (
    ("gpu_samples", "count(), sum(sm_active_permille)"),
    ("gpu_heatmap_1m", "sum(samples), sum(sm_active_permille_sum)"),
    ("gpu_heatmap_1h", "sum(samples), sum(sm_active_permille_sum)"),
    ("fleet_windows_1m", "sum(samples), sum(sm_active_permille_sum)"),
    ("fleet_windows_1h", "sum(samples), sum(sm_active_permille_sum)"),
)


def totals(client: Client) -> list[tuple[Any, ...]]:
    return [ask(client, f"SELECT {what} FROM {table}")[0] for table, what in WHOLE]


def batch(seconds: int, sm_active: int, ends: float = MIDNIGHT) -> list[Any]:
    """Samples of two GPUs that end `seconds / 2` after midnight: an insert over two daily partitions."""
    start = ends - seconds / 2
    return [
        gpu(start + second, number, sm_active_permille=sm_active, job_ids=["a", "b"])
        for second in range(seconds)
        for number in (0, 1)
    ]


def test_a_replay_changes_no_table_and_no_rollup(tables: Client) -> None:
    for _ in range(3):
        land(tables, "gpu-samples", batch(100, 500), token(0, 9))
        land(tables, "gpu-samples", batch(60, 100), token(10, 19))
    assert totals(tables) == [(320, 200 * 500 + 120 * 100)] * len(WHOLE)
    (gpu_seconds,) = ask(tables, "SELECT sum(gpu_seconds) FROM job_windows_1h GROUP BY job_id LIMIT 1")[0]
    assert gpu_seconds == pytest.approx(320 / 2)


def test_a_replay_after_a_restart_of_the_store_changes_no_rollup(own_tables: Client) -> None:
    views = ask(
        own_tables, "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine = 'MaterializedView'"
    )
    land(own_tables, "gpu-samples", [gpu(MIDNIGHT, job_ids=["j"])], token(0, 0))
    before = stored(own_tables)
    for (view,) in views:  # as a restart does
        own_tables.command(f"DETACH TABLE {view}")
        own_tables.command(f"ATTACH TABLE {view}")
    land(own_tables, "gpu-samples", [gpu(MIDNIGHT, job_ids=["j"])], token(0, 0))
    assert stored(own_tables) == before


def stored(client: Client) -> dict[str, int]:
    """Rows of every table, before any merge: what a replay would add to."""
    client.command("SYSTEM STOP MERGES")
    tables = "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree'"
    return {name: one(client, f"SELECT count() FROM {name}") for (name,) in ask(client, tables)}


def test_what_landed_is_recorded_exactly(tables: Client) -> None:
    for _ in range(2):
        land(tables, "gpu-samples", batch(100, 500), token(0, 9))
        land(tables, "gpu-samples", batch(60, 500), token(10, 12, partition=3))
    land(tables, "host-samples", [row("host-samples", host="h", ts=MIDNIGHT)], token(7, 7))
    assert ask(
        tables,
        "SELECT table, topic_uuid, partition, first, last, rows, token, toUnixTimestamp(max_ts) FROM ingest_batches "
        "ORDER BY table, partition",
    ) == [
        ("gpu_samples", token(0, 0)[:36], 0, 0, 9, 200, token(0, 9), MIDNIGHT + 49),
        ("gpu_samples", token(0, 0)[:36], 3, 10, 12, 120, token(10, 12, partition=3), MIDNIGHT + 29),
        ("host_samples", token(0, 0)[:36], 0, 7, 7, 1, token(7, 7), MIDNIGHT),
    ]


def test_a_landed_span_is_recorded_once_whatever_day_its_replay_comes(tables: Client) -> None:
    key = one(
        tables, "SELECT partition_key FROM system.tables WHERE database = currentDatabase() AND name = 'ingest_batches'"
    )
    assert key == "toDate(max_ts)", "a partition by the time of the insert would store a replay after midnight again"


def test_an_insert_without_a_token_is_taken_and_says_so(tables: Client) -> None:
    land(tables, "gpu-samples", batch(10, 1))
    tables.command("INSERT INTO host_samples (host, ts) VALUES ('h', now())")
    assert ask(tables, "SELECT table, topic_uuid, token, rows FROM ingest_batches ORDER BY table") == [
        ("gpu_samples", "", "", 20),
        ("host_samples", "", "", 1),
    ]


def test_a_retry_after_a_view_failed_completes_without_doubling(own_tables: Client) -> None:
    own_tables.command("CREATE TABLE broken (x UInt8) ENGINE = Memory")
    own_tables.command(
        "CREATE MATERIALIZED VIEW breaking TO broken AS "
        "SELECT throwIf(sum(samples) > 0, 'on purpose') AS x FROM gpu_heatmap_1m"
    )
    with pytest.raises(ClickHouseError, match="on purpose"):
        land(own_tables, "gpu-samples", batch(100, 500), token(0, 9))
    own_tables.command("DROP TABLE breaking")
    land(own_tables, "gpu-samples", batch(100, 500), token(0, 9))
    assert totals(own_tables) == [(200, 200 * 500)] * len(WHOLE)
    assert ask(own_tables, "SELECT rows FROM ingest_batches") == [(200,)]


def test_half_a_million_rows_are_one_block(tables: Client) -> None:
    tables.command(
        "INSERT INTO gpu_samples (host, ts, gpu, period_ms) SELECT 'h', "
        "toDateTime64({noon:UInt32} + intDiv(number, 8), 3, 'UTC'), number % 8, 1000 FROM numbers(500000)",
        {"noon": int(MIDNIGHT) - 86400},
        settings={
            "max_insert_threads": 1,
            "max_block_size": 1_000_000_000,
            "min_insert_block_size_rows": 1_000_000_000,
            "min_insert_block_size_bytes": 0,
            "insert_deduplication_token": token(0, 9),
        },
    )
    assert ask(tables, "SELECT rows FROM ingest_batches") == [(500000,)]


REFUSED = {
    "no host": {"host": "", "ts": MIDNIGHT},
    "before 2020": {"host": "h", "ts": 1_500_000_000.0},
    "no time": {"host": "h"},
    "after 2100": {"host": "h", "ts": 4_200_000_000.0},
    "more than all": {"host": "h", "ts": MIDNIGHT, "sm_active_permille": 1001},
    "does not fit": {"host": "h", "ts": MIDNIGHT, "sm_active_permille": 70_000},
    "no number": {"host": "h", "ts": float("nan")},
}


@pytest.mark.parametrize("fields", REFUSED.values(), ids=REFUSED)
def test_table_and_judge_refuse_the_same(tables: Client, fields: dict[str, Any]) -> None:
    for table in ("gpu_samples", "gpu_samples_judge"):
        with pytest.raises(ClickHouseError):
            land(tables, "gpu-samples", [row("gpu-samples", **fields)], token(0, 0), table)
    assert one(tables, "SELECT count() FROM gpu_samples") == 0


def test_a_refusal_names_its_rule(tables: Client) -> None:
    with pytest.raises(ClickHouseError, match=r"Constraint `time_2020_to_2100`.*is violated"):
        land(tables, "gpu-samples", [gpu(0.0)], table="gpu_samples_judge")


def test_what_is_absent_is_taken_and_reads_null(tables: Client) -> None:
    land(
        tables, "gpu-samples", [gpu(MIDNIGHT), gpu(MIDNIGHT, 1, sm_active_permille=0, power_deciwatts=1234)], "t/0/0-1"
    )
    land(tables, "gpu-samples", [gpu(MIDNIGHT)], table="gpu_samples_judge")
    assert ask(
        tables, "SELECT sm_active_permille, sm_active, power_watts, gpu_instance FROM gpu_samples ORDER BY gpu"
    ) == [
        (None, None, None, None),
        (0, 0.0, 123.4, None),
    ]


def test_a_message_refused_twice_is_one_dead_letter(tables: Client) -> None:
    def letter(ts: float, offset: int, uuid: str = "u") -> Any:
        fields = {"topic": "warpmeter.gpu-samples", "topic_uuid": uuid, "partition": 1, "offset": offset, "ts": ts}
        return row("dead-letters", **fields, reason="host", key=b"k", value=b"\xff\x00", headers={"rows": "1"})

    land(tables, "dead-letters", [letter(MIDNIGHT - 5, 7)], token(0, 0))
    land(tables, "dead-letters", [letter(MIDNIGHT + 5, 7), letter(MIDNIGHT, 8), letter(MIDNIGHT, 7, "v")], token(1, 3))
    assert one(tables, "SELECT count() FROM dead_letters FINAL") == 3
    assert one(tables, "SELECT DISTINCT hex(value) FROM dead_letters") == "FF00"


def test_labels_in_another_order_are_the_same_series(tables: Client) -> None:
    for index, labels in enumerate(({"a": "1", "b": "2"}, {"b": "2", "a": "1"}, {"a": "2"})):
        sample = row("metric-samples", host="h", ts=MIDNIGHT, source="s", name="up", labels=labels, value=1.5)
        land(tables, "metric-samples", [sample], token(index, index))
    assert one(tables, "SELECT uniqExact(series) FROM metric_samples") == 2
