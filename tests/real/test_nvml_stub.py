"""The NVML stand-in answers the real nvidia-ml-py as the library would."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pynvml as nvml
import pytest

from tests.nvml import ANY, NvmlStub, Process, ramp, sine, square

MIB = 1 << 20


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[NvmlStub]:
    """Eight GPUs, loaded into this process and initialised."""
    with NvmlStub(tmp_path) as made, made.loaded():
        nvml.nvmlInit()
        yield made


def error_of(call: str, *args: object) -> int:
    """The error code that a call of nvidia-ml-py raises; 0 when it raises none."""
    try:
        getattr(nvml, call)(*args)
    except nvml.NVMLError as error:
        return int(error.value)
    return 0


def handle(index: int) -> object:
    """The handle of a GPU."""
    return nvml.nvmlDeviceGetHandleByIndex(index)


@pytest.mark.usefixtures("stub")
def test_every_gpu_has_its_own_values() -> None:
    assert nvml.nvmlDeviceGetCount() == 8
    assert nvml.nvmlSystemGetDriverVersion() == "580.95.05"
    for index in range(8):
        gpu = handle(index)
        assert nvml.nvmlDeviceGetUUID(gpu) == f"GPU-5b1f0e44-7e1d-4c53-9a57-{index:012x}"
        assert nvml.nvmlDeviceGetName(gpu) == "NVIDIA H100 80GB HBM3"
        assert nvml.nvmlDeviceGetIndex(gpu) == index
        assert nvml.nvmlDeviceGetPciInfo(gpu).busId == f"00000000:{0x18 + index:02X}:00.0"
        assert nvml.nvmlDeviceGetPowerUsage(gpu) == 500_000 + 1000 * index
        assert nvml.nvmlDeviceGetUtilizationRates(gpu).memory == 50 + index
        assert nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU) == 60 + index
        assert nvml.nvmlDeviceGetTemperatureV(gpu, nvml.NVML_TEMPERATURE_GPU) == 60 + index
        assert nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM) == 1980 - index
        assert nvml.nvmlDeviceGetDecoderUtilization(gpu)[0] == 3 + index
        assert nvml.nvmlDeviceGetRemappedRows(gpu) == (1 + index, index, 0, 0)
        assert nvml.nvmlDeviceGetTotalEccErrors(gpu, 0, nvml.NVML_VOLATILE_ECC) == 10 + index


@pytest.mark.usefixtures("stub")
def test_memory_has_both_versions() -> None:
    first = nvml.nvmlDeviceGetMemoryInfo(handle(2))
    second = nvml.nvmlDeviceGetMemoryInfo(handle(2), version=nvml.nvmlMemory_v2)
    assert (second.used, second.reserved) == (40_002 * MIB, 602 * MIB)
    assert first.used == second.used + second.reserved
    assert second.total == second.free + second.used + second.reserved
    assert error_of("nvmlDeviceGetMemoryInfo", handle(2), 0x03000028) == nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH


def test_values_follow_time(stub: NvmlStub) -> None:
    stub.gpus[0].set(power=sine(400_000, 100_000, period_s=40), energy=ramp(10, 5), gpu_util=square(0, 100, 20))
    seen = []
    for stub.time_s in (0.0, 10.0, 30.0):
        gpu = handle(0)
        seen.append(
            (
                nvml.nvmlDeviceGetPowerUsage(gpu),
                nvml.nvmlDeviceGetTotalEnergyConsumption(gpu),
                nvml.nvmlDeviceGetUtilizationRates(gpu).gpu,
            )
        )
    assert seen == [(400_000, 10, 0), (500_000, 60, 100), (300_000, 160, 100)]
    stub.time_s = None
    before = nvml.nvmlDeviceGetTotalEnergyConsumption(gpu)
    stub.gpus[0].set(energy=ramp(0, 1e9))
    assert nvml.nvmlDeviceGetTotalEnergyConsumption(gpu) > before


def test_all_gpus_move_each_in_its_own_phase(stub: NvmlStub) -> None:
    stub.move()
    seen = []
    for stub.time_s in (5.0, 12.0):
        seen += [nvml.nvmlDeviceGetPowerUsage(handle(index)) for index in range(8)]
    assert len(set(seen)) == 16
    assert all(350_000 <= power <= 650_000 for power in seen)


def test_errors_are_told_apart(stub: NvmlStub) -> None:
    gpu = handle(1)
    stub.gpus[1].unset("fan_speed")
    assert error_of("nvmlDeviceGetFanSpeed", gpu) == nvml.NVML_ERROR_NOT_SUPPORTED
    stub.gpus[1].fail("temperature", nvml.NVML_ERROR_TIMEOUT)
    assert error_of("nvmlDeviceGetTemperature", gpu, 0) == nvml.NVML_ERROR_TIMEOUT
    stub.fail("nvmlDeviceGetPowerUsage", nvml.NVML_ERROR_UNKNOWN, gpu=1)
    assert error_of("nvmlDeviceGetPowerUsage", gpu) == nvml.NVML_ERROR_UNKNOWN
    assert error_of("nvmlDeviceGetPowerUsage", handle(0)) == nvml.NVML_SUCCESS
    stub.fail("nvmlDeviceGetPowerUsage", nvml.NVML_ERROR_NO_PERMISSION, gpu=ANY)
    assert error_of("nvmlDeviceGetPowerUsage", handle(0)) == nvml.NVML_ERROR_NO_PERMISSION
    stub.mend()
    assert error_of("nvmlDeviceGetPowerUsage", gpu) == nvml.NVML_SUCCESS


def test_a_call_hangs_as_long_as_told(stub: NvmlStub) -> None:
    stub.hang("nvmlDeviceGetPowerUsage", 0.1, gpu=3)
    before = time.monotonic()
    nvml.nvmlDeviceGetPowerUsage(handle(3))
    assert time.monotonic() - before >= 0.1


def test_a_lost_gpu_fails_every_call_and_only_its_own(stub: NvmlStub) -> None:
    gpu = handle(5)
    stub.gpus[5].lost = True
    assert nvml.nvmlDeviceGetCount() == 8
    for call in ("nvmlDeviceGetPowerUsage", "nvmlDeviceGetUUID", "nvmlDeviceGetMigMode"):
        assert error_of(call, gpu) == nvml.NVML_ERROR_GPU_IS_LOST
    assert error_of("nvmlDeviceGetHandleByIndex", 5) == nvml.NVML_ERROR_GPU_IS_LOST
    assert error_of("nvmlDeviceGetPowerUsage", handle(6)) == nvml.NVML_SUCCESS
    stub.gpus[5].lost = False
    assert nvml.nvmlDeviceGetPowerUsage(gpu) == 505_000


def test_a_gpu_leaves_the_count_and_comes_back(stub: NvmlStub) -> None:
    gpu = handle(2)
    stub.gpus[2].present = False
    assert nvml.nvmlDeviceGetCount() == 7
    assert error_of("nvmlDeviceGetPowerUsage", gpu) == nvml.NVML_ERROR_INVALID_ARGUMENT
    assert nvml.nvmlDeviceGetPowerUsage(handle(2)) == 503_000
    stub.gpus[2].present = True
    assert nvml.nvmlDeviceGetPowerUsage(handle(2)) == 502_000


def test_a_driver_reload_makes_all_before_worthless(stub: NvmlStub) -> None:
    gpu = handle(0)
    stub.fail_init(nvml.NVML_ERROR_DRIVER_NOT_LOADED)
    stub.reload_driver("999.1")
    assert error_of("nvmlDeviceGetPowerUsage", gpu) == nvml.NVML_ERROR_UNINITIALIZED
    assert error_of("nvmlInit") == nvml.NVML_ERROR_DRIVER_NOT_LOADED
    stub.fail_init(0)
    nvml.nvmlInit()
    assert error_of("nvmlDeviceGetPowerUsage", gpu) == nvml.NVML_ERROR_INVALID_ARGUMENT
    assert nvml.nvmlSystemGetDriverVersion() == "999.1"
    assert nvml.nvmlDeviceGetPowerUsage(handle(0)) == 500_000


def test_processes_of_each_kind(stub: NvmlStub) -> None:
    stub.gpus[0].set_processes(
        Process(11, 5 * MIB, sm_util=70), Process(12, None), Process(13, 7, kind=2), Process(14, 8, kind=3)
    )
    gpu = handle(0)
    compute = nvml.nvmlDeviceGetComputeRunningProcesses(gpu)
    assert [(p.pid, p.usedGpuMemory) for p in compute] == [(11, 5 * MIB), (12, None)]
    assert [p.pid for p in nvml.nvmlDeviceGetGraphicsRunningProcesses(gpu)] == [13]
    assert [p.pid for p in nvml.nvmlDeviceGetMPSComputeRunningProcesses_v3(gpu)] == [14]
    assert [p.pid for p in nvml.nvmlDeviceGetComputeRunningProcesses_v2(gpu)] == [11, 12]
    samples = nvml.nvmlDeviceGetProcessUtilization(gpu, 0)
    assert [(s.pid, s.smUtil) for s in samples] == [(11, 70)]  # only who did something, as NVML says
    stub.gpus[0].set_processes()
    assert nvml.nvmlDeviceGetComputeRunningProcesses(gpu) == []


def test_mig_instances(stub: NvmlStub) -> None:
    mig = stub.gpus[4].add_mig(0, gpu_instance=3)
    stub.gpus[4].add_mig(2, gpu_instance=5, compute_instance=1)
    mig.set_memory(total=9856 * MIB, used=100 * MIB)
    stub.gpus[4].set_processes(
        Process(21, MIB, gpu_instance=3, compute_instance=0), Process(22, MIB, gpu_instance=5, compute_instance=1)
    )
    gpu = handle(4)
    assert nvml.nvmlDeviceGetMigMode(gpu) == [1, 1]
    first = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
    assert error_of("nvmlDeviceGetMigDeviceHandleByIndex", gpu, 1) == nvml.NVML_ERROR_NOT_FOUND
    assert nvml.nvmlDeviceGetUUID(first) == mig.uuid
    assert mig.uuid.startswith("MIG-")
    assert nvml.nvmlDeviceGetGpuInstanceId(first) == 3
    assert nvml.nvmlDeviceGetMemoryInfo(first).used == 100 * MIB
    assert nvml.nvmlDeviceGetAttributes(first).memorySizeMB == 9856
    assert [p.pid for p in nvml.nvmlDeviceGetComputeRunningProcesses(first)] == [21]
    assert [p.gpuInstanceId for p in nvml.nvmlDeviceGetComputeRunningProcesses(gpu)] == [3, 5]
    assert error_of("nvmlDeviceGetUtilizationRates", first) == nvml.NVML_ERROR_NOT_SUPPORTED


def test_field_values_fail_one_by_one(stub: NvmlStub) -> None:
    stub.gpus[0].set_field(nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, 2**40)
    stub.gpus[0].set_field(nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 5)
    stub.gpus[0].fail_field(nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, nvml.NVML_ERROR_UNKNOWN)
    asked = [
        nvml.NVML_FI_DEV_MEMORY_TEMP,
        (nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, nvml.NVML_NVLINK_MAX_LINKS),
        nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES,
        nvml.NVML_FI_DEV_RETIRED_SBE,
    ]
    values = nvml.nvmlDeviceGetFieldValues(handle(0), asked)
    assert [value.nvmlReturn for value in values] == [0, 0, nvml.NVML_ERROR_UNKNOWN, nvml.NVML_ERROR_NOT_SUPPORTED]
    assert (values[0].valueType, values[0].value.uiVal) == (nvml.NVML_VALUE_TYPE_UNSIGNED_INT, 70)
    assert values[1].valueType == nvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
    assert values[1].value.ullVal == 2**40


def test_gpm_metrics_between_two_samples(stub: NvmlStub) -> None:
    gpu = handle(1)
    stub.gpus[1].set_gpm(nvml.NVML_GPM_METRIC_SM_UTIL, ramp(0, 1))
    assert nvml.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice == 1
    samples = [nvml.nvmlGpmSampleAlloc() for _ in range(2)]
    for stub.time_s, sample in zip((40.0, 50.0), samples, strict=True):
        nvml.nvmlGpmSampleGet(gpu, sample)
    asked = nvml.c_nvmlGpmMetricsGet_t(version=nvml.NVML_GPM_METRICS_GET_VERSION, numMetrics=2)
    asked.sample1, asked.sample2 = samples
    asked.metrics[0].metricId, asked.metrics[1].metricId = nvml.NVML_GPM_METRIC_SM_UTIL, 110
    got = nvml.nvmlGpmMetricsGet(asked)
    assert (got.metrics[0].nvmlReturn, got.metrics[0].value) == (0, 45.0)
    assert got.metrics[1].nvmlReturn == nvml.NVML_ERROR_NOT_SUPPORTED
    for sample in samples:
        nvml.nvmlGpmSampleFree(sample)


def test_calls_are_counted(stub: NvmlStub) -> None:
    nvml.nvmlDeviceGetPowerUsage(handle(1))
    nvml.nvmlDeviceGetPowerUsage(handle(1))
    assert stub.calls("nvmlDeviceGetPowerUsage", gpu=1) == 2
    assert stub.calls("nvmlDeviceGetPowerUsage", gpu=0) == 0
    assert stub.gpus[1].reads("power") == 2


def test_an_old_library_lacks_functions(tmp_path: Path) -> None:
    without = ("nvmlDeviceGetMemoryInfo_v2", "nvmlGpmSampleAlloc")
    with NvmlStub(tmp_path, without=without) as stub, stub.loaded():
        nvml.nvmlInit()
        code = error_of("nvmlDeviceGetMemoryInfo", handle(0), nvml.nvmlMemory_v2)
        assert code == nvml.NVML_ERROR_FUNCTION_NOT_FOUND
        assert error_of("nvmlGpmSampleAlloc") == nvml.NVML_ERROR_FUNCTION_NOT_FOUND
        assert nvml.nvmlDeviceGetMemoryInfo(handle(0)).used == 40_600 * MIB


def test_another_process_finds_it_by_the_loader(tmp_path: Path) -> None:
    stub = NvmlStub(tmp_path, gpus=3)
    stub.gpus[1].set(power=123_000)
    script = (
        "import pynvml as n; n.nvmlInit(); print(n.nvmlDeviceGetCount(),"
        " n.nvmlDeviceGetPowerUsage(n.nvmlDeviceGetHandleByIndex(1)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], env=stub.environment(), capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["3", "123000"]
    assert stub.calls("nvmlDeviceGetPowerUsage") == 1


def test_without_it_there_is_no_library(tmp_path: Path) -> None:
    with NvmlStub(tmp_path).loaded():
        nvml.nvmlInit()
    assert error_of("nvmlInit") == nvml.NVML_ERROR_LIBRARY_NOT_FOUND
