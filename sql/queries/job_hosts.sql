-- What did a job do on each of its hosts? One row a host, over the window, from minutes or hours.
-- @job_id -  the job
-- @since -24h  start of the window, rounded down to a minute or an hour
-- @until now  end of the window
-- @windows job_windows_1m  or job_windows_1h
-- @step_s 60  seconds of those windows: 60 or 3600
SELECT
    trees.host AS host, state, pids, ranks, gpus, started_at, ended_at, last_seen_at,
    used.* EXCEPT (host)
FROM
(
    SELECT
        host,
        multiIf(countIf(tree.state = 'running') > 0, 'running', countIf(tree.state = 'lost') > 0, 'lost', 'ended') AS state,
        arraySort(groupUniqArray(pid)) AS pids,
        arraySort(groupUniqArrayArray(tree.ranks)) AS ranks,
        length(groupUniqArrayArray(gpu_uuids)) AS gpus,
        min(tree.started_at) AS started_at,
        if(state = 'ended', max(tree.ended_at), NULL) AS ended_at,
        max(last_at) AS last_seen_at
    FROM job_processes AS tree
    WHERE job_id = {job_id:String}
    GROUP BY host
) AS trees
LEFT JOIN
(
    SELECT
        w.host AS host,
        sum(w.gpu_seconds) / 3600 AS gpu_hours,
        sum(w.idle_seconds) / 3600 AS wasted_gpu_hours,
        wasted_gpu_hours / nullIf(gpu_hours, 0) AS wasted,
        sum(w.gpu_util_seconds) / nullIf(sum(w.gpu_util_known_seconds), 0) AS gpu_util,
        sum(w.sm_active_seconds) / nullIf(sum(w.sm_active_known_seconds), 0) AS sm_active,
        sum(w.tensor_active_seconds) / nullIf(sum(w.tensor_active_known_seconds), 0) AS tensor_active,
        sum(w.dram_active_seconds) / nullIf(sum(w.dram_active_known_seconds), 0) AS dram_active,
        sum(w.energy_joules) / nullIf(sum(w.power_known_seconds), 0) AS power_watts,
        sum(w.energy_joules) AS energy_joules,
        max(w.fb_used_bytes_max) AS fb_used_bytes_max,
        sum(w.cpu_core_seconds) / nullIf(sum(w.cpu_known_seconds), 0) AS cpu_cores,
        max(w.rss_bytes_max) AS rss_bytes_max,
        sum(w.read_bytes) AS read_bytes,
        sum(w.written_bytes) AS written_bytes
    FROM {windows:Identifier} AS w
    WHERE w.job_id = {job_id:String} AND w.window >= toStartOfInterval({since:DateTime('UTC')}, toIntervalSecond({step_s:UInt32}))
        AND w.window < {until:DateTime('UTC')}
    GROUP BY w.host
) AS used ON used.host = trees.host
ORDER BY host
SETTINGS join_use_nulls = 1
