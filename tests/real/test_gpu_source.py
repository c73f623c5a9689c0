"""The GPU source against the NVML stand-in, through the real nvidia-ml-py: eight GPUs, and all that befalls them."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pynvml as nvml
import pytest

from tests.gpu_host import Host, by_uuid, columns, states, unhealthy
from tests.nvml import NvmlStub, Process, ramp
from tests.wait import until
from warpmeter import wire
from warpmeter.clock import SystemClock
from warpmeter.producers.gpu import GpuSource
from warpmeter.producers.health import Board
from warpmeter.producers.runner import Runner
from warpmeter.producers.source import Attribution, Health, SourceError
from warpmeter.schemas.topics import TOPICS

MIB = 1 << 20
HANGS_S = 60.0
"""A call that hangs for so long hangs still when it is looked at, however slow the machine."""
GPM_COLUMNS = {
    "graphics_active_permille": 1,
    "sm_active_permille": 2, "sm_occupancy_permille": 3, "tensor_active_permille": 5, "dram_active_permille": 10,
    "fp64_active_permille": 11, "fp32_active_permille": 12, "fp16_active_permille": 13,
    "pcie_tx_megabytes_per_s": 20, "pcie_rx_megabytes_per_s": 21,
    "nvlink_rx_megabytes_per_s": 60, "nvlink_tx_megabytes_per_s": 61,
}  # fmt: skip
SLOW_COLUMNS = {
    "power_limit_deciwatts", "pcie_link_generation", "pcie_link_width", "pcie_replays", "ecc_corrected_errors",
    "ecc_uncorrected_errors", "remapped_rows_corrected", "remapped_rows_uncorrected", "remap_pending", "remap_failed",
    "power_limit_default_deciwatts", "power_limit_min_deciwatts", "power_limit_max_deciwatts",
    "temperature_slowdown_celsius", "temperature_shutdown_celsius", "graphics_clock_megahertz",
    "video_clock_megahertz", "sm_clock_max_megahertz", "mem_clock_max_megahertz", "bar1_used_mebibytes",
    "bar1_total_mebibytes", "nvlink_crc_errors", "nvlink_replay_errors", "nvlink_recovery_errors", "nvlink_links_up",
    "ecc_enabled", "ecc_corrected_dram_errors", "ecc_uncorrected_dram_errors", "ecc_corrected_sram_errors",
    "ecc_uncorrected_sram_errors", "ecc_corrected_lifetime_errors", "ecc_uncorrected_lifetime_errors",
    "persistence_mode", "compute_mode", "pcie_link_generation_max", "pcie_link_width_max",
}  # fmt: skip
NOT_HERE = dict.fromkeys(("fan_permille", "retired_pages_corrected", "retired_pages_uncorrected"), "unsupported")
"""What an H100 does not have: no fan, and it remaps rows."""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """Eight H100."""
    with NvmlStub(tmp_path) as stub, stub.loaded():
        made = Host(stub)
        yield made
        made.source.close()


def test_every_field_of_eight_gpus_is_right(host: Host) -> None:
    first, second = host.tick(), host.tick()
    assert len(first.rows) == len(second.rows) == 8
    for i in range(8):
        uuid = host.stub.gpus[i].uuid
        row, later = by_uuid(first)[uuid], by_uuid(second)[uuid]
        assert (row.host, row.ts, row.period_ms) == ("node1", 1_790_001_001.0, 1000)
        assert (row.gpu, row.model) == (i, "NVIDIA H100 80GB HBM3")
        assert not row.HasField("gpu_instance")
        expected = {
            "gpu_util_permille": (90 + i) * 10, "mem_copy_util_permille": (50 + i) * 10,
            "fb_used_mebibytes": 40_000 + i, "fb_total_mebibytes": 81559, "fb_reserved_mebibytes": 600 + i,
            "power_deciwatts": 5000 + 10 * i, "power_limit_deciwatts": 7000,
            "energy_joules": 1_000_000 * (i + 1) + 500 * 1001,
            "temperature_celsius": 60 + i, "mem_temperature_celsius": 70 + i,
            "sm_clock_megahertz": 1980 - i, "mem_clock_megahertz": 2619, "throttle_reasons": 4,
            "performance_state": 0, "encoder_util_permille": 0, "decoder_util_permille": (3 + i) * 10,
            "pcie_link_generation": 5, "pcie_link_width": 16, "pcie_replays": i,
            "ecc_corrected_errors": 10 + i, "ecc_uncorrected_errors": i,
            "remapped_rows_corrected": 1 + i, "remapped_rows_uncorrected": i, "processes": 1,
            "power_limit_default_deciwatts": 7000, "power_limit_min_deciwatts": 2000,
            "power_limit_max_deciwatts": 7000, "temperature_slowdown_celsius": 87, "temperature_shutdown_celsius": 90,
            "graphics_clock_megahertz": 1980 - i, "video_clock_megahertz": 1545, "sm_clock_max_megahertz": 1980,
            "mem_clock_max_megahertz": 2619, "bar1_used_mebibytes": 9, "bar1_total_mebibytes": 131072,
            "nvlink_crc_errors": 100 + i, "nvlink_replay_errors": 20 + i, "nvlink_recovery_errors": i,
            "nvlink_links_up": 18 - i, "ecc_enabled": True, "ecc_corrected_dram_errors": 7 + i,
            "ecc_uncorrected_dram_errors": i, "ecc_corrected_sram_errors": 3, "ecc_uncorrected_sram_errors": 0,
            "ecc_corrected_lifetime_errors": 100, "ecc_uncorrected_lifetime_errors": 1, "remap_pending": False,
            "remap_failed": False, "persistence_mode": True, "compute_mode": 0, "pcie_link_generation_max": 5,
            "pcie_link_width_max": 16, "minor_number": i,
        }  # fmt: skip
        assert columns(row) == expected
        means = {
            "graphics_active_permille": min(1000, (95 + i) * 10),
            "sm_active_permille": (80 + i) * 10, "sm_occupancy_permille": (40 + i) * 10,
            "tensor_active_permille": (60 + i) * 10, "dram_active_permille": (50 + i) * 10,
            "fp64_active_permille": (1 + i) * 10, "fp32_active_permille": (20 + i) * 10,
            "fp16_active_permille": (10 + i) * 10,
            "pcie_tx_megabytes_per_s": round((800 + i) * 1.048576),
            "pcie_rx_megabytes_per_s": round((1600 + i) * 1.048576),
            "nvlink_rx_megabytes_per_s": round((9000 + i) * 1.048576),
            "nvlink_tx_megabytes_per_s": round((9500 + i) * 1.048576),
        }  # fmt: skip
        assert columns(later) == expected | means | {"energy_joules": expected["energy_joules"] + 500}
        assert unhealthy(first, uuid) == NOT_HERE


def test_slow_values_are_in_the_row_of_the_tick_that_read_them_and_no_other(host: Host) -> None:
    rows = [by_uuid(host.tick()) for _ in range(22)]
    for i in range(8):
        read = [columns(row[host.stub.gpus[i].uuid]).keys() & SLOW_COLUMNS for row in rows]
        turns = {0, 1} | {tick for tick in range(22) if (tick + i) % 10 == 0}  # the first two, then its own turn
        assert [tick for tick, slow in enumerate(read) if slow] == sorted(turns)
        assert all(slow in (set(), SLOW_COLUMNS) for slow in read)


def test_an_unsupported_call_is_made_once(host: Host) -> None:
    gpu = host.stub.gpus[2]
    gpu.unset("power", "encoder_util")
    gpu.unset_gpm(GPM_COLUMNS["fp16_active_permille"])
    reading = host.ticks(12)
    row = columns(by_uuid(reading)[gpu.uuid])
    assert "power_deciwatts" not in row
    assert "sm_active_permille" in row
    expected = {"power_deciwatts", "encoder_util_permille", "fp16_active_permille"}
    assert unhealthy(reading, gpu.uuid) == dict.fromkeys(expected, "unsupported") | NOT_HERE
    assert (gpu.reads("power"), gpu.reads("fan_speed"), gpu.gpm_reads(13)) == (1, 1, 1)
    assert "power_deciwatts" in columns(by_uuid(reading)[host.stub.gpus[3].uuid])


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (nvml.NVML_ERROR_UNKNOWN, "failed"),
        (nvml.NVML_ERROR_TIMEOUT, "timeout"),
        (nvml.NVML_ERROR_NO_PERMISSION, "denied"),
    ],
)
def test_a_failed_call_is_absent_now_and_tried_again(host: Host, error: int, state: str) -> None:
    host.tick()
    gpu = host.stub.gpus[1]
    gpu.fail("temperature", error)
    for _ in range(2):
        reading = host.tick()
        assert not by_uuid(reading)[gpu.uuid].HasField("temperature_celsius")
        assert by_uuid(reading)[gpu.uuid].power_deciwatts == 5010
        assert unhealthy(reading, gpu.uuid)["temperature_celsius"] == state
    gpu.fail("temperature", 0)
    reading = host.tick()
    assert by_uuid(reading)[gpu.uuid].temperature_celsius == 61
    assert "temperature_celsius" not in unhealthy(reading, gpu.uuid)


def test_a_failed_slow_call_stays_reported_until_it_works(host: Host) -> None:
    gpu = host.stub.gpus[0]
    gpu.fail("remapped_correctable", nvml.NVML_ERROR_UNKNOWN)
    assert all("remapped_rows_corrected" in unhealthy(host.tick(), gpu.uuid) for _ in range(5))
    gpu.fail("remapped_correctable", 0)
    reading = host.ticks(10)
    assert unhealthy(reading, gpu.uuid) == NOT_HERE


def test_a_gpm_metric_fails_alone(host: Host) -> None:
    host.tick()
    gpu = host.stub.gpus[4]
    gpu.fail_gpm(GPM_COLUMNS["sm_active_permille"], nvml.NVML_ERROR_UNKNOWN)
    reading = host.tick()
    row = by_uuid(reading)[gpu.uuid]
    assert not row.HasField("sm_active_permille")
    assert row.HasField("dram_active_permille")
    assert unhealthy(reading, gpu.uuid)["sm_active_permille"] == "failed"
    host.stub.fail("nvmlGpmSampleGet", nvml.NVML_ERROR_UNKNOWN, gpu=4)
    assert set(unhealthy(host.tick(), gpu.uuid)) >= GPM_COLUMNS.keys()
    host.stub.mend()
    gpu.fail_gpm(GPM_COLUMNS["sm_active_permille"], 0)
    assert not by_uuid(host.tick())[gpu.uuid].HasField("sm_active_permille")  # no interval yet
    assert by_uuid(host.tick())[gpu.uuid].sm_active_permille == 840


def test_a_lost_gpu_is_gone_and_the_others_go_on(host: Host) -> None:
    host.tick()
    gpu = host.stub.gpus[5]
    gpu.lost = True
    for _ in range(30):
        reading = host.tick()
        assert len(reading.rows) == 7
        assert gpu.uuid not in by_uuid(reading)
        assert unhealthy(reading, gpu.uuid) == {gpu.uuid: "gone"}
    why = next(health.why for health in reading.health if health.subject == gpu.uuid)
    assert why.startswith("NVML_ERROR_GPU_IS_LOST: the GPU fell off the bus")
    assert host.stub.calls("nvmlDeviceGetHandleByIndex_v2") < 8 * 10  # searched with back-off
    gpu.lost = False
    reading = host.ticks(60)
    assert by_uuid(reading)[gpu.uuid].power_deciwatts == 5050
    assert unhealthy(reading, gpu.uuid) == NOT_HERE


def test_a_gpu_lost_before_it_was_known_has_its_index(host: Host) -> None:
    host.stub.gpus[5].lost = True
    reading = host.tick()
    assert len(reading.rows) == 7
    assert states(reading)["gpu 5"] == "gone"
    host.stub.gpus[5].lost = False
    assert "gpu 5" not in states(host.ticks(3))
    assert len(host.tick().rows) == 8


def test_a_gpu_that_only_a_new_session_finds_is_found(host: Host) -> None:
    host.tick()
    gpu = host.stub.gpus[5]
    gpu.lost = True
    sessions = host.stub.calls("nvmlInitWithFlags")
    for _ in range(300):
        assert len(host.tick().rows) == 7  # a new session costs the other GPUs no sample
    assert host.stub.calls("nvmlInitWithFlags") == sessions + 1


def test_a_gpu_leaves_and_comes_back(host: Host) -> None:
    host.tick()
    gpu = host.stub.gpus[2]
    gpu.present = False
    reading = host.tick()
    assert len(reading.rows) == 7
    assert unhealthy(reading, gpu.uuid) == {gpu.uuid: "gone"}
    assert by_uuid(reading)[host.stub.gpus[3].uuid].gpu == 2  # NVML counts anew
    gpu.present = True
    reading = host.tick()
    assert len(reading.rows) == 8
    assert by_uuid(reading)[host.stub.gpus[3].uuid].gpu == 3
    assert not unhealthy(reading, gpu.uuid).keys() & {gpu.uuid}


def test_a_gpu_on_which_all_fails_has_no_row(host: Host) -> None:
    host.tick()
    gpu = host.stub.gpus[6]
    for function in host.stub.all_calls():
        if function.startswith(("nvmlDeviceGet", "nvmlGpm")):
            host.stub.fail(function, nvml.NVML_ERROR_UNKNOWN, gpu=6)
    reading = host.tick()
    assert len(reading.rows) == 7
    assert unhealthy(reading, gpu.uuid) == {gpu.uuid: "failed"}
    host.stub.mend()
    assert len(host.ticks(2).rows) == 8


def test_a_driver_reload_needs_no_restart(host: Host) -> None:
    host.tick()
    host.stub.fail_init(nvml.NVML_ERROR_DRIVER_NOT_LOADED)
    host.stub.reload_driver()
    for _ in range(10):
        with pytest.raises(SourceError, match="kernel module is not loaded") as caught:
            host.tick()
        assert caught.value.state == "failed"
    assert host.stub.calls("nvmlInitWithFlags") <= 6  # with back-off
    host.stub.fail_init(0)
    reading = None
    for _ in range(10):
        try:
            reading = host.tick()
        except SourceError:
            continue
    assert reading is not None
    assert len(reading.rows) == 8
    assert set(states(reading).values()) == {"unsupported"}


def test_a_quick_driver_reload_costs_no_tick(host: Host) -> None:
    host.tick()
    host.stub.gpus[0].unset("power")
    assert "power_deciwatts" in unhealthy(host.tick(), host.stub.gpus[0].uuid)
    host.stub.gpus[0].set(power=1000)
    host.stub.reload_driver()
    reading = host.tick()
    assert len(reading.rows) == 8
    assert by_uuid(reading)[host.stub.gpus[0].uuid].power_deciwatts == 10  # asked anew in the new session


def test_no_rate_and_no_mean_spans_a_reload(host: Host) -> None:
    host.ticks(2)
    host.stub.reload_driver()
    assert not any(row.HasField("sm_active_permille") for row in by_uuid(host.tick()).values())
    assert all(row.HasField("sm_active_permille") for row in by_uuid(host.tick()).values())


def test_without_gpm_field_values_are_counted(host: Host) -> None:
    gpu = host.stub.gpus[1]
    gpu.set(gpm_supported=0)
    gpu.set_field(nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, ramp(5e9, 300e6))
    gpu.set_field(nvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, ramp(0, 600e6))
    gpu.set_field(nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ramp(0, 1e6))
    gpu.set_field(nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ramp(0, 2e6))
    first, second, missed = host.tick(), host.tick(), host.tick(3.0)
    assert not by_uuid(first)[gpu.uuid].HasField("pcie_tx_megabytes_per_s")
    expected = {
        "pcie_tx_megabytes_per_s": 300, "pcie_rx_megabytes_per_s": 600,
        "nvlink_tx_megabytes_per_s": 1024, "nvlink_rx_megabytes_per_s": 2048,
    }  # fmt: skip
    for reading in (second, missed):
        assert columns(by_uuid(reading)[gpu.uuid]).items() >= expected.items()
        assert unhealthy(reading, gpu.uuid).keys() == (GPM_COLUMNS.keys() - expected.keys()) | NOT_HERE.keys()
    gpu.set_field(nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0)  # began again
    row = by_uuid(host.tick())[gpu.uuid]
    assert not row.HasField("pcie_tx_megabytes_per_s")
    assert row.pcie_rx_megabytes_per_s == 600
    assert host.stub.calls("nvmlDeviceGetPcieThroughput") == 0


def wait_for(condition: Callable[[], bool]) -> None:
    """Waits until a condition holds."""
    until(condition, "PCIe throughput", every_s=0.01)


def test_where_nothing_else_gives_pcie_a_thread_measures_it(host: Host) -> None:
    gpu = host.stub.gpus[3]
    gpu.set(gpm_supported=0)
    host.tick()
    wait_for(lambda: by_uuid(host.tick())[gpu.uuid].pcie_tx_megabytes_per_s == 800)
    wait_for(lambda: by_uuid(host.tick())[gpu.uuid].pcie_rx_megabytes_per_s == 1600)
    columns = unhealthy(host.tick(), gpu.uuid)
    assert {"nvlink_tx_megabytes_per_s", "sm_active_permille"} <= columns.keys()
    assert "pcie_tx_megabytes_per_s" not in columns


def test_a_read_never_waits_for_the_thread(host: Host) -> None:
    host.stub.gpus[3].set(gpm_supported=0)
    host.tick()
    host.stub.hang("nvmlDeviceGetPcieThroughput", HANGS_S)
    before = time.monotonic()
    host.ticks(5)
    assert time.monotonic() - before < HANGS_S
    host.stub.mend()


def test_a_measurement_of_the_thread_is_published_once(host: Host) -> None:
    gpu = host.stub.gpus[3]
    gpu.set(gpm_supported=0)
    host.tick()
    wait_for(lambda: by_uuid(host.tick())[gpu.uuid].HasField("pcie_tx_megabytes_per_s"))
    host.stub.hang("nvmlDeviceGetPcieThroughput", HANGS_S)
    seen = [by_uuid(host.tick())[gpu.uuid].HasField("pcie_tx_megabytes_per_s") for _ in range(6)]
    assert seen.count(True) <= 1
    wait_for(lambda: unhealthy(host.tick(), gpu.uuid).get("pcie_tx_megabytes_per_s") == "timeout")
    host.stub.mend()
    wait_for(lambda: by_uuid(host.tick())[gpu.uuid].HasField("pcie_tx_megabytes_per_s"))
    assert "pcie_tx_megabytes_per_s" not in unhealthy(host.tick(), gpu.uuid)


def test_jobs_and_processes(host: Host) -> None:
    host.attribution.set_jobs({10_000: "a", 51: "b", 52: "a"})
    host.stub.gpus[1].set_processes(Process(51, 100 * MIB), Process(52, None), Process(53, kind=2), Process(54, kind=3))
    host.stub.gpus[2].set_processes()
    rows = by_uuid(host.tick())
    one, two = (rows[host.stub.gpus[i].uuid] for i in (1, 2))
    assert (list(one.job_ids), one.processes) == (["a", "b"], 3)
    assert (list(two.job_ids), two.processes) == ([], 0)
    assert list(rows[host.stub.gpus[0].uuid].job_ids) == ["a"]
    used = host.attribution.gpu_uses(host.now)
    assert used is not None
    assert [(use.pid, use.gpu, use.memory_mebibytes) for use in used[:4]] == [
        (10_000, 0, 39_000),
        (51, 1, 100),
        (52, 1, None),
        (54, 1, 1024),
    ]


def test_more_processes_than_there_was_room_for(host: Host) -> None:
    host.stub.gpus[0].set_processes(*(Process(100 + i) for i in range(50)))
    assert by_uuid(host.tick())[host.stub.gpus[0].uuid].processes == 50


def test_mig_instances_have_rows_of_their_own(host: Host) -> None:
    gpu = host.stub.gpus[4]
    first, second = gpu.add_mig(0, gpu_instance=3), gpu.add_mig(2, gpu_instance=5, compute_instance=1)
    first.set_memory(9856 * MIB, 100 * MIB, 16 * MIB)
    first.set_gpm(2, 50)
    gpu.unset("gpu_util")
    gpu.set_processes(Process(51, 90 * MIB, gpu_instance=3, compute_instance=0))
    host.attribution.set_jobs({51: "job"})
    host.tick()
    reading = host.tick()
    rows = by_uuid(reading)
    assert len(rows) == 10
    row = rows[first.uuid]
    assert (row.gpu, row.gpu_instance, row.compute_instance) == (4, 3, 0)
    assert row.model == "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    assert columns(row) == {
        "fb_used_mebibytes": 100, "fb_total_mebibytes": 9856, "fb_reserved_mebibytes": 16, "processes": 1,
        "sm_active_permille": 500, "minor_number": 4,
    }  # fmt: skip
    assert (list(row.job_ids), list(rows[gpu.uuid].job_ids)) == (["job"], [])  # once, so its GPU time counts once
    assert (rows[second.uuid].compute_instance, rows[second.uuid].processes) == (1, 0)
    used = host.attribution.gpu_uses(host.now)
    assert used is not None
    assert [use.uuid for use in used if use.pid == 51] == [first.uuid]  # once, not on the whole GPU too


def test_mig_instances_come_and_go(host: Host) -> None:
    host.tick()
    mig = host.stub.gpus[0].add_mig(0, gpu_instance=3)
    reading = host.ticks(11)
    assert mig.uuid in by_uuid(reading)
    mig.remove()
    reading = host.tick()
    assert mig.uuid not in by_uuid(reading)
    assert not any(subject.startswith("MIG") for subject in states(host.ticks(2)))
    assert len(host.tick().rows) == 8


def test_an_impossible_value_is_failed_not_published(host: Host) -> None:
    host.tick()
    gpu = host.stub.gpus[0]
    gpu.set_gpm(GPM_COLUMNS["sm_active_permille"], 7e9)
    gpu.set_gpm(GPM_COLUMNS["dram_active_permille"], float("nan"))
    gpu.set_gpm(GPM_COLUMNS["tensor_active_permille"], 100.4)
    reading = host.tick()
    row = by_uuid(reading)[gpu.uuid]
    assert not row.HasField("sm_active_permille")
    assert not row.HasField("dram_active_permille")
    assert row.tensor_active_permille == 1000
    assert {"sm_active_permille", "dram_active_permille"} <= unhealthy(reading, gpu.uuid).keys()


def test_values_beyond_their_columns_cost_no_other_gpu_its_row(host: Host) -> None:
    host.tick()
    gpu = host.stub.gpus[0]
    gpu.set(memory_used=2**63, power=2**32 - 1, temperature=300, clock_sm=2**20, energy=2.0**64)
    gpu.set_processes(Process(10_000, 2**63, sm_util=2**32 - 1))
    reading = host.ticks(12)
    assert len(reading.rows) == 8
    row = columns(by_uuid(reading)[gpu.uuid])
    wrong = {"fb_used_mebibytes", "power_deciwatts", "temperature_celsius", "sm_clock_megahertz"}
    assert not wrong & row.keys()
    assert wrong <= {name for name, state in unhealthy(reading, gpu.uuid).items() if state == "failed"}


def test_a_hanging_call_holds_only_its_reader(host: Host) -> None:
    host.tick()
    host.stub.hang("nvmlDeviceGetPowerUsage", HANGS_S, gpu=0)
    calls = host.stub.calls("nvmlDeviceGetPowerUsage", 0)
    reading = threading.Thread(target=host.tick)
    reading.start()
    until(lambda: host.stub.calls("nvmlDeviceGetPowerUsage", 0) > calls, "the call")
    assert sum(range(1000)) == 499_500  # Python goes on: the call holds no interpreter lock
    assert reading.is_alive()
    host.stub.mend()
    reading.join()


def test_an_old_driver_is_read_by_the_older_calls(tmp_path: Path) -> None:
    without = (
        "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetTemperatureV", "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v3",
        "nvmlDeviceGetMPSComputeRunningProcesses_v2", "nvmlGpmQueryDeviceSupport", "nvmlDeviceGetMigMode",
    )  # fmt: skip
    with NvmlStub(tmp_path, without=without) as stub, stub.loaded():
        host = Host(stub)
        reading = host.tick()
        row = by_uuid(reading)[stub.gpus[1].uuid]
        assert (row.temperature_celsius, row.throttle_reasons, row.processes) == (61, 4, 1)
        assert row.fb_used_mebibytes == 40_001 + 601  # the first version counts what the driver keeps
        assert unhealthy(reading, stub.gpus[1].uuid)["fb_reserved_mebibytes"] == "unsupported"
        host.source.close()


def test_no_library_is_unsupported_and_cheap(tmp_path: Path) -> None:
    stub = NvmlStub(tmp_path)
    host = Host(stub)
    for _ in range(50):
        with pytest.raises(SourceError, match=r"libnvidia-ml\.so\.1 is not on this host") as caught:
            host.tick()
        assert caught.value.state == "unsupported"
    with stub.loaded():
        with pytest.raises(SourceError):
            host.tick()  # it is looked for every 60 s
        assert len(host.tick(20).rows) == 8
        host.source.close()


UPGRADE = """
import os, shutil, sys
from pathlib import Path
import pynvml
from tests.gpu_host import Host, by_uuid, columns, states, unhealthy
from tests.nvml import NvmlStub
from tests.nvml.stub import build
from tests.gpu_host import Host
from warpmeter.producers.source import SourceError

