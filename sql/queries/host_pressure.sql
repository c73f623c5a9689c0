-- Which hosts are short of CPU, memory or I/O? Pressure stalls, CPU use and free memory in the window.
-- @since -1h  start of the window, rounded down to a minute
-- @until now  end of the window
-- @limit 20  how many hosts
SELECT
    host,
    sum(psi_cpu_some_permille_sum) / nullIf(sum(psi_cpu_some_permille_count), 0) / 1000 AS psi_cpu_some,
    sum(psi_memory_full_permille_sum) / nullIf(sum(psi_memory_full_permille_count), 0) / 1000 AS psi_memory_full,
    sum(psi_io_full_permille_sum) / nullIf(sum(psi_io_full_permille_count), 0) / 1000 AS psi_io_full,
    sum(cpu_util_permille_sum) / nullIf(sum(cpu_util_permille_count), 0) / 1000 AS cpu_util,
    max(cpu_util_permille_max) / 1000 AS cpu_util_max,
    toUInt64(min(mem_available_mebibytes_min)) * 1048576 AS mem_available_bytes_min,
    max(load1_centi_max) / 100 AS load1_max
FROM host_windows_1m
WHERE window >= toStartOfMinute({since:DateTime('UTC')}) AND window < {until:DateTime('UTC')}
GROUP BY host
ORDER BY greatest(ifNull(psi_cpu_some, 0), ifNull(psi_memory_full, 0), ifNull(psi_io_full, 0)) DESC, host
LIMIT {limit:UInt32}
