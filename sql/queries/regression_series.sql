-- How did each run that was there in the window fare from step to step of it? One row a job and metric, the means over all
-- its GPUs as one array, their windows (seconds since the epoch) beside them, and how much GPU time each stands for.
-- @since -7d  start of the window
-- @until now  end of the window
-- @windows job_windows_1m  or job_windows_1h
-- @steps job_steps_1m  or job_steps_1h
-- @step_s 300  length of a step, in whole windows
-- @shortest_s 0  of runs that were there for so long at the least
-- @longest_s 43200  and at the most
-- @job ''  of jobs of this name alone
-- @user ''  of this user alone
-- @job_id ''  of this job alone
WITH runs AS
(
    SELECT t.job_id AS job_id, argMax(t.user, t.last_at) AS user, argMax(t.name, t.last_at) AS name, min(t.started_at) AS started_at, max(t.last_at) AS last_seen_at
    FROM job_trees AS t
    WHERE t.last_at >= {since:DateTime('UTC')} AND ({job_id:String} = '' OR t.job_id = {job_id:String})
    GROUP BY t.job_id
    HAVING started_at < {until:DateTime('UTC')} AND name != ''
        AND ({job:String} = '' OR name = {job:String}) AND ({user:String} = '' OR user = {user:String})
        AND dateDiff('second', greatest(started_at, {since:DateTime('UTC')}), least(last_seen_at, {until:DateTime('UTC')}))
            BETWEEN {shortest_s:Int64} AND {longest_s:Int64}
)
SELECT
    steps.job_id AS job_id, steps.metric AS metric, count() AS windows,
    arrayMap(x -> x.1, arraySort(groupArray((steps.at, steps.mean, steps.weight))) AS sorted) AS starts,
    arrayMap(x -> x.2, sorted) AS values,
    arrayMap(x -> x.3, sorted) AS weights
FROM
(
    SELECT job_id, measured.1 AS metric, at, measured.2 / measured.3 AS mean, measured.3 AS weight
    FROM
    (
        SELECT
            w.job_id AS job_id, intDiv(toUnixTimestamp(w.window), {step_s:UInt32}) * {step_s:UInt32} AS at,
            arrayJoin([
                ('sm_active', sum(w.sm_active_seconds), sum(w.sm_active_known_seconds)),
                ('gpu_util', sum(w.gpu_util_seconds), sum(w.gpu_util_known_seconds)),
                ('power_watts', sum(w.energy_joules), sum(w.power_known_seconds)),
                ('cpu_cores', sum(w.cpu_core_seconds), sum(w.cpu_known_seconds))
            ]) AS measured
        FROM {windows:Identifier} AS w
        WHERE w.window >= {since:DateTime('UTC')} AND w.window < {until:DateTime('UTC')} AND w.job_id GLOBAL IN (SELECT runs.job_id FROM runs)
        GROUP BY w.job_id, at
    )
    WHERE measured.3 > 0
    UNION ALL
    SELECT
        s.job_id AS job_id, 'step_seconds' AS metric, intDiv(toUnixTimestamp(s.window), {step_s:UInt32}) * {step_s:UInt32} AS at,
        sum(s.step_seconds_sum) / sum(s.readings) AS mean, toFloat64(sum(s.readings)) AS weight
    FROM {steps:Identifier} AS s
    WHERE s.window >= {since:DateTime('UTC')} AND s.window < {until:DateTime('UTC')} AND s.job_id GLOBAL IN (SELECT runs.job_id FROM runs)
    GROUP BY s.job_id, at
) AS steps
GROUP BY steps.job_id, steps.metric
HAVING windows >= 10
ORDER BY job_id, metric
