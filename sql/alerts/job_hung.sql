-- All GPUs of a job are busy and none moves data: its ranks wait in a collective for one that does not come.
-- severity: critical
-- for: 0
-- keep: 120
-- unit: ratio 0-1
-- summary: Job {job_id} ({job}, {user}) hangs: its {gpus} GPUs are busy, at {value} of their memory bandwidth, for {minutes} minutes
-- do: `warpmeter capture {job_id} --stacks` or `py-spy dump` shows which rank is elsewhere than the others; then end it.
-- @minutes 15  the window
-- @moving 0.005  share of memory bandwidth below which nothing moves
SELECT
    used.job_id AS job_id, owner.job AS job, owner.user AS user,
    used.dram AS value,
    greatest(1, round(used.gpus)) AS gpus
FROM
(
    SELECT
        job_id,
        sum(w.dram_active_seconds) / nullIf(sum(w.dram_active_known_seconds), 0) AS dram,
        sum(w.tensor_active_seconds) / nullIf(sum(w.tensor_active_known_seconds), 0) AS tensor,
        sum(w.gpu_util_seconds) / nullIf(sum(w.gpu_util_known_seconds), 0) AS util,
        minIf(w.window, w.gpu_seconds > 0) AS first,
        maxIf(w.window, w.gpu_seconds > 0) AS last,
        sum(w.gpu_seconds) / ({minutes:UInt32} * 60) AS gpus
    FROM job_windows_1m AS w
    WHERE w.window >= {now:DateTime64(3, 'UTC')} - INTERVAL {minutes:UInt32} MINUTE AND w.window <= {now:DateTime64(3, 'UTC')}
    GROUP BY job_id
    HAVING first <= {now:DateTime64(3, 'UTC')} - INTERVAL {minutes:UInt32} - 6 MINUTE AND last >= {now:DateTime64(3, 'UTC')} - INTERVAL 6 MINUTE
        AND util >= 0.95 AND dram <= {moving:Float64} AND ifNull(tensor, 0) <= {moving:Float64}
) AS used
GLOBAL LEFT JOIN
(
    SELECT job_id, argMax(t.name, t.last_at) AS job, argMax(t.user, t.last_at) AS user
    FROM job_trees AS t
    WHERE t.last_at >= {now:DateTime64(3, 'UTC')} - INTERVAL 1 DAY
    GROUP BY job_id
) AS owner ON owner.job_id = used.job_id
ORDER BY job_id
