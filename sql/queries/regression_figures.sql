-- What was each run of a job like, as one figure a metric? The median over its hours of the mean over all its GPUs, an hour
-- counting by the GPU time in it; the step's time as the job counted it, and apart from that as traces of it have it.
-- @since -7d  start of the window
-- @until now  end of the window
-- @past -35d  no run that began before
-- @job ''  of jobs of this name alone
-- @user ''  of this user alone
-- @job_id ''  of jobs of the same user and name as this one alone
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
SELECT job_id, metric, figure, windows
FROM
(
    SELECT
        hours.job_id AS job_id, hours.measured.1 AS metric,
        quantileExactWeighted(0.5)(hours.measured.2 / hours.measured.3, toUInt64(greatest(1, hours.measured.3))) AS figure,
        count() AS windows
    FROM
    (
        SELECT
            w.job_id AS job_id, w.window AS window,
            arrayJoin([
                ('sm_active', sum(w.sm_active_seconds), sum(w.sm_active_known_seconds)),
                ('gpu_util', sum(w.gpu_util_seconds), sum(w.gpu_util_known_seconds)),
                ('tensor_active', sum(w.tensor_active_seconds), sum(w.tensor_active_known_seconds)),
                ('dram_active', sum(w.dram_active_seconds), sum(w.dram_active_known_seconds)),
                ('power_watts', sum(w.energy_joules), sum(w.power_known_seconds)),
                ('cpu_cores', sum(w.cpu_core_seconds), sum(w.cpu_known_seconds))
            ]) AS measured
        FROM job_windows_1h AS w
        WHERE w.window >= toStartOfHour({past:DateTime('UTC')}) AND w.window < {until:DateTime('UTC')}
            AND w.job_id GLOBAL IN (SELECT runs.job_id FROM runs)
        GROUP BY w.job_id, w.window
    ) AS hours
    WHERE hours.measured.3 > 0
    GROUP BY job_id, metric
    UNION ALL
    SELECT counted.job_id AS job_id, 'step_seconds' AS metric, quantileExactWeighted(0.5)(counted.mean, counted.readings) AS figure, count() AS windows
    FROM
    (
        SELECT s.job_id AS job_id, s.window AS window, sum(s.step_seconds_sum) / sum(s.readings) AS mean, sum(s.readings) AS readings
        FROM job_steps_1h AS s
        WHERE s.window >= toStartOfHour({past:DateTime('UTC')}) AND s.window < {until:DateTime('UTC')}
            AND s.job_id GLOBAL IN (SELECT runs.job_id FROM runs)
        GROUP BY s.job_id, s.window
    ) AS counted
    GROUP BY counted.job_id
    UNION ALL
    SELECT
        toString(r.job_id) AS job_id, 'traced_step_seconds' AS metric, quantileExactInclusive(0.5)(assumeNotNull(r.step_p50_ns)) / 1e9 AS figure,
        uniqExact(r.capture_id) AS windows
    FROM trace_ranks AS r
    WHERE r.step_p50_ns IS NOT NULL AND r.captured_at < {until:DateTime('UTC')} AND r.job_id GLOBAL IN (SELECT runs.job_id FROM runs)
    GROUP BY r.job_id
)
ORDER BY job_id, metric
