-- How did the GPUs of each job do over time? One row a job, the mean of a metric over the GPUs that it had at each instant,
-- from the raw rows; the jobs with the highest means first.
-- @metric gpu_util  SI name of the metric, of a GPU
-- @since -15m  start of the window, rounded down to a whole step
-- @until now  end of the window
-- @step_s 10  length of a step in seconds
-- @host ''  on this host alone
-- @job_id ''  this job alone
-- @top 20  how many series
WITH
    {step_s:UInt32} AS step,
    intDiv(toUnixTimestamp({since:DateTime('UTC')}), step) * step AS first,
    (intDiv(toUnixTimestamp({until:DateTime('UTC')}) - 1, step) + 1) * step AS last
SELECT
    toString(job) AS key, '' AS host, NULL AS gpu, '' AS uuid, toString(job) AS job_id,
    avg({metric_column:Identifier}) AS stored_mean,
    round(stored_mean * {metric_factor:Float64}, {metric_decimals:UInt8}) AS mean,
    arrayMap(
        x -> if(isNaN(x), NULL, round(x * {metric_factor:Float64}, {metric_decimals:UInt8})),
        avgResample(first * 1000, last * 1000, step * 1000)({metric_column:Identifier}, toUnixTimestamp64Milli(t.ts))
    ) AS values
FROM gpu_samples AS t ARRAY JOIN t.job_ids AS job
WHERE t.ts >= toDateTime64(first, 3, 'UTC') AND t.ts < toDateTime64(last, 3, 'UTC')
    AND ({host:String} = '' OR t.host = {host:String})
    AND ({job_id:String} = '' OR job = {job_id:String})
GROUP BY job
ORDER BY stored_mean DESC NULLS LAST, key
LIMIT {top:UInt32}
SETTINGS exact_rows_before_limit = 1
