"""Hosts: the metrics of `host-samples`.

One a line: stored column, kind, meaning, sources in the order of preference.
"""

from typing import Final

# fmt: off
ROWS: Final = (
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
    ("oom_kills",                     "counter", "processes killed for want of memory, since the host was booted", "/proc/vmstat oom_kill"),
    ("mem_huge_total_mebibytes",      "gauge",   "memory set aside as huge pages, of all sizes", "/sys/kernel/mm/hugepages/*/nr_hugepages"),
    ("mem_huge_free_mebibytes",       "gauge",   "huge pages not in use", "/sys/kernel/mm/hugepages/*/free_hugepages"),
    ("mem_anonymous_mebibytes",       "gauge",   "memory of programs that no file backs", "/proc/meminfo AnonPages"),
    ("mem_slab_mebibytes",            "gauge",   "memory of the kernel's own objects", "/proc/meminfo Slab"),
    ("files_open",                    "gauge",   "file handles in use", "/proc/sys/fs/file-nr"),
    ("tcp_established",               "gauge",   "TCP connections that stand", "/proc/net/snmp Tcp CurrEstab"),
    ("tcp_retransmits_milli_per_s",   "rate",    "TCP segments sent again", "/proc/net/snmp Tcp RetransSegs"),
    ("udp_errors_milli_per_s",        "rate",    "UDP datagrams received that could not be delivered", "/proc/net/snmp Udp InErrors"),
    ("direct_reclaims_per_s",         "rate",    "pages that tasks had to scan for free memory themselves", "/proc/vmstat pgscan_direct"),
    ("compaction_stalls_milli_per_s", "rate",    "times that a task waited for memory to be compacted", "/proc/vmstat compact_stall"),
    ("refaults_per_s",                "rate",    "pages read back soon after they were dropped: memory is short", "/proc/vmstat workingset_refault_anon, workingset_refault_file"),
)
RAW_ONLY: Final = frozenset((
    "mem_huge_total_mebibytes", "mem_huge_free_mebibytes", "mem_anonymous_mebibytes", "mem_slab_mebibytes",
    "files_open", "tcp_established", "udp_errors_milli_per_s", "direct_reclaims_per_s",
    "compaction_stalls_milli_per_s", "refaults_per_s",
))
# fmt: on
"""Not in the rollups: what is looked at while it happens."""
