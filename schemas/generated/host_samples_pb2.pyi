from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Envelope(_message.Message):
    __slots__ = ("rows",)
    class HostSample(_message.Message):
        __slots__ = ("host", "ts", "period_ms", "agent_version", "kernel", "uptime_s", "cores", "cpu_util_permille", "cpu_user_permille", "cpu_nice_permille", "cpu_system_permille", "cpu_iowait_permille", "cpu_irq_permille", "cpu_softirq_permille", "cpu_steal_permille", "cpu_idle_permille", "core_busy_min_permille", "core_busy_p50_permille", "core_busy_p90_permille", "core_busy_max_permille", "load1_centi", "load5_centi", "load15_centi", "procs_running", "procs_blocked", "processes", "context_switches_per_s", "interrupts_per_s", "forks_per_s", "mem_total_mebibytes", "mem_available_mebibytes", "mem_free_mebibytes", "mem_cached_mebibytes", "mem_buffers_mebibytes", "mem_dirty_mebibytes", "mem_shared_mebibytes", "swap_total_mebibytes", "swap_used_mebibytes", "swap_in_kilobytes_per_s", "swap_out_kilobytes_per_s", "major_faults_per_s", "psi_cpu_some_permille", "psi_cpu_full_permille", "psi_memory_some_permille", "psi_memory_full_permille", "psi_io_some_permille", "psi_io_full_permille")
        HOST_FIELD_NUMBER: _ClassVar[int]
        TS_FIELD_NUMBER: _ClassVar[int]
        PERIOD_MS_FIELD_NUMBER: _ClassVar[int]
        AGENT_VERSION_FIELD_NUMBER: _ClassVar[int]
        KERNEL_FIELD_NUMBER: _ClassVar[int]
        UPTIME_S_FIELD_NUMBER: _ClassVar[int]
        CORES_FIELD_NUMBER: _ClassVar[int]
        CPU_UTIL_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        CPU_USER_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        CPU_NICE_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        CPU_SYSTEM_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        CPU_IOWAIT_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        CPU_IRQ_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        CPU_SOFTIRQ_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        CPU_STEAL_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        CPU_IDLE_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        CORE_BUSY_MIN_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        CORE_BUSY_P50_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        CORE_BUSY_P90_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        CORE_BUSY_MAX_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        LOAD1_CENTI_FIELD_NUMBER: _ClassVar[int]
        LOAD5_CENTI_FIELD_NUMBER: _ClassVar[int]
        LOAD15_CENTI_FIELD_NUMBER: _ClassVar[int]
        PROCS_RUNNING_FIELD_NUMBER: _ClassVar[int]
        PROCS_BLOCKED_FIELD_NUMBER: _ClassVar[int]
        PROCESSES_FIELD_NUMBER: _ClassVar[int]
        CONTEXT_SWITCHES_PER_S_FIELD_NUMBER: _ClassVar[int]
        INTERRUPTS_PER_S_FIELD_NUMBER: _ClassVar[int]
        FORKS_PER_S_FIELD_NUMBER: _ClassVar[int]
        MEM_TOTAL_MEBIBYTES_FIELD_NUMBER: _ClassVar[int]
        MEM_AVAILABLE_MEBIBYTES_FIELD_NUMBER: _ClassVar[int]
        MEM_FREE_MEBIBYTES_FIELD_NUMBER: _ClassVar[int]
        MEM_CACHED_MEBIBYTES_FIELD_NUMBER: _ClassVar[int]
        MEM_BUFFERS_MEBIBYTES_FIELD_NUMBER: _ClassVar[int]
        MEM_DIRTY_MEBIBYTES_FIELD_NUMBER: _ClassVar[int]
        MEM_SHARED_MEBIBYTES_FIELD_NUMBER: _ClassVar[int]
        SWAP_TOTAL_MEBIBYTES_FIELD_NUMBER: _ClassVar[int]
        SWAP_USED_MEBIBYTES_FIELD_NUMBER: _ClassVar[int]
        SWAP_IN_KILOBYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
        SWAP_OUT_KILOBYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
        MAJOR_FAULTS_PER_S_FIELD_NUMBER: _ClassVar[int]
        PSI_CPU_SOME_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        PSI_CPU_FULL_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        PSI_MEMORY_SOME_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        PSI_MEMORY_FULL_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        PSI_IO_SOME_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        PSI_IO_FULL_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        host: str
        ts: float
        period_ms: int
        agent_version: str
        kernel: str
        uptime_s: int
        cores: int
        cpu_util_permille: int
        cpu_user_permille: int
        cpu_nice_permille: int
        cpu_system_permille: int
        cpu_iowait_permille: int
        cpu_irq_permille: int
        cpu_softirq_permille: int
        cpu_steal_permille: int
        cpu_idle_permille: int
        core_busy_min_permille: int
        core_busy_p50_permille: int
        core_busy_p90_permille: int
        core_busy_max_permille: int
        load1_centi: int
        load5_centi: int
        load15_centi: int
        procs_running: int
        procs_blocked: int
        processes: int
        context_switches_per_s: int
        interrupts_per_s: int
        forks_per_s: int
        mem_total_mebibytes: int
        mem_available_mebibytes: int
        mem_free_mebibytes: int
        mem_cached_mebibytes: int
        mem_buffers_mebibytes: int
        mem_dirty_mebibytes: int
        mem_shared_mebibytes: int
        swap_total_mebibytes: int
        swap_used_mebibytes: int
        swap_in_kilobytes_per_s: int
        swap_out_kilobytes_per_s: int
        major_faults_per_s: int
        psi_cpu_some_permille: int
        psi_cpu_full_permille: int
        psi_memory_some_permille: int
        psi_memory_full_permille: int
        psi_io_some_permille: int
        psi_io_full_permille: int
        def __init__(self, host: _Optional[str] = ..., ts: _Optional[float] = ..., period_ms: _Optional[int] = ..., agent_version: _Optional[str] = ..., kernel: _Optional[str] = ..., uptime_s: _Optional[int] = ..., cores: _Optional[int] = ..., cpu_util_permille: _Optional[int] = ..., cpu_user_permille: _Optional[int] = ..., cpu_nice_permille: _Optional[int] = ..., cpu_system_permille: _Optional[int] = ..., cpu_iowait_permille: _Optional[int] = ..., cpu_irq_permille: _Optional[int] = ..., cpu_softirq_permille: _Optional[int] = ..., cpu_steal_permille: _Optional[int] = ..., cpu_idle_permille: _Optional[int] = ..., core_busy_min_permille: _Optional[int] = ..., core_busy_p50_permille: _Optional[int] = ..., core_busy_p90_permille: _Optional[int] = ..., core_busy_max_permille: _Optional[int] = ..., load1_centi: _Optional[int] = ..., load5_centi: _Optional[int] = ..., load15_centi: _Optional[int] = ..., procs_running: _Optional[int] = ..., procs_blocked: _Optional[int] = ..., processes: _Optional[int] = ..., context_switches_per_s: _Optional[int] = ..., interrupts_per_s: _Optional[int] = ..., forks_per_s: _Optional[int] = ..., mem_total_mebibytes: _Optional[int] = ..., mem_available_mebibytes: _Optional[int] = ..., mem_free_mebibytes: _Optional[int] = ..., mem_cached_mebibytes: _Optional[int] = ..., mem_buffers_mebibytes: _Optional[int] = ..., mem_dirty_mebibytes: _Optional[int] = ..., mem_shared_mebibytes: _Optional[int] = ..., swap_total_mebibytes: _Optional[int] = ..., swap_used_mebibytes: _Optional[int] = ..., swap_in_kilobytes_per_s: _Optional[int] = ..., swap_out_kilobytes_per_s: _Optional[int] = ..., major_faults_per_s: _Optional[int] = ..., psi_cpu_some_permille: _Optional[int] = ..., psi_cpu_full_permille: _Optional[int] = ..., psi_memory_some_permille: _Optional[int] = ..., psi_memory_full_permille: _Optional[int] = ..., psi_io_some_permille: _Optional[int] = ..., psi_io_full_permille: _Optional[int] = ...) -> None: ...
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Envelope.HostSample]
    def __init__(self, rows: _Optional[_Iterable[_Union[Envelope.HostSample, _Mapping]]] = ...) -> None: ...
