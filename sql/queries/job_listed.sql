-- What is known of a job? As jobs_listed, whenever it ran, with its processes, GPUs and labels.
-- @job_id -  the job
-- @since -24h  start of the window
-- @until now  end of the window
SELECT
    jobs.job_id AS job_id, name, command, user, account, scheduler, state, hosts, hosts_lost, gpus, world_size, started_at, ended_at,
    last_seen_at, duration_s, processes, cpu_cores, rss_bytes, gpu_memory_bytes, pids, gpu_uuids, ranks, labels, tree_id,
    used.gpu_hours AS gpu_hours, used.idle_gpu_hours AS idle_gpu_hours, used.gpu_util AS gpu_util,
    used.sm_active AS sm_active, used.tensor_active AS tensor_active, used.power_watts AS power_watts
FROM jobs
LEFT JOIN
(
    SELECT
        w.job_id AS job_id,
        toNullable(sum(w.gpu_seconds) / 3600) AS gpu_hours,
        toNullable(sum(w.idle_seconds) / 3600) AS idle_gpu_hours,
        sum(w.gpu_util_seconds) / nullIf(sum(w.gpu_util_known_seconds), 0) AS gpu_util,
        sum(w.sm_active_seconds) / nullIf(sum(w.sm_active_known_seconds), 0) AS sm_active,
        sum(w.tensor_active_seconds) / nullIf(sum(w.tensor_active_known_seconds), 0) AS tensor_active,
        sum(w.energy_joules) / nullIf(sum(w.power_known_seconds), 0) AS power_watts
    FROM job_windows_1h AS w
    WHERE w.window >= toStartOfHour({since:DateTime('UTC')}) AND w.window < {until:DateTime('UTC')}
        AND w.job_id = {job_id:String}
    GROUP BY w.job_id
) AS used ON used.job_id = jobs.job_id
WHERE jobs.job_id = {job_id:String}
