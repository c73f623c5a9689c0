"""What is read of a GPU: each NVML call and the columns of `GpuSample` that it fills.

A stored value is NVML's number times the factor, rounded. A call with several ways is tried in their order, once,
until one is supported. `slow` calls, whose values hardly change, are made every 10 s; between, their columns are
absent.
"""

from dataclasses import dataclass
from typing import Final

import pynvml as py

from warpmeter.producers.gpu import nvml

MIB: Final = 1 << 20
ALL_LINKS: Final = 0xFFFFFFFF


@dataclass(frozen=True)
class Call:
    """One NVML call: its columns in the order of its numbers. `mig`: MIG instances have it too."""

    columns: tuple[str, ...]
    factor: float
    ways: tuple[nvml.Way, ...]
    slow: bool = False
    mig: bool = False


@dataclass(frozen=True)
class Metric:
    """A GPM metric: the mean over the time between two reads."""

    column: str
    factor: float
    metric: int


@dataclass(frozen=True)
class Field:
    """A field value: a gauge, or a counter whose rate per second is the column."""

    column: str
    factor: float
    field: int
    counter: bool = False
    scope: int = 0


def _one(column: str, factor: float, *ways: nvml.Way, slow: bool = False) -> Call:
    return Call((column,), factor, ways, slow)


def _slow(column: str, *ways: nvml.Way, factor: float = 1) -> Call:
    return _one(column, factor, *ways, slow=True)


def _threshold(which: int) -> nvml.Way:
    return nvml.uint("nvmlDeviceGetTemperatureThreshold", which)


def _errors(kind: int, location: int) -> nvml.Way:
    return nvml.ull("nvmlDeviceGetMemoryErrorCounter", kind, py.NVML_VOLATILE_ECC, location)


CORRECTED: Final = int(py.NVML_MEMORY_ERROR_TYPE_CORRECTED)
UNCORRECTED: Final = int(py.NVML_MEMORY_ERROR_TYPE_UNCORRECTED)

CALLS: Final[tuple[Call, ...]] = (
    Call(("gpu_util_permille", "mem_copy_util_permille"), 10, (nvml.UTILIZATION,)),
    Call(
        ("fb_used_mebibytes", "fb_total_mebibytes", "fb_reserved_mebibytes"),
        1 / MIB,
        (nvml.MEMORY_V2, nvml.MEMORY_V1),
        mig=True,
    ),
    _one("power_deciwatts", 0.01, nvml.uint("nvmlDeviceGetPowerUsage")),
    _one("energy_joules", 0.001, nvml.ull("nvmlDeviceGetTotalEnergyConsumption")),
    _one("temperature_celsius", 1, nvml.TEMPERATURE_V, nvml.uint("nvmlDeviceGetTemperature", py.NVML_TEMPERATURE_GPU)),
    _one("sm_clock_megahertz", 1, nvml.uint("nvmlDeviceGetClockInfo", py.NVML_CLOCK_SM)),
    _one("mem_clock_megahertz", 1, nvml.uint("nvmlDeviceGetClockInfo", py.NVML_CLOCK_MEM)),
    _one(
        "throttle_reasons",
        1,
        nvml.ull("nvmlDeviceGetCurrentClocksEventReasons"),
        nvml.ull("nvmlDeviceGetCurrentClocksThrottleReasons"),
    ),
    _one("performance_state", 1, nvml.uint("nvmlDeviceGetPerformanceState")),
    _one("encoder_util_permille", 10, nvml.uints("nvmlDeviceGetEncoderUtilization", size=2, take=1)),
    _one("decoder_util_permille", 10, nvml.uints("nvmlDeviceGetDecoderUtilization", size=2, take=1)),
    _one("power_limit_deciwatts", 0.01, nvml.uint("nvmlDeviceGetEnforcedPowerLimit"), slow=True),
    _one("fan_permille", 10, nvml.uint("nvmlDeviceGetFanSpeed"), slow=True),
    _one("pcie_link_generation", 1, nvml.uint("nvmlDeviceGetCurrPcieLinkGeneration"), slow=True),
    _one("pcie_link_width", 1, nvml.uint("nvmlDeviceGetCurrPcieLinkWidth"), slow=True),
    _one("pcie_replays", 1, nvml.uint("nvmlDeviceGetPcieReplayCounter"), slow=True),
    _one(
        "ecc_corrected_errors",
        1,
        nvml.ull("nvmlDeviceGetTotalEccErrors", py.NVML_MEMORY_ERROR_TYPE_CORRECTED, py.NVML_VOLATILE_ECC),
        slow=True,
    ),
    _one(
        "ecc_uncorrected_errors",
        1,
        nvml.ull("nvmlDeviceGetTotalEccErrors", py.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, py.NVML_VOLATILE_ECC),
        slow=True,
    ),
    Call(
        ("remapped_rows_corrected", "remapped_rows_uncorrected", "remap_pending", "remap_failed"),
        1,
        (nvml.uints("nvmlDeviceGetRemappedRows", size=4, take=4),),
        slow=True,
    ),
    _slow("power_limit_default_deciwatts", nvml.uint("nvmlDeviceGetPowerManagementDefaultLimit"), factor=0.01),
    Call(
        ("power_limit_min_deciwatts", "power_limit_max_deciwatts"),
        0.01,
        (nvml.uints("nvmlDeviceGetPowerManagementLimitConstraints", size=2, take=2),),
        slow=True,
    ),
    _slow("temperature_slowdown_celsius", _threshold(py.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)),
    _slow("temperature_shutdown_celsius", _threshold(py.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN)),
    _slow("graphics_clock_megahertz", nvml.uint("nvmlDeviceGetClockInfo", py.NVML_CLOCK_GRAPHICS)),
    _slow("video_clock_megahertz", nvml.uint("nvmlDeviceGetClockInfo", py.NVML_CLOCK_VIDEO)),
    _slow("sm_clock_max_megahertz", nvml.uint("nvmlDeviceGetMaxClockInfo", py.NVML_CLOCK_SM)),
    _slow("mem_clock_max_megahertz", nvml.uint("nvmlDeviceGetMaxClockInfo", py.NVML_CLOCK_MEM)),
    Call(("bar1_used_mebibytes", "bar1_total_mebibytes"), 1 / MIB, (nvml.BAR1,), slow=True),
    _slow(
        "nvlink_crc_errors",
        nvml.field(py.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL),
        nvml.link_errors(py.NVML_NVLINK_ERROR_DL_CRC_FLIT),
    ),
    _slow(
        "nvlink_replay_errors",
        nvml.field(py.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL),
        nvml.link_errors(py.NVML_NVLINK_ERROR_DL_REPLAY),
    ),
    _slow(
        "nvlink_recovery_errors",
        nvml.field(py.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL),
        nvml.link_errors(py.NVML_NVLINK_ERROR_DL_RECOVERY),
    ),
    _slow("nvlink_links_up", nvml.links_up()),
    _slow("ecc_enabled", nvml.uints("nvmlDeviceGetEccMode", size=2, take=1)),
    _slow("ecc_corrected_dram_errors", _errors(CORRECTED, py.NVML_MEMORY_LOCATION_DRAM)),
    _slow("ecc_uncorrected_dram_errors", _errors(UNCORRECTED, py.NVML_MEMORY_LOCATION_DRAM)),
    _slow("ecc_corrected_sram_errors", _errors(CORRECTED, py.NVML_MEMORY_LOCATION_SRAM)),
    _slow("ecc_uncorrected_sram_errors", _errors(UNCORRECTED, py.NVML_MEMORY_LOCATION_SRAM)),
    _slow("ecc_corrected_lifetime_errors", nvml.ull("nvmlDeviceGetTotalEccErrors", CORRECTED, py.NVML_AGGREGATE_ECC)),
    _slow(
        "ecc_uncorrected_lifetime_errors",
        nvml.ull("nvmlDeviceGetTotalEccErrors", UNCORRECTED, py.NVML_AGGREGATE_ECC),
    ),
    _slow(
        "retired_pages_corrected",
        nvml.retired_pages(py.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS),
    ),
    _slow("retired_pages_uncorrected", nvml.retired_pages(py.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR)),
    _slow("persistence_mode", nvml.uint("nvmlDeviceGetPersistenceMode")),
    _slow("compute_mode", nvml.uint("nvmlDeviceGetComputeMode")),
    _slow("pcie_link_generation_max", nvml.uint("nvmlDeviceGetMaxPcieLinkGeneration")),
    _slow("pcie_link_width_max", nvml.uint("nvmlDeviceGetMaxPcieLinkWidth")),
)

