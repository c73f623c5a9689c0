-- Which busy jobs do not use the tensor cores? Those whose GPUs ran kernels and whose tensor pipes were hardly active, the largest first.
-- @since -7d  start of the window, rounded down to an hour
-- @until now  end of the window
-- @busy 0.5  utilisation at least
-- @tensor 0.05  tensor activity below
-- @limit 20  how many jobs
SELECT
    used.job_id AS job_id,
    any(owner.name) AS name,
    any(owner.user) AS user,
    sum(used.gpu_seconds) / 3600 AS gpu_hours,
    sum(used.gpu_util_seconds) / nullIf(sum(used.gpu_util_known_seconds), 0) AS gpu_util,
    sum(used.sm_active_seconds) / nullIf(sum(used.sm_active_known_seconds), 0) AS sm_active,
    sum(used.tensor_active_seconds) / nullIf(sum(used.tensor_active_known_seconds), 0) AS tensor_active
FROM job_windows_1h AS used
GLOBAL LEFT JOIN (SELECT job_id, any(job_trees.name) AS name, any(job_trees.user) AS user FROM job_trees GROUP BY job_id) AS owner
    ON owner.job_id = used.job_id
WHERE used.window >= toStartOfHour({since:DateTime('UTC')}) AND used.window < {until:DateTime('UTC')}
GROUP BY used.job_id
HAVING gpu_util >= {busy:Float64} AND tensor_active < {tensor:Float64}
ORDER BY gpu_hours DESC, job_id
LIMIT {limit:UInt32}
