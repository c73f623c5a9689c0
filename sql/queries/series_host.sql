-- How did a metric of hosts change over time? One row a series, its mean in each step of whole minutes as one array; the
-- hosts with the highest means first.
-- @host_metric cpu_util  SI name of the metric, of a host
-- @since -6h  start of the window, rounded down to a whole step
-- @until now  end of the window
-- @step_s 300  length of a step in seconds, a multiple of 60
-- @windows host_windows_1m  host_windows_1h when a step is whole hours
-- @by host  fleet or host
-- @host ''  this host alone
-- @job_id ''  the hosts of this job alone
-- @top 20  how many series
WITH
    {step_s:UInt32} AS step,
    intDiv(toUnixTimestamp({since:DateTime('UTC')}), step) * step AS first,
    (intDiv(toUnixTimestamp({until:DateTime('UTC')}) - 1, step) + 1) * step AS last
SELECT
    if(host = '', 'fleet', host) AS key,
    if({by:String} = 'fleet', '', toString(t.host)) AS host,
    NULL AS gpu, '' AS uuid, '' AS job_id,
    sum({metric_sum:Identifier}) / nullIf(sum({metric_count:Identifier}), 0) AS stored_mean,
    round(stored_mean * {metric_factor:Float64}, {metric_decimals:UInt8}) AS mean,
    arrayMap(
        x -> if(isNaN(x), NULL, round(x * {metric_factor:Float64}, {metric_decimals:UInt8})),
        avgWeightedResample(first, last, step)(
            if({metric_count:Identifier} = 0, 0, {metric_sum:Identifier} / {metric_count:Identifier}),
            toFloat64({metric_count:Identifier}),
            toUInt32(t.window)
        )
    ) AS values
FROM {windows:Identifier} AS t
WHERE t.window >= toDateTime(first, 'UTC') AND t.window < toDateTime(last, 'UTC')
    AND ({host:String} = '' OR t.host = {host:String})
    AND ({job_id:String} = '' OR t.host IN (SELECT host FROM job_trees WHERE job_id = {job_id:String}))
GROUP BY host
ORDER BY stored_mean DESC NULLS LAST, host
LIMIT {top:UInt32}
SETTINGS exact_rows_before_limit = 1
