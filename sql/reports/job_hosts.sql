-- What did the job do on each of its hosts? GPU hours, use, energy and CPU of its share of each, from the hours.
-- @job_id -  the job
-- @since -  start of the period, a whole hour
-- @until -  its end
-- @limit 2000  how many rows
SELECT
    w.host AS host,
    round(sum(w.gpu_seconds) / 3600, 6) AS allocated_gpu_hours,
    round(sum(w.idle_seconds) / 3600, 6) AS wasted_gpu_hours,
    round(sum(w.idle_seconds) / nullIf(sum(w.gpu_seconds), 0), 6) AS wasted_share,
    round(sum(w.gpu_util_seconds) / nullIf(sum(w.gpu_util_known_seconds), 0), 6) AS gpu_util,
    round(sum(w.sm_active_seconds) / nullIf(sum(w.sm_active_known_seconds), 0), 6) AS sm_active,
    round(sum(w.tensor_active_seconds) / nullIf(sum(w.tensor_active_known_seconds), 0), 6) AS tensor_active,
    round(sum(w.energy_joules) / nullIf(sum(w.power_known_seconds), 0), 6) AS power_watts,
    if(sum(w.power_known_seconds) = 0, NULL, round(sum(w.energy_joules) / 3.6e6, 6)) AS energy_kwh,
    nullIf(max(w.fb_used_bytes_max), 0) AS fb_used_bytes,
    round(sum(w.cpu_core_seconds) / nullIf(sum(w.cpu_known_seconds), 0), 6) AS cpu_cores,
    nullIf(max(w.rss_bytes_max), 0) AS rss_bytes
FROM job_windows_1h AS w
WHERE w.job_id = {job_id:String} AND w.window >= {since:DateTime('UTC')} AND w.window < {until:DateTime('UTC')}
GROUP BY w.host
ORDER BY wasted_gpu_hours DESC, host
LIMIT {limit:UInt32}
