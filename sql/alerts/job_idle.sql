-- A job holds GPUs and does not use them.
-- severity: warning
-- for: 0
-- keep: 120
-- unit: ratio 0-1
-- summary: Job {job_id} ({job}, {user}) left its {gpus} GPUs idle for {value} of the last {minutes} minutes
-- do: Ask its owner, or end it. `warpmeter capture {job_id}` shows what its processes wait for.
-- @minutes 30  the window
-- @idle 0.95  share of its GPU time below 5 % that is too much
SELECT
    used.job_id AS job_id, owner.job AS job, owner.user AS user,
    used.idle AS value,
    used.idle >= {idle:Float64} AS starts,
    greatest(1, round(used.gpus)) AS gpus
FROM
(
    SELECT
        job_id,
        sum(w.idle_seconds) / nullIf(sum(w.gpu_seconds), 0) AS idle,
        minIf(w.window, w.gpu_seconds > 0) AS first,
        maxIf(w.window, w.gpu_seconds > 0) AS last,
        sum(w.gpu_seconds) / ({minutes:UInt32} * 60) AS gpus
    FROM job_windows_1m AS w
    WHERE w.window >= {now:DateTime64(3, 'UTC')} - INTERVAL {minutes:UInt32} MINUTE AND w.window <= {now:DateTime64(3, 'UTC')}
    GROUP BY job_id
    HAVING first <= {now:DateTime64(3, 'UTC')} - INTERVAL {minutes:UInt32} - 6 MINUTE AND last >= {now:DateTime64(3, 'UTC')} - INTERVAL 6 MINUTE AND idle >= {idle:Float64} - 0.1
) AS used
GLOBAL LEFT JOIN
(
    SELECT job_id, argMax(t.name, t.last_at) AS job, argMax(t.user, t.last_at) AS user
    FROM job_trees AS t
    WHERE t.last_at >= {now:DateTime64(3, 'UTC')} - INTERVAL 1 DAY
    GROUP BY job_id
) AS owner ON owner.job_id = used.job_id
ORDER BY job_id