folder = Path(sys.argv[1])
stub, newer = NvmlStub(folder, gpus=2, without=("nvmlDeviceGetTemperatureV",)), build()
installed = folder / "libnvidia-ml.so.1"
shutil.copy(stub.library, installed)
host = Host(stub)
host.tick()
stub.fail_init(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
stub.reload_driver()
try:
    host.tick()
except SourceError as error:
    assert "different versions" in str(error), error
shutil.copy(newer, folder / "new")
os.replace(folder / "new", installed)
stub.fail_init(0)
assert len(host.tick(2).rows) == 2
print(stub.calls("nvmlDeviceGetTemperatureV"), stub.calls("nvmlDeviceGetTemperature"))
"""


def test_an_upgraded_driver_is_loaded_from_disk(tmp_path: Path) -> None:
    environment = NvmlStub(tmp_path).environment()
    environment["LD_LIBRARY_PATH"] = str(tmp_path)
    run = subprocess.run(
        [sys.executable, "-c", UPGRADE, str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["2", "2"]


def test_health_says_what_and_why(host: Host) -> None:
    reading = host.tick()
    uuid = host.stub.gpus[0].uuid
    assert Health(f"{uuid}/fan_permille", "unsupported", "NVML_ERROR_NOT_SUPPORTED") in reading.health


class Collected:
    """A publisher that keeps what the runner publishes."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Any]] = {"gpu-samples": [], "gpu-processes": [], "source-health": []}

    def publish(self, topic: str, rows: Sequence[Any]) -> None:
        """Keeps rows that the wire takes."""
        assert wire.pack(TOPICS[topic], "node1", rows).rows == len(rows)
        self.rows[topic] += rows


def test_the_agents_runner_tells_lost_unsupported_and_failed_apart(host: Host) -> None:
    host.stub.gpus[1].lost = True
    host.stub.gpus[2].unset("power")
    host.stub.gpus[3].fail("power", nvml.NVML_ERROR_UNKNOWN)
    published, uuids = Collected(), [gpu.uuid for gpu in host.stub.gpus[:8]]
    source = GpuSource("node1", 0.05, Attribution())
    runner = Runner([source], Board("node1", 10.0), published, SystemClock())
    runner.start()
    until(lambda: len(published.rows["gpu-samples"]) >= 35, "five ticks of seven GPUs")
    assert runner.stop(30.0) == []
    assert {row.uuid for row in published.rows["gpu-samples"]} == set(uuids) - {uuids[1]}
    told = {row.subject: (row.source, row.state) for row in published.rows["source-health"]}
    assert told[""] == ("gpu", "ok")
    assert told["gpu 1"] == ("gpu", "gone")
    assert told[f"{uuids[2]}/power_deciwatts"] == ("gpu", "unsupported")
    assert told[f"{uuids[3]}/power_deciwatts"] == ("gpu", "failed")
    assert not any(row.HasField("power_deciwatts") for row in published.rows["gpu-samples"] if row.gpu in (2, 3))
