-- How did the fleet's mean of a headline metric change over time? One row: the mean of all GPUs in each step as one array.
-- For metrics that fleet_windows keeps: gpu_util, sm_active, tensor_active, dram_active, fb_used_bytes, fb_total_bytes,
-- power_watts, temperature_celsius; series_gpu answers for any.
-- @metric gpu_util  SI name of the metric
-- @since -6h  start of the window, rounded down to a whole step
-- @until now  end of the window
-- @step_s 300  length of a step in seconds, a multiple of 60
-- @windows fleet_windows_1m  fleet_windows_1h when a step is whole hours
WITH
    {step_s:UInt32} AS step,
    intDiv(toUnixTimestamp({since:DateTime('UTC')}), step) * step AS first,
    (intDiv(toUnixTimestamp({until:DateTime('UTC')}) - 1, step) + 1) * step AS last
SELECT
    'fleet' AS key, '' AS host, NULL AS gpu, '' AS uuid, '' AS job_id,
    round(sum({metric_sum:Identifier}) / nullIf(sum({metric_count:Identifier}), 0) * {metric_factor:Float64}, {metric_decimals:UInt8}) AS mean,
    arrayMap(
        x -> if(isNaN(x), NULL, round(x * {metric_factor:Float64}, {metric_decimals:UInt8})),
        avgWeightedResample(first, last, step)(
            if({metric_count:Identifier} = 0, 0, {metric_sum:Identifier} / {metric_count:Identifier}),
            toFloat64({metric_count:Identifier}),
            toUInt32(window)
        )
    ) AS values
FROM {windows:Identifier}
WHERE window >= toDateTime(first, 'UTC') AND window < toDateTime(last, 'UTC')
HAVING count() > 0
