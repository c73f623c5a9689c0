"""What dynolog and AIBooster show, row by row, and where it stands in our tables. A test holds that no row is empty."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from warpmeter.schemas import equals


@dataclass(frozen=True)
class Place:
    """A field of a topic's rows; `note` says what is to be known about it."""

    topic: str
    field: str
    note: str = ""


def _gpu(field: str, note: str = "") -> Place:
    return Place("gpu-samples", field, note)


def _device(field: str, note: str) -> Place:
    return Place("device-samples", field, note)


# What is no metric, so not in `equals`: names and the like.
IDENTITIES: Final[Mapping[str, Place]] = {
    "gpu_name": _gpu("model"),
    "gpu_uuid": _gpu("uuid"),
    "device": _gpu("gpu"),
    "dcgm_error": Place("source-health", "state", "says which column could not be read, and why"),
}

DYNOLOG_PAGE: Final = (
    "graphics_engine_active_ratio", "sm_active_ratio", "sm_occupancy", "gpu_frequency_mhz", "fp16_active",
    "fp32_active", "fp64_active", "tensorcore_active", "hbm_mem_bw_util", "pcie_tx_bytes", "pcie_rx_bytes",
    "nvlink_tx_bytes", "nvlink_rx_bytes", "minor_id", "gpu_device_utilization", "gpu_memory_utilization",
    "gpu_power_draw",
)  # fmt: skip
"""The rows of dynolog's docs/Metrics.md."""

DCGM_FIELDS: Final[Mapping[int, str]] = {
    50: "gpu_name", 54: "gpu_uuid", 55: "minor_id", 100: "gpu_frequency_mhz", 155: "gpu_power_draw",
    203: "gpu_device_utilization", 204: "gpu_memory_utilization", 1001: "graphics_engine_active_ratio",
    1002: "sm_active_ratio", 1003: "sm_occupancy", 1004: "tensorcore_active", 1005: "hbm_mem_bw_util",
    1006: "fp64_active", 1007: "fp32_active", 1008: "fp16_active", 1009: "pcie_tx_bytes", 1010: "pcie_rx_bytes",
    1011: "nvlink_tx_bytes", 1012: "nvlink_rx_bytes",
}  # fmt: skip
"""DCGM's fields that dynolog reads: number, and dynolog's name."""

DYNOLOG_HOST: Final = (
    "uptime", "cpu_util", "cpu_u", "cpu_s", "cpu_i", "cpu_u_{}", "cpu_s_{}", "cpu_i_{}",
    "mips", "mega_cycles_per_second",
    "rx_bytes_{}", "rx_packets_{}", "rx_errors_{}", "rx_drops_{}",
    "tx_bytes_{}", "tx_packets_{}", "tx_errors_{}", "tx_drops_{}",
)  # fmt: skip
"""What its kernel and perf monitors log, documented or not."""

_MILLISECONDS: Final = {
    "u": "user",
    "n": "nice",
    "s": "system",
    "w": "iowait",
    "x": "irq",
    "y": "softirq",
    "z": "steal",
}
HOST_TIMES: Final[Mapping[str, Place]] = {
    f"cpu_{letter}_ms": Place("host-samples", f"cpu_{name}_permille", "times cores, times the interval")
    for letter, name in _MILLISECONDS.items()
}

DYNOLOG_RDMA: Final = (
    "port_xmit_data", "port_xmit_packets", "port_xmit_discards", "port_rcv_data", "port_rcv_packets", "port_rcv_errors",
    "np_cnp_sent", "rp_cnp_handled", "np_ecn_marked_roce_packets", "rx_atomic_requests", "rx_read_requests",
    "rx_write_requests", "tx_pause_ctrl_phy", "tx_pause_storm_warning_events", "tx_pause_storm_error_events",
)  # fmt: skip
"""What it has code to read of RDMA ports and their NICs."""

PRIORITY_PAUSES: Final[Mapping[str, Place]] = {
    f"tx_prio{priority}_pause": _device("tx_prio_pauses_milli_per_s", "over all priorities") for priority in range(8)
}

PANELS: Final[Mapping[str, tuple[Place, ...]]] = {
    "GPU Utilization": (_gpu("gpu_util_permille"),),
    "GPU SM Activity": (_gpu("sm_active_permille"),),
    "CPU Utilization": (Place("host-samples", "cpu_util_permille"),),
    "Memory Bandwidth": (
        _device("mem_read_megabytes_per_s", "kind socket"),
        _device("mem_write_megabytes_per_s", "kind socket"),
    ),
    "L2 Cache Hit Ratio": (_device("l2_hit_ratio_permille", "kind socket"),),
    "L3 Cache Hit Ratio": (_device("l3_hit_ratio_permille", "kind socket"),),
    "Network Bandwidth": (
        _device("rx_kilobytes_per_s", "kinds nic and rdma"),
        _device("tx_kilobytes_per_s", "kinds nic and rdma"),
    ),
    "Storage Bandwidth": (
        _device("read_kilobytes_per_s", "kinds disk and mount"),
        _device("write_kilobytes_per_s", "kinds disk and mount"),
    ),
}
"""The eight panels of a host in AIBooster; the view `hosts` has them too."""

HOST_COLUMNS: Final[Mapping[str, str]] = {
    "GPU Utilization": "gpu_util",
    "GPU SM Activity": "sm_active",
    "CPU Utilization": "cpu_util",
    "Memory Bandwidth": "mem_bandwidth_bytes_per_s",
    "L2 Cache Hit Ratio": "l2_hit_ratio",
    "L3 Cache Hit Ratio": "l3_hit_ratio",
    "Network Bandwidth": "network_bytes_per_s",
    "Storage Bandwidth": "storage_bytes_per_s",
}


def place_of(name: str) -> Place:
    """Where a metric of dynolog stands; raises KeyError when it stands nowhere."""
    if name in (known := {**IDENTITIES, **HOST_TIMES, **PRIORITY_PAUSES}):
        return known[name]
    for of, table in equals.DYNOLOG.items():
        for column, alias in table.items():
            if name in (alias.name, alias.name.removeprefix("{}.")):
                topic, _, kind = of.partition("/")
                return Place(topic, column, f"kind {kind}" if kind else "")
    raise KeyError(name)
