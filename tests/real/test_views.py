"""The views that people read, on small known data: states, jobs over hosts, idle GPUs, heatmaps at every grain."""

import time
from typing import Any

import pytest

from tests.tables import ask, land, one, row, token
from warpmeter import queries
from warpmeter.cli.status import FRESHNESS
from warpmeter.producers.health import Board
from warpmeter.producers.source import Health
from warpmeter.store import Client

NOW = float(int(time.time()))


@pytest.fixture(autouse=True)
def _ages_count_from_the_tests_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.NOW", float(int(time.time())))


def gpu(ts: float, host: str = "a", number: int = 0, **fields: Any) -> Any:
    """A sample of GPU `number`, whose uuid names its host too."""
    return row("gpu-samples", host=host, ts=ts, period_ms=1000, gpu=number, uuid=f"GPU-{host}{number}", **fields)


def host(ts: float, name: str = "a", **fields: Any) -> Any:
    return row("host-samples", host=name, ts=ts, period_ms=1000, **fields)


def health(ts: float, source: str, state: str, subject: str = "", name: str = "a", why: str = "") -> Any:
    return row(
        "source-health", host=name, ts=ts, period_ms=10_000, source=source, subject=subject, state=state, why=why
    )


def event(ts: float, what: str, name: str = "a", pid: int = 7, job_id: str = "j", **fields: Any) -> Any:
    fields = {"name": "train.py", "command": "python train.py", "user": "ann", "started_at": NOW - 500, **fields}
    return row("job-events", host=name, ts=ts, period_ms=10_000, job_id=job_id, event=what, pid=pid, **fields)


# --- sources, GPUs, hosts ----------------------------------------------------------------------------------------


def test_a_sources_last_word_counts(tables: Client) -> None:
    land(tables, "source-health", [health(NOW - 30, "gpu", "failed", why="driver"), health(NOW - 20, "gpu", "ok")])
    land(tables, "source-health", [health(NOW - 10, "gpu", "failed", "GPU-a0/fan_permille", why="no answer")])
    land(tables, "source-health", [health(NOW - 900, "host", "ok", name="b")])
    assert ask(tables, "SELECT host, source, subject, state, why, silent FROM source_health_now ORDER BY ALL") == [
        ("a", "gpu", "", "ok", "", 0),
        ("a", "gpu", "GPU-a0/fan_permille", "failed", "no answer", 0),
        ("b", "host", "", "ok", "", 1),
    ]


def test_what_a_host_does_not_have_is_said_each_ten_minutes_and_stands_in_between(tables: Client) -> None:
    """The agent's own board, its rows landed as they come: at the start, and what it repeats in half an hour."""
    board, began = Board("a", 10.0), NOW - 1795 - (NOW - 1795) % 10
    land(tables, "source-health", board.report("gpu", began, 0.1, subjects=[Health("GPU-a0/fan", "unsupported")]))
    for ts in range(int(began), int(NOW), 10):
        if rows := [row for row in board.rows(float(ts)) if row.subject]:
            land(tables, "source-health", rows)
    assert ask(tables, "SELECT count() BETWEEN 4 AND 6 FROM source_health WHERE subject != ''") == [(1,)]
    assert ask(tables, "SELECT subject, state, silent FROM source_health_now WHERE subject != ''") == [
        ("GPU-a0/fan", "unsupported", 0)
    ]


def test_what_an_earlier_agent_said_holds_no_longer_where_the_next_one_does_not_say_it(tables: Client) -> None:
    """Two agents' own boards, one after the other, as a restart is: nobody says that what the first met is over."""
    paused, denied = Health("rate", "paused", "it was slow"), Health("processes/denied", "denied", "CAP_SYS_PTRACE")
    for began, told in ((NOW - 150, [paused, Health("perf", "denied")]), (NOW - 40, [denied])):
        board = Board("a", 10.0)
        land(tables, "source-health", board.report("stacks", began, 0.1, subjects=told))
        for ago in range(0, 50, 10):
            land(tables, "source-health", board.rows(began + ago))
    land(tables, "source-health", [health(NOW - 10, "other", "failed", "x")])
    land(tables, "host-samples", [host(NOW - 1)])
    now = "SELECT source, subject, state FROM source_health_now WHERE NOT silent AND subject != '' ORDER BY ALL"
    assert ask(tables, now) == [("other", "x", "failed"), ("stacks", "processes/denied", "denied")]
    problems = ["other x: failed", "stacks processes/denied: denied"]
    assert ask(tables, "SELECT arraySort(problems) FROM hosts") == [(problems,)]
    asked = queries.get("host_sources").statement({"host": "a"})
    found = tables.query(asked.sql, parameters=dict(asked.values)).result_rows
    assert [tuple(line[:3]) for line in found] == [
        ("stacks", "processes/denied", "denied"),
        ("other", "x", "failed"),
        ("stacks", "", "ok"),
    ]


