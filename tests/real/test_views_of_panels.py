"""The views of what hosts, GPUs and jobs do: a host's panels, XIDs, sources of columns, shares of a GPU, accounts."""

import time
from typing import Any

import pytest

from tests.tables import ask, land, one, row
from warpmeter.store import ClickHouseError, Client

NOW = float(int(time.time()))


@pytest.fixture(autouse=True)
def _ages_count_from_the_tests_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.NOW", float(int(time.time())))


def gpu(ts: float, number: int = 0, **fields: Any) -> Any:
    return row("gpu-samples", host="a", ts=ts, period_ms=1000, gpu=number, uuid=f"GPU-{number}", **fields)


def device(ts: float, kind: str, name: str, **fields: Any) -> Any:
    return row("device-samples", host="a", ts=ts, period_ms=1000, kind=kind, device=name, **fields)


def xid(ts: float, state: str = "raised", code: int = 79, **fields: Any) -> Any:
    return row("gpu-events", host="a", ts=ts, gpu=0, uuid="GPU-0", kind="xid", code=code, state=state, **fields)


def event(ts: float, name: str, pid: int, **fields: Any) -> Any:
    started = {"job_id": "j", "event": "running", "started_at": NOW - 500, "period_ms": 10_000}
    return row("job-events", host=name, ts=ts, pid=pid, **started, **fields)


# --- hosts -------------------------------------------------------------------------------------------------------

PANELS = (
    "gpu_util, sm_active, cpu_util, mem_bandwidth_bytes_per_s, l2_hit_ratio, l3_hit_ratio, network_bytes_per_s, "
    "storage_bytes_per_s"
)


def test_a_host_shows_its_eight_panels(tables: Client) -> None:
    land(tables, "host-samples", [row("host-samples", host="a", ts=NOW, period_ms=1000, cpu_util_permille=300)])
    land(tables, "gpu-samples", [gpu(NOW, at, gpu_util_permille=800, sm_active_permille=200 * at) for at in (1, 2)])
    rates = {"rx_kilobytes_per_s": 100, "tx_kilobytes_per_s": 1}
    land(tables, "device-samples", [device(NOW - 1, "nic", f"eth{at}", **rates) for at in (0, 1)])
    land(tables, "device-samples", [device(NOW - 1, "rdma", "mlx5_0/1", **rates)])
    disk = {"read_kilobytes_per_s": 10, "write_kilobytes_per_s": 20}
    land(
        tables, "device-samples", [device(NOW - 1, "disk", "nvme0n1", **disk), device(NOW - 1, "mount", "/nfs", **disk)]
    )
    land(tables, "device-samples", [device(NOW - 1, "mount", "/", fs_used_mebibytes=5)])
    for at in (0, 1):  # hit ratios and bandwidth come from sources of their own
        ratios = {"l2_hit_ratio_permille": 500 + at, "l3_hit_ratio_permille": 900}
        land(tables, "device-samples", [device(NOW - 1 + at, "socket", f"socket{s}", **ratios) for s in (0, 1)])
    bandwidth = {"mem_read_megabytes_per_s": 2000, "mem_write_megabytes_per_s": 1000}
    land(tables, "device-samples", [device(NOW - 1, "socket", f"socket{at}", **bandwidth) for at in (0, 1)])
    (found,) = ask(tables, f"SELECT {PANELS} FROM hosts")
    assert found == (0.8, pytest.approx(0.3), 0.3, 6_000_000_000, 0.501, 0.9, 303_000, 60_000)


def test_a_panel_without_news_is_unknown(tables: Client) -> None:
    land(tables, "host-samples", [row("host-samples", host="a", ts=NOW, period_ms=1000)])
    old = {"rx_kilobytes_per_s": 1, "tx_kilobytes_per_s": 1}
    land(tables, "device-samples", [device(NOW - 900, "nic", "eth0", **old)])
    land(tables, "device-samples", [device(NOW - 1, "nic", "eth0", tx_pauses_milli_per_s=1)])
    assert ask(tables, f"SELECT state, {PANELS} FROM hosts") == [("ok", *[None] * 8)]


def test_what_a_panel_shows_is_kept_in_hours(tables: Client) -> None:
    hour = NOW // 3600 * 3600
    rows = [device(hour + at, "socket", "socket0", l3_hit_ratio_permille=500 + at) for at in range(10)]
    land(tables, "device-samples", rows)
    assert ask(
        tables,
        "SELECT device, sum(samples), sum(l3_hit_ratio_permille_sum), max(l3_hit_ratio_permille_max) "
        "FROM device_windows_1h GROUP BY device",
    ) == [("socket0", 10, 5045, 509)]


# --- GPUs --------------------------------------------------------------------------------------------------------


