"""Migration 0004 on a database with data: nothing old is lost or doubled, and what is new rolls up beside it."""

import time
from contextlib import closing
from typing import Any, Final

import pytest

from tests.tables import ask, land, one, row, token
from warpmeter import migrate
from warpmeter.settings import Store
from warpmeter.store import Client, connect

MINUTE: Final = time.time() // 60 * 60 - 600
OLD: Final = {"sm_active_permille": 500, "power_deciwatts": 3000, "job_ids": ["a", "b"]}
NEW: Final = {**OLD, "graphics_active_permille": 250, "nvlink_crc_errors": 7, "job_share_permille": [900, 100]}


def gpus(second: int, **fields: Any) -> list[Any]:
    """Samples of two GPUs over ten seconds."""
    return [
        row("gpu-samples", host="h", ts=MINUTE + second + at, period_ms=1000, gpu=gpu, uuid=f"GPU-{gpu}", **fields)
        for at in range(10)
        for gpu in (0, 1)
    ]


def host(second: int, **fields: Any) -> list[Any]:
    return [row("host-samples", host="h", ts=MINUTE + second, period_ms=1000, cpu_util_permille=100, **fields)]


def event(second: int, **fields: Any) -> list[Any]:
    started = {"job_id": "a", "event": "running", "pid": 7, "started_at": MINUTE}
    return [row("job-events", host="h", ts=MINUTE + second, period_ms=10_000, **started, **fields)]


def land_old(client: Client) -> None:
    """What was stored before, under its tokens."""
    land(client, "gpu-samples", gpus(0, **OLD), token(0, 9))
    land(client, "host-samples", host(0), token(0, 0))
    land(client, "job-events", event(0, rank=3, labels={"queue": "night"}), token(0, 0, partition=1))
    land(client, "device-samples", [row("device-samples", host="h", ts=MINUTE, kind="nic", device="eth0")], token(2, 2))
    sample = row("metric-samples", host="h", ts=MINUTE, source="s", name="up", value=1.0)
    land(client, "metric-samples", [sample], token(4, 4))


@pytest.fixture(scope="module")
def upgraded(embedded: Store) -> Any:
    """A store that had 0001 to 0003 and rows, and was migrated then."""
    old = migrate.migrations()[:3]
    with pytest.MonkeyPatch.context() as patch, closing(connect(embedded, database="default")) as admin:
        patch.setattr(migrate, "migrations", lambda: old)
        patch.setattr(migrate, "views", tuple)
        assert [step.name for step in migrate.apply(admin, embedded)] == [script.name for script in old]
        with closing(connect(embedded)) as client:
            land_old(client)
        patch.undo()
        steps = [step.name for step in migrate.apply(admin, embedded) if step.script]
        assert steps == [script.name for script in (*migrate.migrations()[3:], *migrate.views())]
        assert migrate.plan(admin, embedded) == ()
    with closing(connect(embedded)) as client:
        yield client


def stored(client: Client) -> dict[str, list[tuple[Any, ...]]]:
    """Every table's rows before any merge, so that a doubled one is seen, however small."""
    tables = ask(
        client,
        "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree' "
        "AND name NOT LIKE 'schema_%'",
    )
    return {name: ask(client, f"SELECT count() FROM {name}") for (name,) in tables}


def test_old_rows_are_there_and_read_null(upgraded: Client) -> None:
    assert ask(
        upgraded,
        "SELECT count(), count(graphics_active), count(ecc_enabled), sum(length(job_share)), "
        f"sum(length(column_sources)) FROM gpu_samples WHERE ts < {MINUTE + 20}",
    ) == [(20, 0, 0, 0, 0)]
    assert ask(upgraded, f"SELECT oom_kills, cpu_util FROM host_samples WHERE ts = {MINUTE}") == [(None, 0.1)]
    assert ask(upgraded, "SELECT kind, unit, rate_per_s, value FROM metric_samples") == [("", "", None, 1.0)]
    assert ask(upgraded, "SELECT job_id, ranks, account FROM jobs") == [("a", [], "night")]
    window = f"since = {int(MINUTE)}, until = {int(MINUTE) + 60}, step_s = 60"
    assert ask(upgraded, f"SELECT gpu, values FROM gpu_heatmap(metric = 'graphics_active', {window}) ORDER BY gpu") == [
        (0, [None]),
        (1, [None]),
    ]


def test_a_replay_of_what_landed_before_changes_nothing(upgraded: Client) -> None:
    before = stored(upgraded)
    for _ in range(2):
        land_old(upgraded)
    new = {"device_kind_last": [(1,)]}  # which had not seen it
    assert stored(upgraded) == before | new
    assert one(upgraded, "SELECT sum(samples) FROM gpu_heatmap_1h") == 20


def test_new_rows_roll_up_beside_the_old_ones(upgraded: Client) -> None:
    for _ in range(2):  # and once more, as after a crash
        land(upgraded, "gpu-samples", gpus(20, **NEW), token(10, 19))
        land(upgraded, "host-samples", host(20, oom_kills=2), token(10, 10))
        land(upgraded, "job-events", event(20, ranks=[4, 5], labels={"queue": "night"}), token(10, 10, partition=1))
    for step in ("1m", "1h"):
        assert ask(
            upgraded,
            "SELECT sum(samples), sum(sm_active_permille_sum), sum(graphics_active_permille_count), "
            f"sum(graphics_active_permille_sum), max(nvlink_crc_errors_max) FROM gpu_heatmap_{step}",
        ) == [(40, 40 * 500, 20, 20 * 250, 7)]
        assert ask(
            upgraded, f"SELECT sum(samples), sum(oom_kills_count), max(oom_kills_max) FROM host_windows_{step}"
        ) == [(2, 1, 2)]
        found = ask(
            upgraded, f"SELECT job_id, sum(gpu_seconds) FROM job_windows_{step} GROUP BY job_id ORDER BY job_id"
        )
        assert found == [("a", pytest.approx(10 + 18)), ("b", pytest.approx(10 + 2))]
    assert ask(upgraded, "SELECT ranks, account FROM jobs WHERE job_id = 'a'") == [([4, 5], "night")]


def test_it_may_be_applied_again_when_it_stopped_half_way(embedded: Store, upgraded: Client) -> None:
    before = stored(upgraded)
    for statement in migrate.render(migrate.migrations()[3], embedded):
        upgraded.command(statement)
    assert stored(upgraded) == before


def test_memory_errors_stay_known_between_the_samples_that_have_them(upgraded: Client) -> None:
    known = "SELECT gpu, ecc_uncorrected_errors FROM gpus ORDER BY gpu"
    assert ask(upgraded, known) == [(0, None), (1, None)]  # of rows from before nothing is known
    land(upgraded, "gpu-samples", gpus(40, ecc_uncorrected_errors=3), token(20, 29))
    land(upgraded, "gpu-samples", gpus(50), token(30, 39))
    assert ask(upgraded, known) == [(0, 3), (1, 3)]