def test_a_sample_that_an_agent_sent_twice_is_two_rows_and_can_be_found(tables: Client) -> None:
    """What a killed agent leaves: the raw table and the rollups count it twice, minimum and maximum do not change."""
    for offset in range(2):
        land(tables, "gpu-samples", [gpu(NOW - 3, power_deciwatts=1000)], token(offset, offset))
    land(tables, "gpu-samples", [gpu(NOW - 3, number=1, power_deciwatts=3000)])
    twice = "SELECT host, gpu, uuid, ts, count() FROM gpu_samples WHERE host = 'a' GROUP BY ALL HAVING count() > 1"
    assert [(row[1], row[4]) for row in ask(tables, twice)] == [(0, 2)]
    rolled = "SELECT gpu, sum(samples), max(power_deciwatts_max) FROM gpu_heatmap_1m GROUP BY gpu ORDER BY gpu"
    assert ask(tables, rolled) == [(0, 2, 1000), (1, 1, 3000)]


def test_gpus_are_ok_gone_or_silent(tables: Client) -> None:
    land(tables, "gpu-samples", [gpu(NOW - age, number=number) for number, age in enumerate((1, 30, 30, 900))])
    land(tables, "source-health", [health(NOW - 20, "gpu", "gone", "GPU-a1", why="fell off the bus")])
    land(tables, "source-health", [health(NOW - 40, "gpu", "gone", "GPU-a2")])  # and came back
    assert ask(tables, "SELECT gpu, state, why FROM gpus ORDER BY gpu") == [
        (0, "ok", ""),
        (1, "gone", "fell off the bus"),
        (2, "ok", ""),
        (3, "silent", ""),
    ]


def test_a_gpus_values_are_those_of_its_latest_sample(tables: Client) -> None:
    late: dict[str, Any] = {
        "sm_active_permille": 250,
        "power_deciwatts": 3001,
        "fb_used_mebibytes": 2,
        "job_ids": ["j", "k"],
    }
    land(tables, "gpu-samples", [gpu(NOW - 1, **late)])
    land(tables, "gpu-samples", [gpu(NOW - 2, sm_active_permille=999, temperature_celsius=50)])
    assert ask(tables, "SELECT sm_active, power_watts, fb_used_bytes, job_ids, temperature_celsius FROM gpus") == [
        (0.25, 300.1, 2 << 20, ["j", "k"], None)
    ]


def test_hosts_are_ok_failing_or_silent(tables: Client) -> None:
    fields: dict[str, Any] = {"cores": 64, "cpu_util_permille": 125, "mem_total_mebibytes": 1024, "load1_centi": 150}
    land(tables, "host-samples", [host(NOW - 1, name, **fields) for name in "abc"] + [host(NOW - 900, "d")])
    land(tables, "gpu-samples", [gpu(NOW - 1, number=0, gpu_util_permille=500, power_deciwatts=1000)])
    land(tables, "gpu-samples", [gpu(NOW - 1, number=1, gpu_util_permille=100, power_deciwatts=500), gpu(NOW - 5, "e")])
    land(tables, "source-health", [health(NOW - 1, "devices", "denied", name="b"), health(NOW, "x", "unsupported")])
    land(tables, "gpu-samples", [gpu(NOW - 9, "c")])
    land(tables, "source-health", [health(NOW - 1, "gpu", "gone", "GPU-c0", name="c")])
    assert ask(tables, "SELECT host, state, gpus, gpus_gone, problems FROM hosts ORDER BY host") == [
        ("a", "ok", 2, 0, []),
        ("b", "failing", 0, 0, ["devices: denied"]),
        ("c", "failing", 1, 1, []),
        ("d", "silent", 0, 0, []),
        ("e", "ok", 1, 0, []),
    ]
    assert ask(
        tables, "SELECT cores, cpu_util, mem_total_bytes, load1, gpu_util, gpu_power_watts FROM hosts WHERE host = 'a'"
    ) == [(64, 0.125, 1 << 30, 1.5, pytest.approx(0.3), pytest.approx(150.0))]


