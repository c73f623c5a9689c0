"""Who is on the GPUs, which part each job has, where the columns come from, and who has the performance counters."""

import os
import pwd
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml as nvml
import pytest

from tests.gpu_host import Host, by_uuid, columns, states
from tests.nvml import NvmlStub, Process
from warpmeter.producers.gpu import GpuSource
from warpmeter.producers.gpu.pause import ask, file_of
from warpmeter.producers.source import Reading

MIB = 1 << 20
NOBODY = (1 << 22) + 1
"""A pid that no process has: the kernel's greatest is 2^22."""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """Eight H100."""
    with NvmlStub(tmp_path) as stub, stub.loaded():
        made = Host(stub)
        yield made
        made.source.close()


def parts(host: Host, reading: Reading, gpu: int = 1) -> dict[str, int]:
    """Permille of a GPU by job."""
    row = by_uuid(reading)[host.stub.gpus[gpu].uuid]
    return dict(zip(row.job_ids, row.job_share_permille, strict=True))


def on_gpus(reading: Reading) -> list[Any]:
    """Rows of `gpu-processes`."""
    return list(reading.others.get("gpu-processes", ()))


def test_two_jobs_share_a_gpu_by_what_they_do_on_it(host: Host) -> None:
    host.attribution.set_jobs({51: "a", 52: "b", 10_000: "a"})
    gpu = host.stub.gpus[1]
    gpu.set_processes(Process(51, 100 * MIB, sm_util=60), Process(52, 300 * MIB, sm_util=20), Process(53, sm_util=5))
    assert parts(host, host.tick()) == {"a": 750, "b": 250}
    assert parts(host, host.ticks(3)) == {"a": 750, "b": 250}
    assert parts(host, host.tick(), 0) == {"a": 1000}
    assert parts(host, host.tick(), 2) == {}
    gpu.set_processes(Process(51, 100 * MIB), Process(52, 300 * MIB))  # idle: by the memory they hold
    assert parts(host, host.tick()) == {"a": 250, "b": 750}
    gpu.set_processes(Process(51, None), Process(52, 300 * MIB))
    assert parts(host, host.tick()) == {"a": 500, "b": 500}


@pytest.mark.parametrize("without", [(), ("nvmlDeviceGetProcessesUtilizationInfo",)])
def test_an_old_driver_tells_it_by_the_older_call(tmp_path: Path, without: tuple[str, ...]) -> None:
    with NvmlStub(tmp_path, without=without) as stub, stub.loaded():
        host = Host(stub)
        host.attribution.set_jobs({51: "a", 52: "b"})
        stub.gpus[1].set_processes(*(Process(51 + i, MIB, sm_util=1 + i) for i in range(2)))
        assert parts(host, host.tick()) == {"a": 333, "b": 667}
        host.source.close()


def test_where_nvml_does_not_tell_what_processes_do_memory_counts(host: Host) -> None:
    for function in ("nvmlDeviceGetProcessesUtilizationInfo", "nvmlDeviceGetProcessUtilization"):
        host.stub.fail(function, nvml.NVML_ERROR_NOT_SUPPORTED, gpu=1)
    host.attribution.set_jobs({51: "a", 52: "b"})
    host.stub.gpus[1].set_processes(Process(51, 100 * MIB, sm_util=60), Process(52, 300 * MIB, sm_util=20))
    assert parts(host, host.ticks(5)) == {"a": 250, "b": 750}
    assert host.stub.calls("nvmlDeviceGetProcessUtilization", gpu=1) == 1
    mine = [row for row in on_gpus(host.ticks(6)) if row.gpu == 1]
    assert len(mine) == 2
    assert not any(row.HasField("sm_util_permille") for row in mine)


def test_several_jobs_in_a_mig_instance_share_it_by_memory(host: Host) -> None:
    gpu = host.stub.gpus[4]
    mig = gpu.add_mig(0, gpu_instance=3)
    inside = {"gpu_instance": 3, "compute_instance": 0}
    gpu.set_processes(Process(51, 90 * MIB, **inside), Process(52, 10 * MIB, **inside), Process(53, MIB))
    host.attribution.set_jobs({51: "a", 52: "b", 53: "c"})
    rows = by_uuid(host.tick())
    assert list(rows[mig.uuid].job_share_permille) == [900, 100]
    assert (list(rows[gpu.uuid].job_ids), list(rows[gpu.uuid].job_share_permille)) == (["c"], [1000])


