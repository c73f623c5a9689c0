-- How did each GPU do over time? The same as heatmap from the raw rows, for steps below a minute.
-- @metric gpu_util  SI name of the metric
-- @since -15m  start of the window, rounded down to a whole step
-- @until now  end of the window
-- @step_s 10  length of a step in seconds
WITH
    {step_s:UInt32} AS step,
    intDiv(toUnixTimestamp({since:DateTime('UTC')}), step) * step AS first,
    (intDiv(toUnixTimestamp({until:DateTime('UTC')}) - 1, step) + 1) * step AS last
SELECT
    host, gpu, uuid,
    toDateTime(first, 'UTC') AS start,
    arrayMap(
        mean -> if(isNaN(mean), NULL, round(mean * {metric_factor:Float64}, {metric_decimals:UInt8})),
        avgResample(first * 1000, last * 1000, step * 1000)({metric_column:Identifier}, toUnixTimestamp64Milli(ts))
    ) AS values
FROM gpu_samples
WHERE ts >= toDateTime64(first, 3, 'UTC') AND ts < toDateTime64(last, 3, 'UTC')
GROUP BY host, gpu, uuid
ORDER BY host, gpu, uuid
SETTINGS optimize_aggregation_in_order = 1
