-- How busy were the GPUs of each job? A line each: the mean of its GPUs in each step of whole minutes as one array.
-- @jobs ''  of these alone, as ["a", "b"]
-- @since -6h  start of the window, rounded down to a whole step
-- @until now  end of the window
-- @step_s 900  length of a step in seconds, a multiple of 60
-- @windows job_windows_1m  job_windows_1h when a step is whole hours
WITH
    {step_s:UInt32} AS step,
    intDiv(toUnixTimestamp({since:DateTime('UTC')}), step) * step AS first,
    (intDiv(toUnixTimestamp({until:DateTime('UTC')}) - 1, step) + 1) * step AS last
SELECT
    job_id,
    arrayMap(
        x -> if(isNaN(x), NULL, round(x, 3)),
        avgWeightedResample(first, last, step)(
            if(gpu_util_known_seconds = 0, 0, gpu_util_seconds / gpu_util_known_seconds), gpu_util_known_seconds, toUInt32(window)
        )
    ) AS spark
FROM {windows:Identifier}
WHERE ({jobs:String} = '' OR job_id IN JSONExtract({jobs:String}, 'Array(String)')) AND window >= toDateTime(first, 'UTC') AND window < toDateTime(last, 'UTC')
GROUP BY job_id
