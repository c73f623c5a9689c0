-- How did earlier runs go? Jobs of the same name and user that began before this one did and up to 90 days earlier, the
-- latest first, with this one at the top; step: the median step of their captures.
-- @job_id -  the job
-- @limit 11  how many rows
WITH
    this AS
    (
        SELECT
            argMax(t.name, (notEmpty(t.name), t.last_at)) AS name,
            argMax(t.user, (notEmpty(t.user), t.last_at)) AS user,
            min(t.started_at) AS began
        FROM job_trees AS t
        WHERE t.job_id = {job_id:String}
    ),
    runs AS
    (
        SELECT
            r.job_id AS job_id,
            min(r.started_at) AS started_at,
            max(r.last_at) AS last_seen_at,
            uniqExactArray(r.gpu_uuids_held) AS gpus
        FROM job_trees AS r
        WHERE r.name != '' AND r.name = (SELECT name FROM this) AND r.user = (SELECT user FROM this)
        GROUP BY r.job_id
        HAVING job_id = {job_id:String}
            OR (started_at < (SELECT began FROM this) AND started_at >= (SELECT began FROM this) - INTERVAL 90 DAY)
        ORDER BY job_id = {job_id:String} DESC, started_at DESC, job_id
        LIMIT {limit:UInt32}
    )
SELECT
    runs.job_id AS job_id,
    runs.started_at AS started_at,
    dateDiff('millisecond', runs.started_at, runs.last_seen_at) / 1000 AS duration_seconds,
    nullIf(runs.gpus, 0) AS gpus,
    round(used.gpu_seconds / 3600, 6) AS allocated_gpu_hours,
    round(used.idle_seconds / nullIf(used.gpu_seconds, 0), 6) AS wasted_share,
    round(used.gpu_util, 6) AS gpu_util,
    round(used.sm_active, 6) AS sm_active,
    round(used.tensor_active, 6) AS tensor_active,
    traced.step_p50_ns AS step_p50_ns
FROM runs
GLOBAL LEFT JOIN
(
    SELECT
        w.job_id AS job_id,
        sum(w.gpu_seconds) AS gpu_seconds,
        sum(w.idle_seconds) AS idle_seconds,
        sum(w.gpu_util_seconds) / nullIf(sum(w.gpu_util_known_seconds), 0) AS gpu_util,
        sum(w.sm_active_seconds) / nullIf(sum(w.sm_active_known_seconds), 0) AS sm_active,
        sum(w.tensor_active_seconds) / nullIf(sum(w.tensor_active_known_seconds), 0) AS tensor_active
    FROM job_windows_1h AS w
    WHERE w.job_id GLOBAL IN (SELECT job_id FROM runs)
    GROUP BY w.job_id
) AS used ON used.job_id = runs.job_id
GLOBAL LEFT JOIN
(
    SELECT r.job_id AS job_id, toNullable(toInt64(quantileExact(0.5)(r.step_p50_ns))) AS step_p50_ns
    FROM trace_ranks AS r
    WHERE r.step_p50_ns > 0 AND r.job_id GLOBAL IN (SELECT job_id FROM runs)
    GROUP BY r.job_id
) AS traced ON traced.job_id = runs.job_id
ORDER BY runs.job_id = {job_id:String} DESC, started_at DESC, job_id
