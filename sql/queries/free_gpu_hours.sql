-- How much of the fleet did nobody hold? GPU hours that were there, that jobs held, that were free, and that jobs held and left idle, by GPU model.
-- @since -7d  start of the window, rounded down to an hour
-- @until now  end of the window
SELECT
    if(devices.model = '', 'unknown', devices.model) AS model,
    sum(there.hours) AS gpu_hours,
    sum(held.hours) AS held_gpu_hours,
    greatest(gpu_hours - held_gpu_hours, 0) AS free_gpu_hours,
    free_gpu_hours / nullIf(gpu_hours, 0) AS free,
    sum(held.idle_hours) AS wasted_gpu_hours
FROM
(
    SELECT host, sum(covered_ms) / 3600000 AS hours
    FROM gpu_heatmap_1h
    WHERE window >= toStartOfHour({since:DateTime('UTC')}) AND window < {until:DateTime('UTC')}
    GROUP BY host
) AS there
GLOBAL LEFT JOIN
(
    SELECT host, sum(gpu_seconds) / 3600 AS hours, sum(idle_seconds) / 3600 AS idle_hours
    FROM job_windows_1h
    WHERE window >= toStartOfHour({since:DateTime('UTC')}) AND window < {until:DateTime('UTC')}
    GROUP BY host
) AS held ON held.host = there.host
GLOBAL LEFT JOIN
(
    SELECT host, arrayStringConcat(arraySort(groupUniqArray(of_gpu.model)), ' + ') AS model
    FROM (SELECT host, uuid, argMaxMerge(latest).model AS model FROM gpu_last GROUP BY host, uuid) AS of_gpu
    GROUP BY host
) AS devices ON devices.host = there.host
GROUP BY model
ORDER BY free_gpu_hours DESC, model
