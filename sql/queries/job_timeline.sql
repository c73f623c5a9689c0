-- What did one job do over time? Its GPUs, their use, CPU, I/O and power in each minute, over all its hosts.
-- @job_id -  the job
-- @since -24h  start of the window
-- @until now  end of the window
SELECT
    window AS minute,
    uniqExactIf(host, gpu_seconds > 0) AS hosts,
    sum(gpu_seconds) / 60 AS gpus,
    sum(gpu_util_seconds) / nullIf(sum(gpu_util_known_seconds), 0) AS gpu_util,
    sum(sm_active_seconds) / nullIf(sum(sm_active_known_seconds), 0) AS sm_active,
    sum(tensor_active_seconds) / nullIf(sum(tensor_active_known_seconds), 0) AS tensor_active,
    sum(energy_joules) / 60 AS power_watts,
    sum(cpu_core_seconds) / 60 AS cpu_cores,
    sum(job_windows_1m.read_bytes) / 60 AS read_bytes_per_s,
    sum(job_windows_1m.written_bytes) / 60 AS written_bytes_per_s
FROM job_windows_1m
WHERE job_id = {job_id:String} AND window >= toStartOfMinute({since:DateTime('UTC')}) AND window < {until:DateTime('UTC')}
GROUP BY window
ORDER BY window
