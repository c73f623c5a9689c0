-- How many GPU hours by GPU model and partition? What jobs of each partition held on hosts of each model, and how busy it was.
-- @since -7d  start of the window, rounded down to an hour
-- @until now  end of the window
SELECT
    if(devices.model = '', 'unknown', devices.model) AS model,
    if(owner.partition = '', 'none', owner.partition) AS partition,
    uniqExactIf(used.job_id, used.gpu_seconds > 0) AS jobs,
    sum(used.gpu_seconds) / 3600 AS gpu_hours,
    sum(used.idle_seconds) / 3600 AS wasted_gpu_hours,
    sum(used.gpu_util_seconds) / nullIf(sum(used.gpu_util_known_seconds), 0) AS gpu_util,
    sum(used.sm_active_seconds) / nullIf(sum(used.sm_active_known_seconds), 0) AS sm_active
FROM job_windows_1h AS used
GLOBAL LEFT JOIN
(
    SELECT job_id, argMax(job_trees.labels, (notEmpty(job_trees.labels), job_trees.last_at))['partition'] AS partition
    FROM job_trees
    GROUP BY job_id
) AS owner ON owner.job_id = used.job_id
GLOBAL LEFT JOIN
(
    SELECT host, arrayStringConcat(arraySort(groupUniqArray(of_gpu.model)), ' + ') AS model
    FROM (SELECT host, uuid, argMaxMerge(latest).model AS model FROM gpu_last GROUP BY host, uuid) AS of_gpu
    GROUP BY host
) AS devices ON devices.host = used.host
WHERE used.window >= toStartOfHour({since:DateTime('UTC')}) AND used.window < {until:DateTime('UTC')}
GROUP BY model, partition
HAVING gpu_hours > 0
ORDER BY gpu_hours DESC, model, partition