def test_a_sample_of_a_clock_that_is_ahead_is_none_of_now(tables: Client) -> None:
    """One stood for the host until its time had come: ok for years, though nobody said anything."""
    ages = {"right": (1,), "was": (1, -9000), "down": (900, -9000), "is": (-9000,), "a bit": (-1800,)}
    for name, each in ages.items():
        for age in each:
            land(tables, "host-samples", [host(NOW - age, name)])
            land(tables, "gpu-samples", [gpu(NOW - age, name)])
            land(tables, "source-health", [health(NOW - age, "devices", "denied", name=name)])
    assert ask(tables, "SELECT host, state, toUnixTimestamp(last_seen_at) FROM hosts ORDER BY host") == [
        ("a bit", "failing", NOW + 1800),
        ("down", "silent", NOW - 900),
        ("is", "silent", NOW + 9000),
        ("right", "failing", NOW - 1),
        ("was", "ok", NOW - 1),
    ]
    assert ask(tables, "SELECT host FROM gpus WHERE state = 'ok' ORDER BY host") == [("a bit",), ("right",)]
    assert ask(tables, "SELECT host FROM source_health_now WHERE NOT silent ORDER BY host") == [("a bit",), ("right",)]
    behind = {row[0]: row[-1] for row in ask(tables, FRESHNESS)}
    assert behind["host_samples"] == pytest.approx(-1800, abs=600)


def test_a_gpu_that_is_harmed_fails_and_so_does_its_host(tables: Client) -> None:
    busy: dict[str, Any] = {"gpu_util_permille": 900}
    hot, limited, braked = 0x60, 0x4 | 0x1, 0x8 | 0x80
    slow = {"hot": hot, "limited": limited, "braked": braked, "errors": 0, "mended": 0, "xid": 0}
    land(tables, "gpu-samples", [gpu(NOW - 1, name, throttle_reasons=bits, **busy) for name, bits in slow.items()])
    known = {"errors": (0, 2), "mended": (2, 0)}  # read each 10 s: what is known is older than the latest sample
    for age, at in ((30, 0), (5, 1)):
        errors = {name: counts[at] for name, counts in known.items()}
        land(tables, "gpu-samples", [gpu(NOW - age, name, ecc_uncorrected_errors=n) for name, n in errors.items()])
    xid = {"host": "xid", "ts": NOW - 60, "gpu": 0, "uuid": "GPU-xid0", "kind": "xid", "code": 79}
    land(tables, "gpu-events", [row("gpu-events", **xid, state="raised")])
    told = {
        "braked": ["hw_slowdown", "hw_power_brake_slowdown"],
        "errors": ["2 uncorrectable memory errors"],
        "hot": ["sw_thermal_slowdown", "hw_thermal_slowdown"],
        "limited": [],  # by its power limit, as is usual
        "mended": [],  # the driver was loaded anew
        "xid": ["XID 79"],
    }
    states = {name: "failing" if problems else "busy" for name, problems in told.items()}
    assert ask(tables, "SELECT host, status, problems FROM gpu_statuses ORDER BY host") == [
        (name, states[name], problems) for name, problems in told.items()
    ]
    assert ask(tables, "SELECT host, state, problems FROM hosts ORDER BY host") == [
        (name, "failing" if problems else "ok", sorted(f"GPU 0: {each}" for each in problems))
        for name, problems in told.items()
    ]


# --- jobs --------------------------------------------------------------------------------------------------------


