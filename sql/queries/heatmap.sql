-- How did each GPU do over time? One row a GPU, a metric's mean in each step of whole minutes as one array.
-- It is what the view gpu_heatmap_minutes does, written out: the engine then spends less time on understanding it. The
-- columns behind `metric` (metric_sum, metric_count) and its scale (metric_factor) follow from it. Weights are floats: with
-- integer ones avgWeighted cuts its values to integers (seen in 26.9).
-- @metric gpu_util  SI name of the metric
-- @since -6h  start of the window, rounded down to a whole step
-- @until now  end of the window
-- @step_s 300  length of a step in seconds, a multiple of 60
WITH
    {step_s:UInt32} AS step,
    intDiv(toUnixTimestamp({since:DateTime('UTC')}), step) * step AS first,
    (intDiv(toUnixTimestamp({until:DateTime('UTC')}) - 1, step) + 1) * step AS last
SELECT
    host, gpu, uuid,
    toDateTime(first, 'UTC') AS start,
    arrayMap(
        mean -> if(isNaN(mean), NULL, round(mean * {metric_factor:Float64}, {metric_decimals:UInt8})),
        avgWeightedResample(first, last, step)(
            if({metric_count:Identifier} = 0, 0, {metric_sum:Identifier} / {metric_count:Identifier}),
            toFloat64({metric_count:Identifier}),
            toUInt32(window)
        )
    ) AS values
FROM gpu_heatmap_1m
WHERE window >= toDateTime(first, 'UTC') AND window < toDateTime(last, 'UTC')
GROUP BY host, gpu, uuid
ORDER BY host, gpu, uuid
SETTINGS optimize_aggregation_in_order = 1
