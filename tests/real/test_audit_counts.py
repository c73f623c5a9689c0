"""The rollups that `warpmeter check` holds against their tables are all there are, and in the engine both are equal."""

import time
from datetime import UTC, date, datetime, timedelta
from typing import Any

from tests.tables import ask, land, one, row, token
from warpmeter.consumers.audit import counts
from warpmeter.consumers.audit.counts import ROLLUPS, Counts, rolled_up
from warpmeter.schemas.topics import TOPICS
from warpmeter.store import Client

NOW = time.time() // 60 * 60
TODAY = datetime.fromtimestamp(NOW - 86_400, UTC).date()


def rows(topic: str, count: int, **fields: Any) -> list[Any]:
    return [row(topic, host="h", ts=NOW - number, period_ms=1000, **fields) for number in range(count)]


def compared(client: Client) -> list[counts.Compared]:
    look = Counts(client, TODAY)
    return [
        rolled_up(each, look.counted(each), look.windows(each), look.windows(each), look.whole_since(each))
        for each in ROLLUPS
    ]


def test_every_rollup_that_counts_samples_or_seconds_is_held_against_its_table(tables: Client) -> None:
    found = ask(
        tables,
        "SELECT DISTINCT table FROM system.columns WHERE database = currentDatabase() "
        "AND name IN ('samples', 'gpu_seconds') AND table IN (SELECT name FROM system.tables WHERE "
        "database = currentDatabase() AND engine LIKE '%MergeTree')",
    )
    raw = {topic.table for topic in TOPICS.values()}  # of sampled stacks the raw rows have `samples` as well
    assert {each.name for each in ROLLUPS} == {name for (name,) in found} - raw


def test_what_lands_is_the_same_in_table_and_rollups_and_what_is_taken_out_of_either_is_found(tables: Client) -> None:
    land(tables, "gpu-samples", rows("gpu-samples", 120, uuid="G", job_ids=["a", "b", "c"]), token(0, 9))
    land(tables, "gpu-samples", rows("gpu-samples", 7, uuid="H"), token(10, 19))
    land(tables, "host-samples", rows("host-samples", 5), token(0, 0))
    land(tables, "device-samples", rows("device-samples", 3, kind="nic", rx_kilobytes_per_s=1), token(0, 0))
    land(tables, "device-samples", rows("device-samples", 3, kind="nic", device="unknown"), token(1, 1))
    stacks = rows("stack-samples", 4, source="py-spy", unit="microseconds", stack=7, samples=19, weight=1_000_000)
    land(tables, "stack-samples", stacks, token(0, 0))
    assert [each for each in compared(tables) if each.wrong] == []
    assert all(each.days for each in compared(tables))
    tables.command("DELETE FROM gpu_samples WHERE uuid = 'H'")
    tables.command("DELETE FROM host_windows_1h WHERE 1")
    wrong = {(each.table, each.against) for each in compared(tables) if each.wrong}
    assert wrong == {
        *(("gpu_samples", f"{name}_{step}") for name in ("gpu_heatmap", "fleet_windows") for step in ("1m", "1h")),
        ("host_samples", "host_windows_1h"),
    }


def test_hours_that_differ_are_named(tables: Client) -> None:
    land(tables, "gpu-samples", rows("gpu-samples", 9, uuid="I"), token(20, 29))
    look = Counts(tables, TODAY)
    rollup = next(each for each in ROLLUPS if each.name == "gpu_heatmap_1h" and each.raw == "count()")
    day = datetime.fromtimestamp(NOW, UTC).date()
    hour = int(NOW - 1) // 3600 * 3600
    before = look.hours(rollup, day)
    tables.command("DELETE FROM gpu_samples WHERE uuid = 'I'")
    assert any(run.start <= hour < run.end for run in look.hours(rollup, datetime.fromtimestamp(hour, UTC).date()))
    assert not any(run.start <= hour < run.end for run in before)


def test_a_rollup_that_was_made_over_rows_is_compared_from_the_day_after(tables: Client) -> None:
    rollup = next(each for each in ROLLUPS if each.version)
    assert Counts(tables, date(2020, 1, 1)).whole_since(rollup) == date(2020, 1, 1)
    made = one(
        tables, "SELECT toDate(max(applied_at)) FROM schema_migrations WHERE version = {v:UInt32}", v=rollup.version
    )
    land(tables, "device-samples", rows("device-samples", 3, rx_kilobytes_per_s=1), token(0, 0))
    tables.command(
        "ALTER TABLE ingest_batches UPDATE inserted_at = inserted_at - INTERVAL 9 DAY WHERE 1",
        settings={"mutations_sync": 2},
    )
    assert Counts(tables, date(2020, 1, 1)).whole_since(rollup) == made + timedelta(days=1)