# Per cent to permille; MiB/s to MB/s.
METRICS: Final[tuple[Metric, ...]] = (
    Metric("graphics_active_permille", 10, py.NVML_GPM_METRIC_GRAPHICS_UTIL),
    Metric("sm_active_permille", 10, py.NVML_GPM_METRIC_SM_UTIL),
    Metric("sm_occupancy_permille", 10, py.NVML_GPM_METRIC_SM_OCCUPANCY),
    Metric("tensor_active_permille", 10, py.NVML_GPM_METRIC_ANY_TENSOR_UTIL),
    Metric("dram_active_permille", 10, py.NVML_GPM_METRIC_DRAM_BW_UTIL),
    Metric("fp16_active_permille", 10, py.NVML_GPM_METRIC_FP16_UTIL),
    Metric("fp32_active_permille", 10, py.NVML_GPM_METRIC_FP32_UTIL),
    Metric("fp64_active_permille", 10, py.NVML_GPM_METRIC_FP64_UTIL),
    Metric("pcie_tx_megabytes_per_s", MIB / 1e6, py.NVML_GPM_METRIC_PCIE_TX_PER_SEC),
    Metric("pcie_rx_megabytes_per_s", MIB / 1e6, py.NVML_GPM_METRIC_PCIE_RX_PER_SEC),
    Metric("nvlink_tx_megabytes_per_s", MIB / 1e6, py.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC),
    Metric("nvlink_rx_megabytes_per_s", MIB / 1e6, py.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC),
)

GAUGES: Final[tuple[Field, ...]] = (Field("mem_temperature_celsius", 1, py.NVML_FI_DEV_MEMORY_TEMP),)

# Where GPM does not give these. NVLink counts KiB, PCIe bytes.
COUNTERS: Final[tuple[Field, ...]] = (
    Field("pcie_tx_megabytes_per_s", 1e-6, py.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, counter=True),
    Field("pcie_rx_megabytes_per_s", 1e-6, py.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, counter=True),
    Field(
        "nvlink_tx_megabytes_per_s", 1024e-6, py.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, counter=True, scope=ALL_LINKS
    ),
    Field(
        "nvlink_rx_megabytes_per_s", 1024e-6, py.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, counter=True, scope=ALL_LINKS
    ),
)

# Where neither gives them: kB/s, over 20 ms in which the call blocks, so it has a thread of its own.
THROUGHPUT: Final[tuple[Call, ...]] = (
    _one("pcie_tx_megabytes_per_s", 1e-3, nvml.uint("nvmlDeviceGetPcieThroughput", py.NVML_PCIE_UTIL_TX_BYTES)),
    _one("pcie_rx_megabytes_per_s", 1e-3, nvml.uint("nvmlDeviceGetPcieThroughput", py.NVML_PCIE_UTIL_RX_BYTES)),
)
