-- How did the GPUs of each job do over time? One row a job, the mean of a headline metric over its share of its GPUs, in
-- each step of whole minutes as one array; the jobs with the highest means first. `total` and `known` are columns of
-- job_windows: what ends in _seconds, or energy_joules (power), and the seconds in which it was known.
-- @total gpu_util_seconds  the metric times its seconds; energy_joules for power
-- @known gpu_util_known_seconds  the seconds in which it was known; power_known_seconds for power
-- @since -6h  start of the window, rounded down to a whole step
-- @until now  end of the window
-- @step_s 300  length of a step in seconds, a multiple of 60
-- @windows job_windows_1m  job_windows_1h when a step is whole hours
-- @host ''  on this host alone
-- @job_id ''  this job alone
-- @top 20  how many series
WITH
    {step_s:UInt32} AS step,
    intDiv(toUnixTimestamp({since:DateTime('UTC')}), step) * step AS first,
    (intDiv(toUnixTimestamp({until:DateTime('UTC')}) - 1, step) + 1) * step AS last
SELECT
    t.job_id AS key, '' AS host, NULL AS gpu, '' AS uuid, t.job_id AS job_id,
    round(sum({total:Identifier}) / nullIf(sum({known:Identifier}), 0), 5) AS mean,
    arrayMap(
        x -> if(isNaN(x), NULL, round(x, 5)),
        avgWeightedResample(first, last, step)(
            if({known:Identifier} = 0, 0, {total:Identifier} / {known:Identifier}), {known:Identifier}, toUInt32(t.window)
        )
    ) AS values
FROM {windows:Identifier} AS t
WHERE t.window >= toDateTime(first, 'UTC') AND t.window < toDateTime(last, 'UTC')
    AND ({host:String} = '' OR t.host = {host:String})
    AND ({job_id:String} = '' OR t.job_id = {job_id:String})
GROUP BY t.job_id
HAVING sum(t.gpu_seconds) > 0 OR sum({known:Identifier}) > 0
ORDER BY mean DESC NULLS LAST, key
LIMIT {top:UInt32}
SETTINGS exact_rows_before_limit = 1
