-- How did a metric of hosts change over time? The same as series_host from the raw rows: for steps below a minute, and for
-- metrics that are not rolled up.
-- @host_metric cpu_util  SI name of the metric, of a host; of several, with commas between
-- @since -15m  start of the window, rounded down to a whole step
-- @until now  end of the window
-- @step_s 10  length of a step in seconds
-- @by host  fleet or host
-- @host ''  this host alone
-- @job_id ''  the hosts of this job alone
-- @top 20  how many series
WITH
    {step_s:UInt32} AS step,
    intDiv(toUnixTimestamp({since:DateTime('UTC')}), step) * step AS first,
    (intDiv(toUnixTimestamp({until:DateTime('UTC')}) - 1, step) + 1) * step AS last,
    value -> (
        avg(value), avgResample(first * 1000, last * 1000, step * 1000)(value, toUnixTimestamp64Milli(t.ts))
    ) AS line,
    grouped AS
    (
        SELECT
            if({by:String} = 'fleet', '', toString(t.host)) AS host,
            count() OVER () AS total,
            [
                ({host_metric:String}, {metric_factor:Float64}, {metric_decimals:UInt8}, line({metric_column:Identifier}))  -- each metric
            ] AS lines
        FROM host_samples AS t
        WHERE t.ts >= toDateTime64(first, 3, 'UTC') AND t.ts < toDateTime64(last, 3, 'UTC')
            AND ({host:String} = '' OR t.host = {host:String})
            AND ({job_id:String} = '' OR t.host GLOBAL IN (SELECT host FROM job_trees WHERE job_id = {job_id:String}))
        GROUP BY host
    ),
    highest AS
    (
        SELECT host, total, place, line.1 AS metric, line.2 AS factor, line.3 AS decimals, line.4.1 AS stored, line.4.2 AS points
        FROM grouped
        ARRAY JOIN lines AS line, arrayEnumerate(lines) AS place
        ORDER BY place, stored DESC NULLS LAST, host
        LIMIT {top:UInt32} BY place
    )
SELECT
    metric,
    if(host = '', 'fleet', host) AS key,
    host, NULL AS gpu, '' AS uuid, '' AS job_id, total,
    round(stored * factor, decimals) AS mean,
    arrayMap(x -> if(isNaN(x), NULL, round(x * factor, decimals)), points) AS values
FROM highest
ORDER BY place, stored DESC NULLS LAST, host