def test_a_job_is_one_row_over_its_hosts_and_ranks(tables: Client) -> None:
    use: dict[str, Any] = {
        "processes": 3,
        "cpu_cores_milli": 1500,
        "rss_mebibytes": 100,
        "read_bytes": 10,
        "gpu_memory_mebibytes": 5,
    }
    held: dict[str, Any] = {
        "gpus": [0, 1],
        "gpu_uuids": ["GPU-a0", "GPU-a1"],
        "world_size": 2,
        "labels": {"account": "x"},
    }
    land(tables, "job-events", [event(NOW - 60, "started", rank=0), event(NOW - 60, "started", "b", 8, rank=1)])
    land(tables, "job-events", [event(NOW - 20, "running", rank=0, **use, **held)])
    land(tables, "job-events", [event(NOW - 10, "running", rank=0, **{**use, "rss_mebibytes": 50}, **held)])
    land(tables, "job-events", [event(NOW - 10, "running", "b", 8, gpus=[0], gpu_uuids=["GPU-b0"], **use)])
    assert ask(
        tables,
        "SELECT job_id, name, command, user, state, hosts, pids, gpus, gpu_uuids, world_size, cpu_cores, rss_bytes, "
        "processes, read_bytes, rss_bytes_max, ended_at, toUnixTimestamp(started_at), labels FROM jobs",
    ) == [
        (
            *("j", "train.py", "python train.py", "ann", "running", ["a", "b"], [7, 8]),
            *(3, ["GPU-a0", "GPU-a1", "GPU-b0"], 2, 3.0, 150 << 20, 6, 30, 200 << 20, None, NOW - 500),
            {"account": "x"},
        )
    ]
    assert one(tables, "SELECT cpu_core_seconds FROM jobs") == pytest.approx(3 * 1.5 * 10)


def test_a_job_has_ended_when_all_its_trees_have(tables: Client) -> None:
    land(tables, "job-events", [event(NOW - 30, "running"), event(NOW - 30, "running", "b", rss_mebibytes=1)])
    land(tables, "job-events", [event(NOW - 20, "ended")])
    assert ask(tables, "SELECT state, ended_at FROM jobs") == [("running", None)]
    land(tables, "job-events", [event(NOW - 10, "ended", "b")])
    assert ask(tables, "SELECT state, toUnixTimestamp(assumeNotNull(ended_at)) FROM jobs") == [("ended", NOW - 10)]
    assert one(tables, "SELECT rss_bytes FROM jobs") == 1 << 20


def test_a_job_whose_host_went_silent_is_lost_and_then_ended_when_it_was_last_heard_of(tables: Client) -> None:
    land(tables, "job-events", [event(NOW - 300, "running"), event(NOW - 300, "running", "b", job_id="half")])
    land(tables, "job-events", [event(NOW - 5, "running", "c", job_id="half")])
    land(tables, "job-events", [event(NOW - 900, "ended", job_id="done")])
    land(tables, "job-events", [event(NOW - 900, "running", job_id="gone"), event(NOW - 890, "ended", "b", 8, "gone")])
    found = "SELECT job_id, state, hosts_lost, toUnixTimestamp(ended_at) FROM jobs ORDER BY job_id"
    assert ask(tables, found) == [
        ("done", "ended", [], NOW - 900),
        ("gone", "ended", ["a"], NOW - 890),
        ("half", "running", ["b"], None),
        ("j", "lost", ["a"], None),
    ]
    land(tables, "job-events", [event(NOW - 1, "running", job_id="gone")])
    assert ask(
        tables,
        f"SELECT state, ended_at FROM ({found.replace('toUnixTimestamp(ended_at)', 'ended_at')}) WHERE job_id = 'gone'",
    ) == [("running", None)]  # its agent came back


def test_a_job_that_only_started_is_there(tables: Client) -> None:
    land(tables, "job-events", [event(NOW - 5, "started")])
    assert ask(tables, "SELECT state, cpu_cores, rss_bytes, gpus FROM jobs") == [("running", None, None, 0)]