def test_processes_have_a_row_every_ten_seconds(host: Host) -> None:
    host.attribution.set_jobs({os.getpid(): "mine"})
    for gpu in host.stub.gpus[:3]:  # one process on three GPUs
        gpu.set_processes(Process(os.getpid(), 100 * MIB, sm_util=40, memory_util=10))
    host.stub.gpus[3].set_processes(Process(NOBODY, 100 * MIB))
    told = [on_gpus(host.tick()) for _ in range(31)]
    assert [tick for tick, rows in enumerate(told) if rows] == [0, 1, 10, 20, 30]
    assert [rows[0].period_ms for rows in told if rows] == [1000, 1000, 9000, 10_000, 10_000]
    rows = [row for row in told[-1] if row.pid == os.getpid()]
    assert [row.gpu for row in rows] == [0, 1, 2]
    for row in rows:
        assert (row.host, row.job_id, row.mem_mebibytes) == ("node1", "mine", 100)
        assert row.user == pwd.getpwuid(os.getuid()).pw_name
        assert row.name.startswith(("python", "pytest"))
        shares = (row.sm_util_permille, row.mem_util_permille, row.encoder_util_permille, row.decoder_util_permille)
        assert shares == (400, 100, 0, 0)
    stranger = next(row for row in told[-1] if row.gpu == 3)
    assert (stranger.name, stranger.user, stranger.job_id) == ("", "", "")


def test_where_columns_come_from_is_told_at_the_start_at_a_change_and_every_ten_minutes(host: Host) -> None:
    host.now = 0.0
    uuid = host.stub.gpus[1].uuid
    rows = [by_uuid(host.tick())[uuid] for _ in range(800)]
    told = [tick for tick, row in enumerate(rows) if row.column_sources]
    tens = [tick for tick in range(1, 800) if int(rows[tick].ts) % 600 == 0]
    assert told == sorted({0, 1, *tens})  # the second tick has the means of GPM
    for row in (rows[1], *(rows[tick] for tick in tens)):
        assert row.column_sources["sm_active_permille"] == "gpm"
        assert row.column_sources["power_deciwatts"] == "nvml"
        assert row.column_sources.keys() >= columns(row).keys() - {"minor_number"}
        assert (row.driver_version, row.minor_number) == ("580.95.05", 1)
    host.stub.reload_driver("590.10.01")
    assert by_uuid(host.tick())[uuid].driver_version == "590.10.01"


def test_a_profiler_gets_the_counters_and_gives_them_back(host: Host) -> None:
    host.ticks(2)
    uuid = host.stub.gpus[0].uuid
    host.source.pause(30.0)
    taken = host.stub.calls("nvmlGpmSampleGet")
    reading = host.ticks(5)
    assert host.stub.calls("nvmlGpmSampleGet") == taken
    row = by_uuid(reading)[uuid]
    assert not row.HasField("sm_active_permille")
    assert row.power_deciwatts == 5000
    assert states(reading)["performance counters"] == "paused"
    host.source.resume()
    assert not by_uuid(host.tick())[uuid].HasField("sm_active_permille")  # no mean spans the pause
    reading = host.tick()
    assert by_uuid(reading)[uuid].sm_active_permille == 800
    assert "performance counters" not in states(reading)


def test_a_pause_ends_by_itself(host: Host) -> None:
    host.ticks(2)
    host.source.pause(5.0)
    seen = ["performance counters" in states(host.tick()) for _ in range(7)]
    assert seen == [True] * 4 + [False] * 3
    for wrong in (0.0, -1.0, 7200.0, float("nan")):
        with pytest.raises(ValueError, match="a pause lasts"):
            host.source.pause(wrong)


def test_another_process_asks_for_a_pause_by_a_file(host: Host, tmp_path: Path) -> None:
    file = file_of(tmp_path / "spool")
    host.shared.paused = file
    host.source = GpuSource("node1", 1.0, host.attribution, lambda: host.now, shared=host.shared)
    ask(file, 30.0, time.time())
    assert states(host.tick())["performance counters"] == "paused"
    for nothing in ("", "soon", f"{time.time() - 1:.3f}", f"{time.time() + 1e6:.3f}", "nan"):
        file.write_text(nothing)
        assert "performance counters" not in states(host.tick())
    ask(file, 30.0, time.time())
    host.source.resume()
    assert not file.exists()
    assert "performance counters" not in states(host.tick())
    with pytest.raises(ValueError, match="a pause lasts"):
        ask(file, 3601.0, time.time())


def test_without_nvlink_totals_each_link_is_asked(host: Host) -> None:
    gpu = host.stub.gpus[2]
    for field in (
        nvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
        nvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
        nvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL,
    ):
        gpu.fail_field(field, nvml.NVML_ERROR_NOT_SUPPORTED)
    row = by_uuid(host.tick())[gpu.uuid]  # 16 of its 18 links are up; by link: 1 replay, 2 recoveries, 3 CRC errors
    assert row.nvlink_links_up == 16
    assert (row.nvlink_crc_errors, row.nvlink_replay_errors, row.nvlink_recovery_errors) == (48, 16, 32)


def test_a_gpu_without_nvlink_and_with_retired_pages(host: Host) -> None:
    gpu = host.stub.gpus[3]
    gpu.unset("nvlinks")
    gpu.set(retired_single_bit=0, retired_double_bit=2, remapped_pending=1)
    reading = host.tick()
    row = by_uuid(reading)[gpu.uuid]
    assert states(reading)[f"{gpu.uuid}/nvlink_links_up"] == "unsupported"
    assert (row.retired_pages_corrected, row.retired_pages_uncorrected, row.remap_pending) == (0, 2, True)
