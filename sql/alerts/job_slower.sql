-- A job runs slower than its own past: its steps take longer where they are counted (`warpmeter run`), else its GPUs' SM activity fell, of a job whose activity was steady for hours. After an hour and more at the new pace, that is its past.
-- severity: warning
-- for: 0
-- keep: 300
-- every: 120
-- unit: x
-- summary: Job {job_id} ({job}, {user}) runs {value} slower than before: {what}
-- do: `warpmeter capture {job_id}` takes a profile; beside one of before, `warpmeter analyze --diff` says which kernels or waits grew. A straggling rank or a throttled GPU would be an alert of its own.
-- @slower 1.3  times as long a step that is too much
-- @inactive 1.4  times less SM activity that is too much, where no steps are counted
SELECT
    slow.job_id AS job_id, owner.job AS job, owner.user AS user,
    round(slow.times, 2) AS value,
    slow.times >= slow.most AS starts,
    slow.what AS what
FROM
(
    SELECT
        job_id,
        anyIf(mean, ago = 0) AS current,
        quantileExactIf(0.5)(mean, ago > 0) AS past,
        countIf(ago > 0) AS windows,
        current / nullIf(past, 0) AS times,
        {slower:Float64} AS most,
        concat('a step takes ', toString(round(current, 4)), ' s, and took ', toString(round(past, 4)), ' s') AS what
    FROM
    (
        SELECT job_id, intDiv(dateDiff('second', s.window, toDateTime({now:DateTime64(3, 'UTC')})), 600) AS ago, sum(s.step_seconds_sum) / sum(s.readings) AS mean
        FROM job_steps_1m AS s
        WHERE s.window > {now:DateTime64(3, 'UTC')} - INTERVAL 6 HOUR AND s.window <= {now:DateTime64(3, 'UTC')}
        GROUP BY job_id, ago
    )
    GROUP BY job_id
    HAVING countIf(ago = 0) > 0 AND windows >= 6 AND times >= 1 + ({slower:Float64} - 1) / 2
    UNION ALL
    SELECT
        job_id,
        anyIf(mean, ago = 0) AS current,
        quantileExactIf(0.5)(mean, ago > 0) AS past,
        countIf(ago > 0) AS windows,
        past / nullIf(current, 0) AS times,
        {inactive:Float64} AS most,
        concat('SM activity is ', toString(round(100 * current)), ' %, and was ', toString(round(100 * past)), ' %') AS what
    FROM
    (
        SELECT
            job_id, intDiv(dateDiff('second', w.window, toDateTime({now:DateTime64(3, 'UTC')})), 900) AS ago,
            sum(w.sm_active_seconds) / sum(w.sm_active_known_seconds) AS mean
        FROM job_windows_1m AS w
        WHERE w.window > {now:DateTime64(3, 'UTC')} - INTERVAL 6 HOUR AND w.window <= {now:DateTime64(3, 'UTC')} AND w.sm_active_known_seconds > 0
        GROUP BY job_id, ago
        HAVING max(w.window) - min(w.window) >= 540
    )
    WHERE job_id NOT IN (SELECT job_id FROM job_steps_1m WHERE window > {now:DateTime64(3, 'UTC')} - INTERVAL 6 HOUR)
    GROUP BY job_id
    HAVING countIf(ago = 0) > 0 AND windows >= 16 AND current > 0.01 AND past >= 0.1
        AND times >= 1 + ({inactive:Float64} - 1) / 2
        AND quantileExactIf(0.25)(mean, ago > 0) >= 0.85 * quantileExactIf(0.75)(mean, ago > 0)
) AS slow
GLOBAL LEFT JOIN
(
    SELECT job_id, argMax(t.name, t.last_at) AS job, argMax(t.user, t.last_at) AS user
    FROM job_trees AS t
    WHERE t.last_at >= {now:DateTime64(3, 'UTC')} - INTERVAL 1 DAY
    GROUP BY job_id
) AS owner ON owner.job_id = slow.job_id
ORDER BY job_id
