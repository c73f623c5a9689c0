-- How did a metric of devices change over time? The same as series_device from the raw rows: for steps below an hour, and
-- for metrics that are not rolled up.
-- @device_metric rx_bytes_per_s  SI name of the metric, of a device
-- @since -15m  start of the window, rounded down to a whole step
-- @until now  end of the window
-- @step_s 10  length of a step in seconds
-- @by device  fleet, host or device
-- @host ''  of this host alone
-- @kind ''  of this kind alone: nic, rdma, disk, mount, numa, socket
-- @device ''  this device alone
-- @job_id ''  of the hosts of this job alone
-- @total 0  1: devices of a series are added up, as rates are; 0: their mean
-- @top 20  how many series
WITH
    {step_s:UInt32} AS step,
    intDiv(toUnixTimestamp({since:DateTime('UTC')}), step) * step AS first,
    (intDiv(toUnixTimestamp({until:DateTime('UTC')}) - 1, step) + 1) * step AS last
SELECT
    multiIf(host = '', 'fleet', device = '', host, concat(host, '/', kind, '/', device)) AS key,
    host, kind, device, NULL AS gpu, '' AS uuid, '' AS job_id,
    round(avg(value) * {metric_factor:Float64}, {metric_decimals:UInt8}) AS mean,
    arrayMap(
        x -> if(isNaN(x), NULL, round(x * {metric_factor:Float64}, {metric_decimals:UInt8})),
        avgResample(first, last, step)(value, at)
    ) AS values
FROM
(
    SELECT host, kind, device, at, if({total:UInt8} = 1, sum(known), avg(known)) AS value
    FROM
    (
        SELECT
            t.host AS of_host, t.kind AS of_kind, t.device AS of_device,
            if({by:String} = 'fleet', '', toString(of_host)) AS host,
            if({by:String} = 'device', toString(of_kind), '') AS kind,
            if({by:String} = 'device', toString(of_device), '') AS device,
            toUInt32(intDiv(toUnixTimestamp(t.ts), step) * step) AS at,
            avg({metric_column:Identifier}) AS known
        FROM device_samples AS t
        WHERE t.ts >= toDateTime64(first, 3, 'UTC') AND t.ts < toDateTime64(last, 3, 'UTC')
            AND ({host:String} = '' OR t.host = {host:String})
            AND ({kind:String} = '' OR t.kind = {kind:String})
            AND ({device:String} = '' OR t.device = {device:String})
            AND ({job_id:String} = '' OR t.host GLOBAL IN (SELECT host FROM job_trees WHERE job_id = {job_id:String}))
            AND isNotNull({metric_column:Identifier})
        GROUP BY of_host, of_kind, of_device, at
    )
    GROUP BY host, kind, device, at
)
GROUP BY host, kind, device
ORDER BY mean DESC NULLS LAST, key
LIMIT {top:UInt32}
SETTINGS exact_rows_before_limit = 1
