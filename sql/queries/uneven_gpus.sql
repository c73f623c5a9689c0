-- Which ranks straggle, without a trace? GPUs of a job held against the median of its GPUs, the one furthest from it first.
-- @job_id -  the job
-- @metric sm_active  SI name of the metric
-- @since -1h  start of the window, rounded down to a minute
-- @until now  end of the window
SELECT
    host, gpu, uuid, mean,
    quantileExactInclusive(0.5)(mean) OVER () AS job_median,
    mean - job_median AS difference,
    mean / nullIf(job_median, 0) AS over_median
FROM
(
    SELECT host, gpu, uuid, sum({metric_sum:Identifier}) / nullIf(sum({metric_count:Identifier}), 0) * {metric_factor:Float64} AS mean
    FROM gpu_heatmap_1m
    WHERE window >= toStartOfMinute({since:DateTime('UTC')}) AND window < {until:DateTime('UTC')}
        AND (host, uuid) GLOBAL IN (SELECT host, arrayJoin(gpu_uuids_held) FROM job_trees WHERE job_id = {job_id:String})
        AND window BETWEEN (SELECT toStartOfMinute(min(started_at)) FROM job_trees WHERE job_id = {job_id:String})
            AND (SELECT max(last_at) FROM job_trees WHERE job_id = {job_id:String})
    GROUP BY host, gpu, uuid
)
WHERE isNotNull(mean)
ORDER BY abs(difference) DESC, host, gpu, uuid
