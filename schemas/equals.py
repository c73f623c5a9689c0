"""What other systems call our metrics: dynolog, DCGM (its exporter uses the field's name) and node exporter.

Names were read in facebookincubator/dynolog (docs/Metrics.md, KernelCollector.cpp, PerfMonitor.cpp, rdmamon), in DCGM's
dcgm_fields.h, and on the page of prometheus-node-exporter 1.5 and in its program.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Alias:
    """A metric under dynolog's name: `alias = ours in SI * factor`. `{}` in the name stands for the device.

    `of_interval`: what was counted in the interval, so a rate of ours times the interval, or a counter's growth in it.
    """

    name: str
    factor: float = 1.0
    of_interval: bool = False


def _per_cent(name: str) -> Alias:
    return Alias(name, 100.0)


def _delta(name: str) -> Alias:
    return Alias(name, of_interval=True)


# Topic (and kind of device), then stored column.
# fmt: off
DYNOLOG: Final[Mapping[str, Mapping[str, Alias]]] = {
    "gpu-samples": {
        "gpu_util_permille": _per_cent("gpu_device_utilization"),
        "mem_copy_util_permille": _per_cent("gpu_memory_utilization"),
        "graphics_active_permille": Alias("graphics_engine_active_ratio"),
        "sm_active_permille": Alias("sm_active_ratio"),
        "sm_occupancy_permille": Alias("sm_occupancy"),
        "tensor_active_permille": Alias("tensorcore_active"),
        "dram_active_permille": Alias("hbm_mem_bw_util"),
        "fp16_active_permille": Alias("fp16_active"),
        "fp32_active_permille": Alias("fp32_active"),
        "fp64_active_permille": Alias("fp64_active"),
        "power_deciwatts": Alias("gpu_power_draw"),
        "sm_clock_megahertz": Alias("gpu_frequency_mhz", 1e-6),
        "pcie_tx_megabytes_per_s": Alias("pcie_tx_bytes"),
        "pcie_rx_megabytes_per_s": Alias("pcie_rx_bytes"),
        "nvlink_tx_megabytes_per_s": Alias("nvlink_tx_bytes"),
        "nvlink_rx_megabytes_per_s": Alias("nvlink_rx_bytes"),
        "minor_number": Alias("minor_id"),
    },
    "host-samples": {
        "uptime_s": Alias("uptime"),
        "cpu_util_permille": _per_cent("cpu_util"),
        "cpu_user_permille": _per_cent("cpu_u"),
        "cpu_system_permille": _per_cent("cpu_s"),
        "cpu_idle_permille": _per_cent("cpu_i"),
    },
    "device-samples/nic": {
        "rx_kilobytes_per_s": _delta("rx_bytes_{}"),
        "tx_kilobytes_per_s": _delta("tx_bytes_{}"),
        "rx_packets_per_s": _delta("rx_packets_{}"),
        "tx_packets_per_s": _delta("tx_packets_{}"),
        "rx_errors_milli_per_s": _delta("rx_errors_{}"),
        "tx_errors_milli_per_s": _delta("tx_errors_{}"),
        "rx_drops_milli_per_s": _delta("rx_drops_{}"),
        "tx_drops_milli_per_s": _delta("tx_drops_{}"),
        "tx_pauses_milli_per_s": _delta("{}.tx_pause_ctrl_phy"),
        "pause_storm_warnings": _delta("{}.tx_pause_storm_warning_events"),
        "pause_storm_errors": _delta("{}.tx_pause_storm_error_events"),
    },
    "device-samples/rdma": {  # its data counters are in words of four bytes
        "rx_kilobytes_per_s": Alias("{}.port_rcv_data", 0.25, of_interval=True),
        "tx_kilobytes_per_s": Alias("{}.port_xmit_data", 0.25, of_interval=True),
        "rx_packets_per_s": _delta("{}.port_rcv_packets"),
        "tx_packets_per_s": _delta("{}.port_xmit_packets"),
        "rx_errors_milli_per_s": _delta("{}.port_rcv_errors"),
        "tx_drops_milli_per_s": _delta("{}.port_xmit_discards"),
        "cnp_sent_milli_per_s": _delta("{}.np_cnp_sent"),
        "cnp_handled_milli_per_s": _delta("{}.rp_cnp_handled"),
        "ecn_marked_milli_per_s": _delta("{}.np_ecn_marked_roce_packets"),
        "rdma_reads_per_s": _delta("{}.rx_read_requests"),
        "rdma_writes_per_s": _delta("{}.rx_write_requests"),
        "rdma_atomics_per_s": _delta("{}.rx_atomic_requests"),
    },
    "device-samples/numa": {
        "cpu_user_permille": _per_cent("cpu_u_{}"),
        "cpu_system_permille": _per_cent("cpu_s_{}"),
        "cpu_idle_permille": _per_cent("cpu_i_{}"),
    },
    "device-samples/socket": {
        "instructions_mega_per_s": Alias("mips", 1e-6),
        "cycles_mega_per_s": Alias("mega_cycles_per_second", 1e-6),
    },
}

DCGM: Final[Mapping[str, str]] = {  # of gpu-samples
    "gpu_util_permille": "DCGM_FI_DEV_GPU_UTIL",
    "mem_copy_util_permille": "DCGM_FI_DEV_MEM_COPY_UTIL",
    "graphics_active_permille": "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "sm_active_permille": "DCGM_FI_PROF_SM_ACTIVE",
    "sm_occupancy_permille": "DCGM_FI_PROF_SM_OCCUPANCY",
    "tensor_active_permille": "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    "dram_active_permille": "DCGM_FI_PROF_DRAM_ACTIVE",
    "fp16_active_permille": "DCGM_FI_PROF_PIPE_FP16_ACTIVE",
    "fp32_active_permille": "DCGM_FI_PROF_PIPE_FP32_ACTIVE",
    "fp64_active_permille": "DCGM_FI_PROF_PIPE_FP64_ACTIVE",
    "encoder_util_permille": "DCGM_FI_DEV_ENC_UTIL",
    "decoder_util_permille": "DCGM_FI_DEV_DEC_UTIL",
    "fb_used_mebibytes": "DCGM_FI_DEV_FB_USED",
    "fb_total_mebibytes": "DCGM_FI_DEV_FB_TOTAL",
    "fb_reserved_mebibytes": "DCGM_FI_DEV_FB_RESERVED",
    "power_deciwatts": "DCGM_FI_DEV_POWER_USAGE",
    "power_limit_deciwatts": "DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
    "power_limit_default_deciwatts": "DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF",
    "power_limit_min_deciwatts": "DCGM_FI_DEV_POWER_MGMT_LIMIT_MIN",
    "power_limit_max_deciwatts": "DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX",
    "energy_joules": "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    "temperature_celsius": "DCGM_FI_DEV_GPU_TEMP",
    "mem_temperature_celsius": "DCGM_FI_DEV_MEMORY_TEMP",
    "temperature_slowdown_celsius": "DCGM_FI_DEV_SLOWDOWN_TEMP",
    "temperature_shutdown_celsius": "DCGM_FI_DEV_SHUTDOWN_TEMP",
    "fan_permille": "DCGM_FI_DEV_FAN_SPEED",
    "sm_clock_megahertz": "DCGM_FI_DEV_SM_CLOCK",
    "mem_clock_megahertz": "DCGM_FI_DEV_MEM_CLOCK",
    "video_clock_megahertz": "DCGM_FI_DEV_VIDEO_CLOCK",
    "sm_clock_max_megahertz": "DCGM_FI_DEV_MAX_SM_CLOCK",
    "mem_clock_max_megahertz": "DCGM_FI_DEV_MAX_MEM_CLOCK",
    "throttle_reasons": "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
    "performance_state": "DCGM_FI_DEV_PSTATE",
    "pcie_tx_megabytes_per_s": "DCGM_FI_PROF_PCIE_TX_BYTES",
    "pcie_rx_megabytes_per_s": "DCGM_FI_PROF_PCIE_RX_BYTES",
    "nvlink_tx_megabytes_per_s": "DCGM_FI_PROF_NVLINK_TX_BYTES",
    "nvlink_rx_megabytes_per_s": "DCGM_FI_PROF_NVLINK_RX_BYTES",
    "nvlink_crc_errors": "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
    "nvlink_replay_errors": "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
    "nvlink_recovery_errors": "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
    "pcie_link_generation": "DCGM_FI_DEV_PCIE_LINK_GEN",
    "pcie_link_width": "DCGM_FI_DEV_PCIE_LINK_WIDTH",
    "pcie_link_generation_max": "DCGM_FI_DEV_PCIE_MAX_LINK_GEN",
    "pcie_link_width_max": "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH",
    "pcie_replays": "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
    "bar1_used_mebibytes": "DCGM_FI_DEV_BAR1_USED",
    "bar1_total_mebibytes": "DCGM_FI_DEV_BAR1_TOTAL",
    "ecc_enabled": "DCGM_FI_DEV_ECC_CURRENT",
    "ecc_corrected_errors": "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
    "ecc_uncorrected_errors": "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
    "ecc_corrected_dram_errors": "DCGM_FI_DEV_ECC_SBE_VOL_DEV",
    "ecc_uncorrected_dram_errors": "DCGM_FI_DEV_ECC_DBE_VOL_DEV",
    "ecc_corrected_sram_errors": "DCGM_FI_DEV_ECC_SBE_VOL_SRM",
    "ecc_uncorrected_sram_errors": "DCGM_FI_DEV_ECC_DBE_VOL_SRM",
    "ecc_corrected_lifetime_errors": "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL",
    "ecc_uncorrected_lifetime_errors": "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
    "retired_pages_corrected": "DCGM_FI_DEV_RETIRED_SBE",
    "retired_pages_uncorrected": "DCGM_FI_DEV_RETIRED_DBE",
    "remapped_rows_corrected": "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
    "remapped_rows_uncorrected": "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
    "remap_pending": "DCGM_FI_DEV_ROW_REMAP_PENDING",
    "remap_failed": "DCGM_FI_DEV_ROW_REMAP_FAILURE",
    "persistence_mode": "DCGM_FI_DEV_PERSISTENCE_MODE",
    "compute_mode": "DCGM_FI_DEV_COMPUTE_MODE",
    "minor_number": "DCGM_FI_DEV_MINOR_NUMBER",
}

NODE_EXPORTER: Final[Mapping[str, Mapping[str, str]]] = {
    "host-samples": {
        "uptime_s": "node_boot_time_seconds",
        "cores": "node_cpu_seconds_total",
        "cpu_util_permille": "node_cpu_seconds_total",
        "cpu_user_permille": "node_cpu_seconds_total",
        "cpu_nice_permille": "node_cpu_seconds_total",
        "cpu_system_permille": "node_cpu_seconds_total",
        "cpu_iowait_permille": "node_cpu_seconds_total",
        "cpu_irq_permille": "node_cpu_seconds_total",
        "cpu_softirq_permille": "node_cpu_seconds_total",
        "cpu_steal_permille": "node_cpu_seconds_total",
        "cpu_idle_permille": "node_cpu_seconds_total",
        "core_busy_min_permille": "node_cpu_seconds_total",
        "core_busy_p50_permille": "node_cpu_seconds_total",
        "core_busy_p90_permille": "node_cpu_seconds_total",
        "core_busy_max_permille": "node_cpu_seconds_total",
        "load1_centi": "node_load1",
        "load5_centi": "node_load5",
        "load15_centi": "node_load15",
        "procs_running": "node_procs_running",
        "procs_blocked": "node_procs_blocked",
        "processes": "node_processes_pids",
        "context_switches_per_s": "node_context_switches_total",
        "interrupts_per_s": "node_intr_total",
        "forks_per_s": "node_forks_total",
        "mem_total_mebibytes": "node_memory_MemTotal_bytes",
        "mem_available_mebibytes": "node_memory_MemAvailable_bytes",
        "mem_free_mebibytes": "node_memory_MemFree_bytes",
        "mem_cached_mebibytes": "node_memory_Cached_bytes",
        "mem_buffers_mebibytes": "node_memory_Buffers_bytes",
        "mem_dirty_mebibytes": "node_memory_Dirty_bytes",
        "mem_shared_mebibytes": "node_memory_Shmem_bytes",
        "swap_total_mebibytes": "node_memory_SwapTotal_bytes",
        "swap_used_mebibytes": "node_memory_SwapFree_bytes",
        "swap_in_kilobytes_per_s": "node_vmstat_pswpin",
        "swap_out_kilobytes_per_s": "node_vmstat_pswpout",
        "major_faults_per_s": "node_vmstat_pgmajfault",
        "psi_cpu_some_permille": "node_pressure_cpu_waiting_seconds_total",
        "psi_memory_some_permille": "node_pressure_memory_waiting_seconds_total",
        "psi_memory_full_permille": "node_pressure_memory_stalled_seconds_total",
        "psi_io_some_permille": "node_pressure_io_waiting_seconds_total",
        "psi_io_full_permille": "node_pressure_io_stalled_seconds_total",
        "oom_kills": "node_vmstat_oom_kill",
        "mem_huge_total_mebibytes": "node_memory_HugePages_Total",
        "mem_huge_free_mebibytes": "node_memory_HugePages_Free",
        "mem_anonymous_mebibytes": "node_memory_AnonPages_bytes",
        "mem_slab_mebibytes": "node_memory_Slab_bytes",
        "files_open": "node_filefd_allocated",
        "tcp_established": "node_netstat_Tcp_CurrEstab",
        "tcp_retransmits_milli_per_s": "node_netstat_Tcp_RetransSegs",
        "udp_errors_milli_per_s": "node_netstat_Udp_InErrors",
    },
    "device-samples": {
        "rx_kilobytes_per_s": "node_network_receive_bytes_total",
        "tx_kilobytes_per_s": "node_network_transmit_bytes_total",
        "rx_packets_per_s": "node_network_receive_packets_total",
        "tx_packets_per_s": "node_network_transmit_packets_total",
        "rx_errors_milli_per_s": "node_network_receive_errs_total",
        "tx_errors_milli_per_s": "node_network_transmit_errs_total",
        "rx_drops_milli_per_s": "node_network_receive_drop_total",
        "tx_drops_milli_per_s": "node_network_transmit_drop_total",
        "link_megabits_per_s": "node_network_speed_bytes",
        "link_up": "node_network_up",
        "read_kilobytes_per_s": "node_disk_read_bytes_total",
        "write_kilobytes_per_s": "node_disk_written_bytes_total",
        "reads_milli_per_s": "node_disk_reads_completed_total",
        "writes_milli_per_s": "node_disk_writes_completed_total",
        "busy_permille": "node_disk_io_time_seconds_total",
        "queue_centi": "node_disk_io_time_weighted_seconds_total",
        "read_latency_microseconds": "node_disk_read_time_seconds_total",
        "write_latency_microseconds": "node_disk_write_time_seconds_total",
        "carrier_changes": "node_network_carrier_changes_total",
        "tx_waits_per_s": "node_infiniband_port_transmit_wait_total",
        "symbol_errors_milli_per_s": "node_infiniband_symbol_error_total",
        "link_downs": "node_infiniband_link_downed_total",
        "link_recoveries": "node_infiniband_link_error_recovery_total",
        "fs_total_mebibytes": "node_filesystem_size_bytes",
        "fs_used_mebibytes": "node_filesystem_free_bytes",
        "fs_available_mebibytes": "node_filesystem_avail_bytes",
        "inodes_total": "node_filesystem_files",
        "inodes_used": "node_filesystem_files_free",
        "read_only": "node_filesystem_readonly",
        "ops_milli_per_s": "node_mountstats_nfs_operations_requests_total",
        "op_latency_microseconds": "node_mountstats_nfs_operations_request_time_seconds_total",
        "retransmits_milli_per_s": "node_mountstats_nfs_operations_transmissions_total",
        "mem_total_mebibytes": "node_memory_numa_MemTotal",
        "mem_used_mebibytes": "node_memory_numa_MemUsed",
        "mem_free_mebibytes": "node_memory_numa_MemFree",
        "numa_hits_per_s": "node_memory_numa_numa_hit_total",
        "numa_misses_per_s": "node_memory_numa_numa_miss_total",
        "numa_foreign_per_s": "node_memory_numa_numa_foreign_total",
        "instructions_mega_per_s": "node_perf_instructions_total",
        "cycles_mega_per_s": "node_perf_cpucycles_total",
        "l3_loads_kilo_per_s": "node_perf_cache_ll_read_hits_total",
        "l3_misses_kilo_per_s": "node_perf_cache_ll_read_misses_total",
    },
}
# fmt: on


def dynolog(topic: str, column: str, kind: str = "") -> Alias | None:
    """The metric under dynolog's name, if dynolog has it; `kind` is of the device, for `device-samples`."""
    return DYNOLOG.get(f"{topic}/{kind}" if kind else topic, {}).get(column)


def dynolog_names(topic: str, column: str) -> tuple[str, ...]:
    """All its names in dynolog, whatever the kind of device."""
    tables = [table for of, table in DYNOLOG.items() if of.partition("/")[0] == topic]
    return tuple(table[column].name.replace("{}", "<device>") for table in tables if column in table)


def dcgm(topic: str, column: str) -> str:
    """DCGM's field of the same meaning, '' without one."""
    return DCGM.get(column, "") if topic == "gpu-samples" else ""


def node_exporter(topic: str, column: str) -> str:
    """The metric of node exporter that tells it, '' without one."""
    return NODE_EXPORTER.get(topic, {}).get(column, "")
