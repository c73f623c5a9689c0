"""The metric table: every measured column, its SI form, unit, kind, meaning and sources.

A stored column carries its scale in its name (`power_deciwatts`); what people read is SI (`power_watts`, an ALIAS
of the table). `SCALES` is the one place that says what a suffix means.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, cast

Kind = Literal["gauge", "counter", "ratio", "rate"]


@dataclass(frozen=True)
class Scale:
    """A suffix of a stored column: the SI suffix in its place, the factor to multiply by, and the unit."""

    si_suffix: str
    factor: float
    unit: str


SCALES: Final[Mapping[str, Scale]] = {
    "_permille": Scale("", 0.001, "ratio 0-1"),
    "_deciwatts": Scale("_watts", 0.1, "W"),
    "_megabytes_per_s": Scale("_bytes_per_s", 1e6, "B/s"),
    "_kilobytes_per_s": Scale("_bytes_per_s", 1e3, "B/s"),
    "_megabits_per_s": Scale("_bits_per_s", 1e6, "bit/s"),
    "_milli_per_s": Scale("_per_s", 0.001, "1/s"),
    "_mebibytes": Scale("_bytes", 1048576, "B"),
    "_megahertz": Scale("_hertz", 1e6, "Hz"),
    "_microseconds": Scale("_seconds", 1e-6, "s"),
    "_centi": Scale("", 0.01, "1"),
    "_milli": Scale("", 0.001, "1"),
}

# Units of columns that are stored in SI already.
PLAIN: Final[Mapping[str, str]] = {
    "_joules": "J",
    "_celsius": "°C",
    "_bytes": "B",
    "_per_s": "1/s",
    "_s": "s",
}


@dataclass(frozen=True)
class Metric:
    """One measured column of one topic's table; the unit is derived from the column's name."""

    topic: str
    column: str
    kind: Kind
    meaning: str
    sources: tuple[str, ...] = ()

    @property
    def suffix(self) -> str:
        """The scale suffix of the column, or '' when it is stored in SI."""
        return next((suffix for suffix in SCALES if self.column.endswith(suffix)), "")

    @property
    def name(self) -> str:
        """The name in SI units, e.g. `power_watts`: the ALIAS column."""
        suffix = self.suffix
        return self.column.removesuffix(suffix) + SCALES[suffix].si_suffix if suffix else self.column

    @property
    def factor(self) -> float:
        """SI value = stored value * factor."""
        return SCALES[self.suffix].factor if self.suffix else 1.0

    @property
    def unit(self) -> str:
        """SI unit, '1' for a plain number."""
        if self.suffix:
            return SCALES[self.suffix].unit
        return next((unit for suffix, unit in PLAIN.items() if self.column.endswith(suffix)), "1")


# One metric a line: stored column, kind, meaning, sources in the order of preference.
_Row = tuple[str, ...]

# fmt: off
_GPU: Final[tuple[_Row, ...]] = (
    ("gpu_util_permille",         "ratio",   "share of time in which a kernel ran (not how much of the GPU it used)", "NVML nvmlDeviceGetUtilizationRates.gpu"),
    ("mem_copy_util_permille",    "ratio",   "share of time in which device memory was read or written", "NVML nvmlDeviceGetUtilizationRates.memory"),
    ("sm_active_permille",        "ratio",   "share of multiprocessors with a warp resident, mean over time", "NVML GPM NVML_GPM_METRIC_SM_UTIL", "DCGM_FI_PROF_SM_ACTIVE"),
    ("sm_occupancy_permille",     "ratio",   "resident warps over the most a multiprocessor can hold", "NVML GPM NVML_GPM_METRIC_SM_OCCUPANCY", "DCGM_FI_PROF_SM_OCCUPANCY"),
    ("tensor_active_permille",    "ratio",   "share of cycles in which the tensor pipe was active", "NVML GPM NVML_GPM_METRIC_ANY_TENSOR_UTIL", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"),
    ("dram_active_permille",      "ratio",   "device memory bandwidth over its peak", "NVML GPM NVML_GPM_METRIC_DRAM_BW_UTIL", "DCGM_FI_PROF_DRAM_ACTIVE"),
    ("fp16_active_permille",      "ratio",   "share of cycles in which the FP16 pipe was active", "NVML GPM NVML_GPM_METRIC_FP16_UTIL", "DCGM_FI_PROF_PIPE_FP16_ACTIVE"),
    ("fp32_active_permille",      "ratio",   "share of cycles in which the FP32 pipe was active", "NVML GPM NVML_GPM_METRIC_FP32_UTIL", "DCGM_FI_PROF_PIPE_FP32_ACTIVE"),
    ("fp64_active_permille",      "ratio",   "share of cycles in which the FP64 pipe was active", "NVML GPM NVML_GPM_METRIC_FP64_UTIL", "DCGM_FI_PROF_PIPE_FP64_ACTIVE"),
    ("encoder_util_permille",     "ratio",   "video encoder utilisation", "NVML nvmlDeviceGetEncoderUtilization"),
    ("decoder_util_permille",     "ratio",   "video decoder utilisation", "NVML nvmlDeviceGetDecoderUtilization"),
    ("fb_used_mebibytes",         "gauge",   "device memory in use", "NVML nvmlDeviceGetMemoryInfo_v2.used"),
    ("fb_total_mebibytes",        "gauge",   "device memory", "NVML nvmlDeviceGetMemoryInfo_v2.total"),
    ("fb_reserved_mebibytes",     "gauge",   "device memory that the driver keeps for itself", "NVML nvmlDeviceGetMemoryInfo_v2.reserved"),
    ("power_deciwatts",           "gauge",   "power drawn", "NVML nvmlDeviceGetPowerUsage"),
    ("power_limit_deciwatts",     "gauge",   "enforced power limit", "NVML nvmlDeviceGetEnforcedPowerLimit"),
    ("energy_joules",             "counter", "energy used since the driver was loaded", "NVML nvmlDeviceGetTotalEnergyConsumption"),
    ("temperature_celsius",       "gauge",   "temperature of the GPU", "NVML nvmlDeviceGetTemperature"),
    ("mem_temperature_celsius",   "gauge",   "temperature of the device memory", "NVML NVML_FI_DEV_MEMORY_TEMP"),
    ("fan_permille",              "ratio",   "fan speed over its maximum", "NVML nvmlDeviceGetFanSpeed"),
    ("sm_clock_megahertz",        "gauge",   "clock of the multiprocessors", "NVML nvmlDeviceGetClockInfo(SM)"),
    ("mem_clock_megahertz",       "gauge",   "clock of the device memory", "NVML nvmlDeviceGetClockInfo(MEM)"),
    ("throttle_reasons",          "gauge",   "bits that say why clocks are held down (nvmlClocksEventReasons)", "NVML nvmlDeviceGetCurrentClocksEventReasons"),
    ("performance_state",         "gauge",   "P-state, 0 the fastest", "NVML nvmlDeviceGetPerformanceState"),
    ("pcie_tx_megabytes_per_s",   "rate",    "sent by the GPU over PCIe", "NVML GPM NVML_GPM_METRIC_PCIE_TX_PER_SEC", "NVML nvmlDeviceGetPcieThroughput", "DCGM_FI_PROF_PCIE_TX_BYTES"),
    ("pcie_rx_megabytes_per_s",   "rate",    "received by the GPU over PCIe", "NVML GPM NVML_GPM_METRIC_PCIE_RX_PER_SEC", "NVML nvmlDeviceGetPcieThroughput", "DCGM_FI_PROF_PCIE_RX_BYTES"),
    ("nvlink_tx_megabytes_per_s", "rate",    "sent by the GPU over all NVLinks", "NVML GPM NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC", "DCGM_FI_PROF_NVLINK_TX_BYTES"),
    ("nvlink_rx_megabytes_per_s", "rate",    "received by the GPU over all NVLinks", "NVML GPM NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC", "DCGM_FI_PROF_NVLINK_RX_BYTES"),
    ("pcie_link_generation",      "gauge",   "current PCIe generation", "NVML nvmlDeviceGetCurrPcieLinkGeneration"),
    ("pcie_link_width",           "gauge",   "current PCIe lanes", "NVML nvmlDeviceGetCurrPcieLinkWidth"),
    ("pcie_replays",              "counter", "PCIe packets sent again", "NVML nvmlDeviceGetPcieReplayCounter"),
    ("ecc_corrected_errors",      "counter", "memory errors that ECC mended, since the driver was loaded", "NVML nvmlDeviceGetTotalEccErrors(CORRECTED, VOLATILE)"),
    ("ecc_uncorrected_errors",    "counter", "memory errors that ECC found and could not mend, since the driver was loaded", "NVML nvmlDeviceGetTotalEccErrors(UNCORRECTED, VOLATILE)"),
    ("remapped_rows_corrected",   "counter", "memory rows remapped after corrected errors", "NVML nvmlDeviceGetRemappedRows"),
    ("remapped_rows_uncorrected", "counter", "memory rows remapped after uncorrected errors", "NVML nvmlDeviceGetRemappedRows"),
    ("processes",                 "gauge",   "compute processes on the GPU", "NVML nvmlDeviceGetComputeRunningProcesses_v3"),
)

_HOST: Final[tuple[_Row, ...]] = (
    ("uptime_s",                 "gauge",   "time since the host was booted", "/proc/uptime"),
    ("cores",                    "gauge",   "logical CPUs online", "/proc/stat"),
    ("cpu_util_permille",        "ratio",   "share of CPU time that was neither idle nor waiting for I/O, over all cores", "/proc/stat"),
    ("cpu_user_permille",        "ratio",   "share of CPU time in user mode", "/proc/stat"),
    ("cpu_nice_permille",        "ratio",   "share of CPU time in user mode at lowered priority", "/proc/stat"),
    ("cpu_system_permille",      "ratio",   "share of CPU time in the kernel", "/proc/stat"),
    ("cpu_iowait_permille",      "ratio",   "share of CPU time idle while I/O was outstanding", "/proc/stat"),
    ("cpu_irq_permille",         "ratio",   "share of CPU time in hardware interrupts", "/proc/stat"),
    ("cpu_softirq_permille",     "ratio",   "share of CPU time in software interrupts", "/proc/stat"),
    ("cpu_steal_permille",       "ratio",   "share of CPU time that the hypervisor gave to others", "/proc/stat"),
    ("cpu_idle_permille",        "ratio",   "share of CPU time idle", "/proc/stat"),
    ("core_busy_min_permille",   "ratio",   "busy share of the least busy core", "/proc/stat"),
    ("core_busy_p50_permille",   "ratio",   "busy share of the median core", "/proc/stat"),
    ("core_busy_p90_permille",   "ratio",   "busy share that 90 % of the cores stay below", "/proc/stat"),
    ("core_busy_max_permille",   "ratio",   "busy share of the busiest core", "/proc/stat"),
    ("load1_centi",              "gauge",   "tasks running or in uninterruptible sleep, mean over 1 minute", "/proc/loadavg"),
    ("load5_centi",              "gauge",   "the same over 5 minutes", "/proc/loadavg"),
    ("load15_centi",             "gauge",   "the same over 15 minutes", "/proc/loadavg"),
    ("procs_running",            "gauge",   "tasks runnable", "/proc/stat"),
    ("procs_blocked",            "gauge",   "tasks waiting for I/O", "/proc/stat"),
    ("processes",                "gauge",   "processes that exist", "/proc"),
    ("context_switches_per_s",   "rate",    "context switches", "/proc/stat"),
    ("interrupts_per_s",         "rate",    "interrupts served", "/proc/stat"),
    ("forks_per_s",              "rate",    "processes and threads made", "/proc/stat"),
    ("mem_total_mebibytes",      "gauge",   "memory", "/proc/meminfo"),
    ("mem_available_mebibytes",  "gauge",   "memory that programs can still have without swapping", "/proc/meminfo"),
    ("mem_free_mebibytes",       "gauge",   "memory unused", "/proc/meminfo"),
    ("mem_cached_mebibytes",     "gauge",   "page cache", "/proc/meminfo"),
    ("mem_buffers_mebibytes",    "gauge",   "block device buffers", "/proc/meminfo"),
    ("mem_dirty_mebibytes",      "gauge",   "memory waiting to be written to disk", "/proc/meminfo"),
    ("mem_shared_mebibytes",     "gauge",   "shared memory and tmpfs (data loaders' /dev/shm)", "/proc/meminfo"),
    ("swap_total_mebibytes",     "gauge",   "swap space", "/proc/meminfo"),
    ("swap_used_mebibytes",      "gauge",   "swap space in use", "/proc/meminfo"),
    ("swap_in_kilobytes_per_s",  "rate",    "read from swap", "/proc/vmstat"),
    ("swap_out_kilobytes_per_s", "rate",    "written to swap", "/proc/vmstat"),
    ("major_faults_per_s",       "rate",    "page faults that had to read storage", "/proc/vmstat"),
    ("psi_cpu_some_permille",    "ratio",   "share of time in which some task was stalled on cpu", "/proc/pressure/cpu"),
    ("psi_cpu_full_permille",    "ratio",   "share of time in which all tasks were stalled on cpu", "/proc/pressure/cpu"),
    ("psi_memory_some_permille", "ratio",   "share of time in which some task was stalled on memory", "/proc/pressure/memory"),
    ("psi_memory_full_permille", "ratio",   "share of time in which all tasks were stalled on memory", "/proc/pressure/memory"),
    ("psi_io_some_permille",     "ratio",   "share of time in which some task was stalled on io", "/proc/pressure/io"),
    ("psi_io_full_permille",     "ratio",   "share of time in which all tasks were stalled on io", "/proc/pressure/io"),
)

_DEVICE: Final[tuple[_Row, ...]] = (
    ("rx_kilobytes_per_s",         "rate",    "bytes received", "/proc/net/dev"),
    ("tx_kilobytes_per_s",         "rate",    "bytes sent", "/proc/net/dev"),
    ("rx_packets_per_s",           "rate",    "packets received", "/proc/net/dev"),
    ("tx_packets_per_s",           "rate",    "packets sent", "/proc/net/dev"),
    ("rx_errors_milli_per_s",      "rate",    "packets in error when received", "/proc/net/dev"),
    ("tx_errors_milli_per_s",      "rate",    "packets in error when sent", "/proc/net/dev"),
    ("rx_drops_milli_per_s",       "rate",    "packets dropped when received", "/proc/net/dev"),
    ("tx_drops_milli_per_s",       "rate",    "packets dropped when sent", "/proc/net/dev"),
    ("link_megabits_per_s",        "gauge",   "negotiated speed of the link", "/sys/class/net/*/speed"),
    ("link_up",                    "gauge",   "1 when the link is up", "/sys/class/net/*/operstate"),
    ("read_kilobytes_per_s",       "rate",    "bytes read", "/proc/diskstats"),
    ("write_kilobytes_per_s",      "rate",    "bytes written", "/proc/diskstats"),
    ("reads_milli_per_s",          "rate",    "read operations", "/proc/diskstats"),
    ("writes_milli_per_s",         "rate",    "write operations", "/proc/diskstats"),
    ("busy_permille",              "ratio",   "share of time with a request in flight", "/proc/diskstats"),
    ("queue_centi",                "gauge",   "requests in flight, mean over the interval", "/proc/diskstats"),
    ("read_latency_microseconds",  "gauge",   "mean time of a read", "/proc/diskstats"),
    ("write_latency_microseconds", "gauge",   "mean time of a write", "/proc/diskstats"),
)

_JOB: Final[tuple[_Row, ...]] = (
    ("processes",            "gauge",   "processes in the tree", "/proc/<pid>/stat"),
    ("cpu_cores_milli",      "gauge",   "cores used, mean over the interval", "/proc/<pid>/stat"),
    ("rss_mebibytes",        "gauge",   "resident memory of the tree", "/proc/<pid>/stat"),
    ("read_bytes",           "gauge",   "bytes read from storage in the interval", "/proc/<pid>/io"),
    ("written_bytes",        "gauge",   "bytes written to storage in the interval", "/proc/<pid>/io"),
    ("gpu_memory_mebibytes", "gauge",   "device memory of the tree over all its GPUs", "NVML nvmlDeviceGetComputeRunningProcesses_v3"),
)
# fmt: on


def _metrics(topic: str, table: tuple[_Row, ...]) -> tuple[Metric, ...]:
    return tuple(
        Metric(topic, column, cast(Kind, kind), meaning, tuple(sources)) for column, kind, meaning, *sources in table
    )


METRICS: Final[tuple[Metric, ...]] = (
    *_metrics("gpu-samples", _GPU),
    *_metrics("host-samples", _HOST),
    *_metrics("device-samples", _DEVICE),
    *_metrics("job-events", _JOB),
)


def of_topic(topic: str) -> tuple[Metric, ...]:
    """The metrics of one topic, in the order of their columns."""
    return tuple(metric for metric in METRICS if metric.topic == topic)
