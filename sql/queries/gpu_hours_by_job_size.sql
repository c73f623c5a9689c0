-- Do GPU hours go to large jobs or to small ones? By the number of GPUs that a job held, in powers of two.
-- @since -7d  start of the window, rounded down to an hour
-- @until now  end of the window
SELECT
    toUInt32(exp2(ceil(log2(greatest(owner.gpus, 1))))) AS up_to_gpus,
    uniqExactIf(used.job_id, used.gpu_seconds > 0) AS jobs,
    sum(used.gpu_seconds) / 3600 AS gpu_hours,
    gpu_hours / nullIf(sum(gpu_hours) OVER (), 0) AS share,
    sum(used.idle_seconds) / nullIf(sum(used.gpu_seconds), 0) AS wasted
FROM job_windows_1h AS used
GLOBAL LEFT JOIN
(
    SELECT job_id, length(groupUniqArrayArray(job_trees.gpu_uuids_held)) AS gpus FROM job_trees GROUP BY job_id
) AS owner ON owner.job_id = used.job_id
WHERE used.window >= toStartOfHour({since:DateTime('UTC')}) AND used.window < {until:DateTime('UTC')}
GROUP BY up_to_gpus
HAVING gpu_hours > 0
ORDER BY up_to_gpus
