-- How busy were the GPUs of each host? A line each: the mean of its GPUs in each step of whole minutes as one array.
-- @hosts ''  of these alone, as ["a", "b"]
-- @since -6h  start of the window, rounded down to a whole step
-- @until now  end of the window
-- @step_s 900  length of a step in seconds, a multiple of 60
-- @windows gpu_heatmap_1m  gpu_heatmap_1h when a step is whole hours
WITH
    {step_s:UInt32} AS step,
    intDiv(toUnixTimestamp({since:DateTime('UTC')}), step) * step AS first,
    (intDiv(toUnixTimestamp({until:DateTime('UTC')}) - 1, step) + 1) * step AS last
SELECT
    host,
    arrayMap(
        x -> if(isNaN(x), NULL, round(x / 1000, 3)),
        avgWeightedResample(first, last, step)(
            if(gpu_util_permille_count = 0, 0, gpu_util_permille_sum / gpu_util_permille_count),
            toFloat64(gpu_util_permille_count),
            toUInt32(window)
        )
    ) AS spark
FROM {windows:Identifier}
WHERE ({hosts:String} = '' OR host IN JSONExtract({hosts:String}, 'Array(String)')) AND window >= toDateTime(first, 'UTC') AND window < toDateTime(last, 'UTC')
GROUP BY host
