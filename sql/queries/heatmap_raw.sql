-- How did each GPU do over time? The same as heatmap from the raw rows, for steps below a minute.
-- @metric gpu_util  SI name of the metric
-- @since -15m  start of the window, rounded down to a whole step
-- @until now  end of the window
-- @step_s 10  length of a step in seconds
-- @host ''  of this host alone
-- @job_id ''  of this job's GPUs alone, while it ran
WITH
    {step_s:UInt32} AS step,
    intDiv(toUnixTimestamp({since:DateTime('UTC')}), step) * step AS first,
    (intDiv(toUnixTimestamp({until:DateTime('UTC')}) - 1, step) + 1) * step AS last
SELECT
    seen.host AS host, seen.gpu AS gpu, seen.uuid AS uuid, last.job_id AS job_id,
    toDateTime(first, 'UTC') AS start,
    values
FROM
(
    SELECT
        host, gpu, uuid,
        arrayMap(
            mean -> if(isNaN(mean), NULL, round(mean * {metric_factor:Float64}, {metric_stored_decimals:UInt8})),
            avgResample(first * 1000, last * 1000, step * 1000)({metric_column:Identifier}, toUnixTimestamp64Milli(ts))
        ) AS values
    FROM gpu_samples AS t
    WHERE ts >= toDateTime64(first, 3, 'UTC') AND ts < toDateTime64(last, 3, 'UTC')
        AND ({host:String} = '' OR t.host = {host:String})
        AND ({job_id:String} = '' OR (t.host, t.uuid) GLOBAL IN (
            SELECT host, arrayJoin(gpu_uuids_held) FROM job_trees WHERE job_id = {job_id:String}
        ))
        AND ({job_id:String} = '' OR t.ts BETWEEN
            (SELECT min(started_at) FROM job_trees WHERE job_id = {job_id:String})
            AND (SELECT max(last_at) FROM job_trees WHERE job_id = {job_id:String}))
    GROUP BY host, gpu, uuid
) AS seen
LEFT JOIN
(
    SELECT host, gpu, uuid, argMaxMerge(latest).job_ids[1] AS job_id FROM gpu_last GROUP BY host, gpu, uuid
) AS last ON last.host = seen.host AND last.gpu = seen.gpu AND last.uuid = seen.uuid
ORDER BY host, gpu, uuid
SETTINGS optimize_aggregation_in_order = 1