def test_efficiency_shares_a_gpu_between_its_jobs(tables: Client) -> None:
    minute = NOW // 60 * 60 - 600
    busy: dict[str, Any] = {"gpu_util_permille": 800, "sm_active_permille": 400, "power_deciwatts": 5000}
    alone = [gpu(minute + second, number=0, job_ids=["j"], **busy) for second in range(60)]
    both = [gpu(minute + second, number=1, job_ids=["j", "k"], gpu_util_permille=0) for second in range(60)]
    land(tables, "gpu-samples", alone + both)
    land(tables, "job-events", [event(minute, "running", cpu_cores_milli=2000, gpu_uuids=["GPU-a0", "GPU-a1"])])
    (found,) = ask(
        tables,
        "SELECT name, gpus, gpu_hours * 3600, wasted_gpu_hours * 3600, wasted, gpu_util, sm_active, tensor_active, "
        "power_watts, energy_joules, cpu_cores FROM job_efficiency WHERE job_id = 'j'",
    )
    assert found[:2] == ("train.py", 2)
    assert found[2:7] == (*map(pytest.approx, (90, 30, 1 / 3, 0.8 * 60 / 90, 0.4)),)
    assert found[7] is None
    assert found[8:] == (*map(pytest.approx, (500, 30_000, 2)),)
    assert one(tables, "SELECT gpu_hours * 3600 FROM job_efficiency WHERE job_id = 'k'") == pytest.approx(30)


def test_idle_gpus_are_those_that_hold_nothing_busy(tables: Client) -> None:
    def over(number: int, busy_until: float, **fields: Any) -> list[Any]:
        return [
            gpu(NOW - age, number=number, gpu_util_permille=900 if age > busy_until else 20, **fields)
            for age in range(100, 0, -1)
        ]

    land(
        tables, "gpu-samples", over(0, 60, job_ids=["j"], power_deciwatts=700) + over(1, 0) + over(2, 100) + over(3, 9)
    )
    land(tables, "gpu-samples", [gpu(NOW - 1, number=4), gpu(NOW - 900, number=5, gpu_util_permille=0)])
    land(tables, "job-events", [event(NOW - 5, "running")])
    assert ask(
        tables, "SELECT gpu, job_id, job_name, user, toUnixTimestamp(idle_since), idle_s FROM idle_gpus ORDER BY gpu"
    ) == [(0, "j", "train.py", "ann", NOW - 61, 60.0), (2, "", "", "", NOW - 100, 99.0)]


def test_a_gpu_without_utilisation_is_judged_by_its_multiprocessors(tables: Client) -> None:
    mig = [gpu(NOW - age, sm_active_permille=0) for age in range(60)]
    land(tables, "gpu-samples", mig + [gpu(NOW - age, number=1) for age in range(60)])
    assert ask(tables, "SELECT gpu FROM idle_gpus") == [(0,)]


# --- heatmaps ----------------------------------------------------------------------------------------------------


def heatmap(client: Client, metric: str, since: float, until: float, step_s: int, view: str = "") -> list[Any]:
    sql = (
        f"SELECT gpu, toUnixTimestamp(start), values FROM gpu_heatmap{view}(metric = '{metric}', "
        f"since = {since:.0f}, until = {until:.0f}, step_s = {step_s}) ORDER BY gpu "
        "SETTINGS optimize_aggregation_in_order = 1"
    )
    return ask(client, sql)


def test_a_heatmap_has_one_array_a_gpu_and_null_where_nothing_is_known(tables: Client) -> None:
    start = NOW // 3600 * 3600 - 7200
    rows = [gpu(start + second, sm_active_permille=second % 100, power_deciwatts=1234) for second in range(0, 300)]
    rows += [gpu(start + second, number=1) for second in range(0, 60)]
    land(tables, "gpu-samples", rows[:77])
    land(tables, "gpu-samples", rows[77:])
    minute = [sum(second % 100 for second in range(60 * i, 60 * i + 60)) / 60 / 1000 for i in range(5)]
    expected = [(0, start, [*(round(value, 5) for value in minute), None]), (1, start, [None] * 6)]
    for view in ("", "_minutes", "_raw"):
        assert heatmap(tables, "sm_active", start, start + 360, 60, view) == expected
    hour = sum(minute) / 5
    for view in ("", "_hours", "_raw"):
        assert heatmap(tables, "sm_active", start + 7, start + 3601, 3600, view)[0] == (
            0,
            start,
            [round(hour, 5), None],
        )
    assert heatmap(tables, "power_watts", start + 7, start + 30, 10)[0] == (0, start, [123.4] * 3)


def test_a_heatmap_of_an_unknown_metric_is_an_error(tables: Client) -> None:
    for step in (10, 60):
        with pytest.raises(Exception, match=r"Unknown expression.*sm_activity"):
            heatmap(tables, "sm_activity", NOW - 60, NOW, step)
