-- How did each GPU do over time? One row a GPU, a metric's mean in each step of whole minutes as one array, and the job
-- that it last had.
-- It is what the view gpu_heatmap_minutes does, written out: the engine then spends less time on understanding it. The
-- columns behind `metric` (metric_sum, metric_count) and its scale (metric_factor) follow from it. Weights are floats: with
-- integer ones avgWeighted cuts its values to integers (seen in 26.9). Values are rounded to the scale that samples are
-- stored in: more digits take longer to write and to send, and no colour shows them.
-- @metric gpu_util  SI name of the metric
-- @since -6h  start of the window, rounded down to a whole step
-- @until now  end of the window
-- @step_s 300  length of a step in seconds, a multiple of 60
-- @windows gpu_heatmap_1m  gpu_heatmap_1h when a step is whole hours
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
            avgWeightedResample(first, last, step)(
                if({metric_count:Identifier} = 0, 0, {metric_sum:Identifier} / {metric_count:Identifier}),
                toFloat64({metric_count:Identifier}),
                toUInt32(window)
            )
        ) AS values
    FROM {windows:Identifier} AS t
    WHERE window >= toDateTime(first, 'UTC') AND window < toDateTime(last, 'UTC')
        AND ({host:String} = '' OR t.host = {host:String})
        AND ({job_id:String} = '' OR (t.host, t.uuid) GLOBAL IN (
            SELECT host, arrayJoin(gpu_uuids_held) FROM job_trees WHERE job_id = {job_id:String}
        ))
        AND ({job_id:String} = '' OR t.window BETWEEN
            (SELECT toStartOfInterval(min(started_at), toIntervalSecond(if({step_s:UInt32} % 3600 = 0, 3600, 60))) FROM job_trees WHERE job_id = {job_id:String})
            AND (SELECT max(last_at) FROM job_trees WHERE job_id = {job_id:String}))
    GROUP BY host, gpu, uuid
) AS seen
LEFT JOIN
(
    SELECT host, gpu, uuid, argMaxMerge(latest).job_ids[1] AS job_id FROM gpu_last GROUP BY host, gpu, uuid
) AS last ON last.host = seen.host AND last.gpu = seen.gpu AND last.uuid = seen.uuid
ORDER BY host, gpu, uuid
SETTINGS optimize_aggregation_in_order = 1
