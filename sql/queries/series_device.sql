-- How did a metric of devices change over time? One row a series, its mean in each step of whole hours as one array; the
-- series with the highest means first. By device, or by host or fleet, over whose devices it is a sum or a mean.
-- @device_metric rx_bytes_per_s  SI name of the metric, of a device
-- @since -7d  start of the window, rounded down to a whole step
-- @until now  end of the window
-- @step_s 3600  length of a step in seconds, a multiple of 3600
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
            toUInt32(intDiv(toUnixTimestamp(t.window), step) * step) AS at,
            sum({metric_sum:Identifier}) / sum({metric_count:Identifier}) AS known
        FROM device_windows_1h AS t
        WHERE t.window >= toDateTime(first, 'UTC') AND t.window < toDateTime(last, 'UTC')
            AND ({host:String} = '' OR t.host = {host:String})
            AND ({kind:String} = '' OR t.kind = {kind:String})
            AND ({device:String} = '' OR t.device = {device:String})
            AND ({job_id:String} = '' OR t.host GLOBAL IN (SELECT host FROM job_trees WHERE job_id = {job_id:String}))
            AND {metric_count:Identifier} > 0
        GROUP BY of_host, of_kind, of_device, at
    )
    GROUP BY host, kind, device, at
)
GROUP BY host, kind, device
ORDER BY mean DESC NULLS LAST, key
LIMIT {top:UInt32}
SETTINGS exact_rows_before_limit = 1
