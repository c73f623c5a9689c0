-- Which jobs hold GPUs without using them? GPU hours below 5 % of each job, the largest first.
-- @since -24h  start of the window, rounded down to an hour
-- @until now  end of the window
-- @limit 20  how many jobs
SELECT
    used.job_id AS job_id,
    any(owner.name) AS name,
    any(owner.user) AS user,
    sum(used.idle_seconds) / 3600 AS idle_gpu_hours,
    sum(used.gpu_seconds) / 3600 AS gpu_hours,
    idle_gpu_hours / nullIf(gpu_hours, 0) AS idle
FROM job_windows_1h AS used
GLOBAL LEFT JOIN (SELECT job_id, any(job_trees.name) AS name, any(job_trees.user) AS user FROM job_trees GROUP BY job_id) AS owner
    ON owner.job_id = used.job_id
WHERE used.window >= toStartOfHour({since:DateTime('UTC')}) AND used.window < {until:DateTime('UTC')}
GROUP BY job_id
HAVING idle_gpu_hours > 0
ORDER BY idle_gpu_hours DESC, job_id
LIMIT {limit:UInt32}
