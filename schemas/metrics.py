"""The metric table: every measured column, its SI form, unit, kind, meaning and sources.

A stored column carries its scale in its name (`power_deciwatts`); what people read is SI (`power_watts`, an ALIAS
of the table). `SCALES` is the one place that says what a suffix means.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

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


def _nvml(*calls: str) -> tuple[str, ...]:
    return tuple(f"NVML {call}" for call in calls)


_GPU: Final = (
    Metric(
        "gpu-samples",
        "gpu_util_permille",
        "ratio",
        "share of time in which a kernel ran (not how much of the GPU it used)",
        _nvml("nvmlDeviceGetUtilizationRates.gpu"),
    ),
    Metric(
        "gpu-samples",
        "mem_copy_util_permille",
        "ratio",
        "share of time in which device memory was read or written",
        _nvml("nvmlDeviceGetUtilizationRates.memory"),
    ),
    Metric(
        "gpu-samples",
        "sm_active_permille",
        "ratio",
        "share of multiprocessors with a warp resident, mean over time",
        ("NVML GPM NVML_GPM_METRIC_SM_UTIL", "DCGM_FI_PROF_SM_ACTIVE"),
    ),
    Metric(
        "gpu-samples",
        "sm_occupancy_permille",
        "ratio",
        "resident warps over the most a multiprocessor can hold",
        ("NVML GPM NVML_GPM_METRIC_SM_OCCUPANCY", "DCGM_FI_PROF_SM_OCCUPANCY"),
    ),
    Metric(
        "gpu-samples",
        "tensor_active_permille",
        "ratio",
        "share of cycles in which the tensor pipe was active",
        ("NVML GPM NVML_GPM_METRIC_ANY_TENSOR_UTIL", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"),
    ),
    Metric(
        "gpu-samples",
        "dram_active_permille",
        "ratio",
        "device memory bandwidth over its peak",
        ("NVML GPM NVML_GPM_METRIC_DRAM_BW_UTIL", "DCGM_FI_PROF_DRAM_ACTIVE"),
    ),
    Metric(
        "gpu-samples",
        "fp16_active_permille",
        "ratio",
        "share of cycles in which the FP16 pipe was active",
        ("NVML GPM NVML_GPM_METRIC_FP16_UTIL", "DCGM_FI_PROF_PIPE_FP16_ACTIVE"),
    ),
    Metric(
        "gpu-samples",
        "fp32_active_permille",
        "ratio",
        "share of cycles in which the FP32 pipe was active",
        ("NVML GPM NVML_GPM_METRIC_FP32_UTIL", "DCGM_FI_PROF_PIPE_FP32_ACTIVE"),
    ),
    Metric(
        "gpu-samples",
        "fp64_active_permille",
        "ratio",
        "share of cycles in which the FP64 pipe was active",
        ("NVML GPM NVML_GPM_METRIC_FP64_UTIL", "DCGM_FI_PROF_PIPE_FP64_ACTIVE"),
    ),
    Metric(
        "gpu-samples",
        "encoder_util_permille",
        "ratio",
        "video encoder utilisation",
        _nvml("nvmlDeviceGetEncoderUtilization"),
    ),
    Metric(
        "gpu-samples",
        "decoder_util_permille",
        "ratio",
        "video decoder utilisation",
        _nvml("nvmlDeviceGetDecoderUtilization"),
    ),
    Metric(
        "gpu-samples",
        "fb_used_mebibytes",
        "gauge",
        "device memory in use",
        _nvml("nvmlDeviceGetMemoryInfo_v2.used"),
    ),
    Metric(
        "gpu-samples",
        "fb_total_mebibytes",
        "gauge",
        "device memory",
        _nvml("nvmlDeviceGetMemoryInfo_v2.total"),
    ),
    Metric(
        "gpu-samples",
        "fb_reserved_mebibytes",
        "gauge",
        "device memory that the driver keeps for itself",
        _nvml("nvmlDeviceGetMemoryInfo_v2.reserved"),
    ),
    Metric("gpu-samples", "power_deciwatts", "gauge", "power drawn", _nvml("nvmlDeviceGetPowerUsage")),
    Metric(
        "gpu-samples",
        "power_limit_deciwatts",
        "gauge",
        "enforced power limit",
        _nvml("nvmlDeviceGetEnforcedPowerLimit"),
    ),
    Metric(
        "gpu-samples",
        "energy_joules",
        "counter",
        "energy used since the driver was loaded",
        _nvml("nvmlDeviceGetTotalEnergyConsumption"),
    ),
    Metric(
        "gpu-samples",
        "temperature_celsius",
        "gauge",
        "temperature of the GPU",
        _nvml("nvmlDeviceGetTemperature"),
    ),
    Metric(
        "gpu-samples",
        "mem_temperature_celsius",
        "gauge",
        "temperature of the device memory",
        _nvml("NVML_FI_DEV_MEMORY_TEMP"),
    ),
    Metric("gpu-samples", "fan_permille", "ratio", "fan speed over its maximum", _nvml("nvmlDeviceGetFanSpeed")),
    Metric(
        "gpu-samples",
        "sm_clock_megahertz",
        "gauge",
        "clock of the multiprocessors",
        _nvml("nvmlDeviceGetClockInfo(SM)"),
    ),
    Metric(
        "gpu-samples",
        "mem_clock_megahertz",
        "gauge",
        "clock of the device memory",
        _nvml("nvmlDeviceGetClockInfo(MEM)"),
    ),
    Metric(
        "gpu-samples",
        "throttle_reasons",
        "gauge",
        "bits that say why clocks are held down (nvmlClocksEventReasons)",
        _nvml("nvmlDeviceGetCurrentClocksEventReasons"),
    ),
    Metric(
        "gpu-samples",
        "performance_state",
        "gauge",
        "P-state, 0 the fastest",
        _nvml("nvmlDeviceGetPerformanceState"),
    ),
    Metric(
        "gpu-samples",
        "pcie_tx_megabytes_per_s",
        "rate",
        "sent by the GPU over PCIe",
        (
            "NVML GPM NVML_GPM_METRIC_PCIE_TX_PER_SEC",
            "NVML nvmlDeviceGetPcieThroughput",
            "DCGM_FI_PROF_PCIE_TX_BYTES",
        ),
    ),
    Metric(
        "gpu-samples",
        "pcie_rx_megabytes_per_s",
        "rate",
        "received by the GPU over PCIe",
        (
            "NVML GPM NVML_GPM_METRIC_PCIE_RX_PER_SEC",
            "NVML nvmlDeviceGetPcieThroughput",
            "DCGM_FI_PROF_PCIE_RX_BYTES",
        ),
    ),
    Metric(
        "gpu-samples",
        "nvlink_tx_megabytes_per_s",
        "rate",
        "sent by the GPU over all NVLinks",
        ("NVML GPM NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC", "DCGM_FI_PROF_NVLINK_TX_BYTES"),
    ),
    Metric(
        "gpu-samples",
        "nvlink_rx_megabytes_per_s",
        "rate",
        "received by the GPU over all NVLinks",
        ("NVML GPM NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC", "DCGM_FI_PROF_NVLINK_RX_BYTES"),
    ),
    Metric(
        "gpu-samples",
        "pcie_link_generation",
        "gauge",
        "current PCIe generation",
        _nvml("nvmlDeviceGetCurrPcieLinkGeneration"),
    ),
    Metric(
        "gpu-samples",
        "pcie_link_width",
        "gauge",
        "current PCIe lanes",
        _nvml("nvmlDeviceGetCurrPcieLinkWidth"),
    ),
    Metric(
        "gpu-samples",
        "pcie_replays",
        "counter",
        "PCIe packets sent again",
        _nvml("nvmlDeviceGetPcieReplayCounter"),
    ),
    Metric(
        "gpu-samples",
        "ecc_corrected_errors",
        "counter",
        "memory errors that ECC mended, since the driver was loaded",
        _nvml("nvmlDeviceGetTotalEccErrors(CORRECTED, VOLATILE)"),
    ),
    Metric(
        "gpu-samples",
        "ecc_uncorrected_errors",
        "counter",
        "memory errors that ECC found and could not mend, since the driver was loaded",
        _nvml("nvmlDeviceGetTotalEccErrors(UNCORRECTED, VOLATILE)"),
    ),
    Metric(
        "gpu-samples",
        "remapped_rows_corrected",
        "counter",
        "memory rows remapped after corrected errors",
        _nvml("nvmlDeviceGetRemappedRows"),
    ),
    Metric(
        "gpu-samples",
        "remapped_rows_uncorrected",
        "counter",
        "memory rows remapped after uncorrected errors",
        _nvml("nvmlDeviceGetRemappedRows"),
    ),
    Metric(
        "gpu-samples",
        "processes",
        "gauge",
        "compute processes on the GPU",
        _nvml("nvmlDeviceGetComputeRunningProcesses_v3"),
    ),
)

_STAT, _MEMINFO = ("/proc/stat",), ("/proc/meminfo",)
_HOST: Final = (
    Metric("host-samples", "uptime_s", "gauge", "time since the host was booted", ("/proc/uptime",)),
    Metric("host-samples", "cores", "gauge", "logical CPUs online", _STAT),
    Metric(
        "host-samples",
        "cpu_util_permille",
        "ratio",
        "share of CPU time that was neither idle nor waiting for I/O, over all cores",
        _STAT,
    ),
    Metric("host-samples", "cpu_user_permille", "ratio", "share of CPU time in user mode", _STAT),
    Metric(
        "host-samples",
        "cpu_nice_permille",
        "ratio",
        "share of CPU time in user mode at lowered priority",
        _STAT,
    ),
    Metric("host-samples", "cpu_system_permille", "ratio", "share of CPU time in the kernel", _STAT),
    Metric(
        "host-samples",
        "cpu_iowait_permille",
        "ratio",
        "share of CPU time idle while I/O was outstanding",
        _STAT,
    ),
    Metric("host-samples", "cpu_irq_permille", "ratio", "share of CPU time in hardware interrupts", _STAT),
    Metric("host-samples", "cpu_softirq_permille", "ratio", "share of CPU time in software interrupts", _STAT),
    Metric(
        "host-samples",
        "cpu_steal_permille",
        "ratio",
        "share of CPU time that the hypervisor gave to others",
        _STAT,
    ),
    Metric("host-samples", "cpu_idle_permille", "ratio", "share of CPU time idle", _STAT),
    Metric("host-samples", "core_busy_min_permille", "ratio", "busy share of the least busy core", _STAT),
    Metric("host-samples", "core_busy_p50_permille", "ratio", "busy share of the median core", _STAT),
    Metric(
        "host-samples",
        "core_busy_p90_permille",
        "ratio",
        "busy share that 90 % of the cores stay below",
        _STAT,
    ),
    Metric("host-samples", "core_busy_max_permille", "ratio", "busy share of the busiest core", _STAT),
    Metric(
        "host-samples",
        "load1_centi",
        "gauge",
        "tasks running or in uninterruptible sleep, mean over 1 minute",
        ("/proc/loadavg",),
    ),
    Metric("host-samples", "load5_centi", "gauge", "the same over 5 minutes", ("/proc/loadavg",)),
    Metric("host-samples", "load15_centi", "gauge", "the same over 15 minutes", ("/proc/loadavg",)),
    Metric("host-samples", "procs_running", "gauge", "tasks runnable", _STAT),
    Metric("host-samples", "procs_blocked", "gauge", "tasks waiting for I/O", _STAT),
    Metric("host-samples", "processes", "gauge", "processes that exist", ("/proc",)),
    Metric("host-samples", "context_switches_per_s", "rate", "context switches", _STAT),
    Metric("host-samples", "interrupts_per_s", "rate", "interrupts served", _STAT),
    Metric("host-samples", "forks_per_s", "rate", "processes and threads made", _STAT),
    Metric("host-samples", "mem_total_mebibytes", "gauge", "memory", _MEMINFO),
    Metric(
        "host-samples",
        "mem_available_mebibytes",
        "gauge",
        "memory that programs can still have without swapping",
        _MEMINFO,
    ),
    Metric("host-samples", "mem_free_mebibytes", "gauge", "memory unused", _MEMINFO),
    Metric("host-samples", "mem_cached_mebibytes", "gauge", "page cache", _MEMINFO),
    Metric("host-samples", "mem_buffers_mebibytes", "gauge", "block device buffers", _MEMINFO),
    Metric("host-samples", "mem_dirty_mebibytes", "gauge", "memory waiting to be written to disk", _MEMINFO),
    Metric(
        "host-samples",
        "mem_shared_mebibytes",
        "gauge",
        "shared memory and tmpfs (data loaders' /dev/shm)",
        _MEMINFO,
    ),
    Metric("host-samples", "swap_total_mebibytes", "gauge", "swap space", _MEMINFO),
    Metric("host-samples", "swap_used_mebibytes", "gauge", "swap space in use", _MEMINFO),
    Metric("host-samples", "swap_in_kilobytes_per_s", "rate", "read from swap", ("/proc/vmstat",)),
    Metric("host-samples", "swap_out_kilobytes_per_s", "rate", "written to swap", ("/proc/vmstat",)),
    Metric(
        "host-samples",
        "major_faults_per_s",
        "rate",
        "page faults that had to read storage",
        ("/proc/vmstat",),
    ),
    *(
        Metric(
            "host-samples",
            f"psi_{what}_{how}_permille",
            "ratio",
            f"share of time in which {who} stalled on {what}",
            (f"/proc/pressure/{what}",),
        )
        for what in ("cpu", "memory", "io")
        for how, who in (("some", "some task was"), ("full", "all tasks were"))
    ),
)

_DEV: Final = ("/proc/net/dev",)
_DISK: Final = ("/proc/diskstats",)
_DEVICE: Final = (
    *(
        Metric(
            "device-samples",
            f"{way}_{column}",
            "rate",
            f"{meaning} {'received' if way == 'rx' else 'sent'}",
            _DEV,
        )
        for column, meaning in (
            ("kilobytes_per_s", "bytes"),
            ("packets_per_s", "packets"),
            ("errors_milli_per_s", "packets in error when"),
            ("drops_milli_per_s", "packets dropped when"),
        )
        for way in ("rx", "tx")
    ),
    Metric(
        "device-samples",
        "link_megabits_per_s",
        "gauge",
        "negotiated speed of the link",
        ("/sys/class/net/*/speed",),
    ),
    Metric("device-samples", "link_up", "gauge", "1 when the link is up", ("/sys/class/net/*/operstate",)),
    Metric("device-samples", "read_kilobytes_per_s", "rate", "bytes read", _DISK),
    Metric("device-samples", "write_kilobytes_per_s", "rate", "bytes written", _DISK),
    Metric("device-samples", "reads_milli_per_s", "rate", "read operations", _DISK),
    Metric("device-samples", "writes_milli_per_s", "rate", "write operations", _DISK),
    Metric("device-samples", "busy_permille", "ratio", "share of time with a request in flight", _DISK),
    Metric("device-samples", "queue_centi", "gauge", "requests in flight, mean over the interval", _DISK),
    Metric("device-samples", "read_latency_microseconds", "gauge", "mean time of a read", _DISK),
    Metric("device-samples", "write_latency_microseconds", "gauge", "mean time of a write", _DISK),
)

_JOB: Final = (
    Metric("job-events", "processes", "gauge", "processes in the tree", ("/proc/<pid>/stat",)),
    Metric("job-events", "cpu_cores_milli", "gauge", "cores used, mean over the interval", ("/proc/<pid>/stat",)),
    Metric("job-events", "rss_mebibytes", "gauge", "resident memory of the tree", ("/proc/<pid>/stat",)),
    Metric("job-events", "read_bytes", "gauge", "bytes read from storage in the interval", ("/proc/<pid>/io",)),
    Metric(
        "job-events",
        "written_bytes",
        "gauge",
        "bytes written to storage in the interval",
        ("/proc/<pid>/io",),
    ),
    Metric(
        "job-events",
        "gpu_memory_mebibytes",
        "gauge",
        "device memory of the tree over all its GPUs",
        _nvml("nvmlDeviceGetComputeRunningProcesses_v3"),
    ),
)

METRICS: Final[tuple[Metric, ...]] = (*_GPU, *_HOST, *_DEVICE, *_JOB)


def of_topic(topic: str) -> tuple[Metric, ...]:
    """The metrics of one topic, in the order of their columns."""
    return tuple(metric for metric in METRICS if metric.topic == topic)
