-- How did a metric of GPUs change over time? The same as series_gpu from the raw rows: for steps below a minute, and for
-- metrics that are not rolled up.
-- @metric gpu_util  SI name of the metric, of a GPU
-- @since -15m  start of the window, rounded down to a whole step
-- @until now  end of the window
-- @step_s 10  length of a step in seconds
-- @by host  fleet, host or gpu
-- @host ''  of this host alone
-- @gpu ''  of this GPU alone: its index or uuid
-- @job_id ''  of this job's GPUs alone, while it ran
-- @top 20  how many series
WITH
    {step_s:UInt32} AS step,
    intDiv(toUnixTimestamp({since:DateTime('UTC')}), step) * step AS first,
    (intDiv(toUnixTimestamp({until:DateTime('UTC')}) - 1, step) + 1) * step AS last
SELECT
    multiIf(host = '', 'fleet', isNull(gpu), host, concat(host, '/', toString(gpu), if(startsWith(uuid, 'MIG'), concat('/', uuid), ''))) AS key,
    if({by:String} = 'fleet', '', toString(t.host)) AS host,
    if({by:String} = 'gpu', toNullable(t.gpu), NULL) AS gpu,
    if({by:String} = 'gpu', toString(t.uuid), '') AS uuid,
    '' AS job_id,
    avg({metric_column:Identifier}) AS stored_mean,
    round(stored_mean * {metric_factor:Float64}, {metric_decimals:UInt8}) AS mean,
    arrayMap(
        x -> if(isNaN(x), NULL, round(x * {metric_factor:Float64}, {metric_decimals:UInt8})),
        avgResample(first * 1000, last * 1000, step * 1000)({metric_column:Identifier}, toUnixTimestamp64Milli(t.ts))
    ) AS values
FROM gpu_samples AS t
WHERE t.ts >= toDateTime64(first, 3, 'UTC') AND t.ts < toDateTime64(last, 3, 'UTC')
    AND ({host:String} = '' OR t.host = {host:String})
    AND ({gpu:String} = '' OR toString(t.gpu) = {gpu:String} OR t.uuid = {gpu:String})
    AND ({job_id:String} = '' OR (t.host, t.uuid) IN (
        SELECT host, arrayJoin(gpu_uuids_held) FROM job_trees WHERE job_id = {job_id:String}
    ))
    AND ({job_id:String} = '' OR t.ts BETWEEN
        (SELECT min(started_at) FROM job_trees WHERE job_id = {job_id:String})
        AND (SELECT max(last_at) FROM job_trees WHERE job_id = {job_id:String}))
GROUP BY host, gpu, uuid
ORDER BY stored_mean DESC NULLS LAST, host, gpu, uuid
LIMIT {top:UInt32}
SETTINGS exact_rows_before_limit = 1