def test_an_xid_is_one_row_until_it_is_over_and_another_when_it_comes_again(tables: Client) -> None:
    land(tables, "gpu-events", [xid(NOW - 100, what="fell off the bus", pid=5, job_ids=["j"]), xid(NOW - 90, code=48)])
    assert ask(tables, "SELECT code, cleared_at, count FROM gpu_xids ORDER BY code") == [(48, None, 1), (79, None, 1)]
    land(tables, "gpu-events", [xid(NOW - 80, pid=6, job_ids=["k"])])
    land(tables, "gpu-events", [xid(NOW - 60, "cleared", why="driver reload"), xid(NOW - 10, what="again")])
    assert ask(
        tables,
        "SELECT toUnixTimestamp(raised_at), toUnixTimestamp(last_raised_at), toUnixTimestamp(cleared_at), why, count, "
        "job_ids, pids FROM gpu_xids WHERE code = 79 ORDER BY raised_at",
    ) == [
        (NOW - 100, NOW - 80, NOW - 60, "driver reload", 2, ["j", "k"], [5, 6]),
        (NOW - 10, NOW - 10, None, "", 1, [], []),
    ]
    assert ask(tables, "SELECT code FROM gpu_xids WHERE cleared_at IS NULL ORDER BY code") == [(48,), (79,)]


def test_which_source_gave_a_column_is_known(tables: Client) -> None:
    told: dict[str, Any] = {"driver_version": "550.1", "minor_number": 3}
    land(tables, "gpu-samples", [gpu(NOW - 20, column_sources={"sm_active_permille": "gpm"}, **told)])
    land(tables, "gpu-samples", [gpu(NOW - 9, column_sources={"sm_active_permille": "dcgm", "fan_permille": "nvml"})])
    land(tables, "gpu-samples", [gpu(NOW - 1)])
    assert ask(tables, "SELECT column, source, toUnixTimestamp(told_at) FROM gpu_sources ORDER BY column") == [
        ("fan_permille", "nvml", NOW - 9),
        ("sm_active_permille", "dcgm", NOW - 9),
    ]


def test_jobs_share_a_gpu_as_their_processes_do_and_the_sum_is_the_gpus(tables: Client) -> None:
    shared: dict[str, Any] = {"job_ids": ["j", "k"], "gpu_util_permille": 600, "power_deciwatts": 1000}
    rows = [gpu(NOW - at, job_share_permille=[750, 250], **shared) for at in range(8)]
    rows += [gpu(NOW - at, 1, job_share_permille=[0, 0], **shared) for at in range(2)]  # both sleep
    rows += [gpu(NOW - at, 2, **shared) for at in range(2)]  # not known
    rows += [gpu(NOW - at, 3, job_share_permille=[333, 666], **shared) for at in range(3)]  # rounded
    land(tables, "gpu-samples", rows)
    seconds = "SELECT job_id, sum(gpu_seconds), sum(energy_joules) FROM job_windows_1m GROUP BY job_id ORDER BY job_id"
    assert ask(tables, seconds) == [
        ("j", pytest.approx(6 + 1 + 1 + 1), pytest.approx(900)),
        ("k", pytest.approx(2 + 1 + 1 + 2), pytest.approx(600)),
    ]
    assert ask(tables, "SELECT job_share FROM gpu_samples WHERE gpu = 0 LIMIT 1") == [([0.75, 0.25],)]


def test_shares_without_their_jobs_are_refused(tables: Client) -> None:
    with pytest.raises(ClickHouseError, match="one_share_a_job"):
        land(tables, "gpu-samples", [gpu(NOW, job_ids=["j"], job_share_permille=[500, 500])])
    with pytest.raises(ClickHouseError, match="raised_or_cleared"):
        land(tables, "gpu-events", [xid(NOW, "perhaps")])


# --- jobs --------------------------------------------------------------------------------------------------------


def test_a_job_shows_its_ranks_and_who_is_charged(tables: Client) -> None:
    land(tables, "job-events", [event(NOW - 20, "a", 7, ranks=[1, 0], rank_pids=[9, 8], labels={"namespace": "ml"})])
    land(tables, "job-events", [event(NOW - 10, "b", 7, rank=2, labels={"namespace": "ml", "queue": "night"})])
    assert ask(tables, "SELECT hosts, ranks FROM jobs") == [(["a", "b"], [0, 1, 2])]
    assert one(tables, "SELECT account FROM jobs") == "night"
    land(tables, "job-events", [event(NOW - 9, "c", 7, labels={"namespace": "ml", "queue": "night", "account": "lab"})])
    assert one(tables, "SELECT account FROM jobs") == "lab"


def test_why_clocks_are_held_down_has_names(tables: Client) -> None:
    land(tables, "gpu-samples", [gpu(NOW - 2, throttle_reasons=0x1 | 0x4 | 0x40), gpu(NOW - 2, 1)])
    named = ["gpu_idle", "sw_power_cap", "hw_thermal_slowdown"]
    for table in ("gpus", "gpu_samples"):
        assert ask(tables, f"SELECT gpu, throttled_by FROM {table} ORDER BY gpu") == [(0, named), (1, [])]
