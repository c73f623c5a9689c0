-- How is the fleet now? One row: hosts and GPUs by state, jobs that run, means over the GPUs that are there, their power in
-- all, and how old the newest sample is.
SELECT
    hosts.ok AS hosts_ok, hosts.failing AS hosts_failing, hosts.silent AS hosts_silent,
    gpus.busy AS gpus_busy, gpus.idle AS gpus_idle, gpus.failing AS gpus_failing, gpus.gone AS gpus_gone,
    jobs.running AS jobs_running, jobs.lost AS jobs_lost,
    round(gpus.gpu_util, 4) AS gpu_util, round(gpus.sm_active, 4) AS sm_active, round(gpus.power_watts, 1) AS power_watts,
    if(newest = toDateTime64(0, 3, 'UTC'), NULL, greatest(0, dateDiff('millisecond', newest, now64(3)) / 1000)) AS age_s
FROM
(
    SELECT
        countIf(state = 'ok') AS ok, countIf(state = 'failing') AS failing, countIf(state = 'silent') AS silent,
        max(last_seen_at) AS newest
    FROM hosts
) AS hosts
CROSS JOIN
(
    SELECT
        countIf(status = 'busy') AS busy, countIf(status = 'idle') AS idle, countIf(status = 'failing') AS failing,
        countIf(status = 'gone') AS gone,
        avgOrNullIf(gpu_util, state = 'ok') AS gpu_util,
        avgOrNullIf(sm_active, state = 'ok') AS sm_active,
        sumOrNullIf(power_watts, state = 'ok') AS power_watts
    FROM gpu_statuses
) AS gpus
CROSS JOIN
(
    -- As the view jobs has it: one tree that runs, and the job runs.
    SELECT countIf(runs) AS running, countIf(NOT runs) AS lost
    FROM (SELECT max(state = 'running') AS runs FROM job_processes WHERE state != 'ended' GROUP BY job_id)
) AS jobs
