-- Which kernels did the captured runs of a job have, and how long did one take? The median over a run's captures of the mean
-- over all ranks, by GPU model; `share` is of the GPU time of the run's captures; the costliest of each run.
-- @since -7d  start of the window
-- @until now  end of the window
-- @past -35d  no run that began before
-- @job ''  of jobs of this name alone
-- @user ''  of this user alone
-- @job_id ''  of jobs of the same user and name as this one alone
-- @most 200  kernels of a run
WITH
    told AS
    (
        SELECT
            t.job_id AS job_id, argMax(t.user, t.last_at) AS user, argMax(t.name, t.last_at) AS name, min(t.started_at) AS started_at,
            max(t.last_at) AS last_seen_at,
            last_seen_at >= {since:DateTime('UTC')} AND ({job_id:String} = '' OR job_id = {job_id:String}) AS asked
        FROM job_trees AS t
        WHERE t.last_at >= {past:DateTime('UTC')}
        GROUP BY t.job_id
        HAVING started_at >= {past:DateTime('UTC')} AND started_at < {until:DateTime('UTC')} AND name != ''
            AND ({job:String} = '' OR name = {job:String}) AND ({user:String} = '' OR user = {user:String})
    ),
    runs AS
    (
        SELECT told.job_id AS job_id FROM told
        WHERE (told.user, told.name) GLOBAL IN (SELECT asked_of.user, asked_of.name FROM told AS asked_of WHERE asked_of.asked)
    )
SELECT
    job_id, gpu_model, name, any(short) AS short_name, count() AS captures, sum(times) AS count,
    quantileExactInclusive(0.5)(ns / times) / 1e9 AS mean_seconds,
    sum(ns) / sum(sum(ns)) OVER (PARTITION BY job_id) AS share
FROM
(
    SELECT
        toString(k.job_id) AS job_id, k.capture_id AS capture_id, toString(k.gpu_model) AS gpu_model, toString(k.name) AS name,
        any(toString(k.short_name)) AS short, sum(k.count) AS times, sum(k.total_ns) AS ns
    FROM trace_kernels AS k
    WHERE k.count > 0 AND k.sort IN ('compute', 'comm') AND k.captured_at < {until:DateTime('UTC')}
        AND k.job_id GLOBAL IN (SELECT runs.job_id FROM runs)
    GROUP BY k.job_id, k.capture_id, k.gpu_model, k.name
)
GROUP BY job_id, gpu_model, name
ORDER BY job_id, share DESC, name
LIMIT {most:UInt32} BY job_id
