-- How did the fleet's use change over time? The headline metrics in each step of whole minutes.
-- @since -6h  start of the window
-- @until now  end of the window
-- @step_s 300  length of a step in seconds, a multiple of 60
SELECT
    toDateTime(intDiv(toUnixTimestamp(window), {step_s:UInt32}) * {step_s:UInt32}, 'UTC') AS step,
    sum(gpu_util_permille_sum) / nullIf(sum(gpu_util_permille_count), 0) / 1000 AS gpu_util,
    sum(sm_active_permille_sum) / nullIf(sum(sm_active_permille_count), 0) / 1000 AS sm_active,
    sum(tensor_active_permille_sum) / nullIf(sum(tensor_active_permille_count), 0) / 1000 AS tensor_active,
    arrayMap(x -> x / 1000, quantilesTimingMerge(0.5, 0.95)(gpu_util_permille_quantiles)) AS gpu_util_quantiles,
    sum(power_deciwatts_sum) / nullIf(sum(power_deciwatts_count), 0) / 10 AS power_watts,
    sum(idle_ms) / nullIf(sum(covered_ms), 0) AS idle
FROM fleet_windows_1m
WHERE window >= {since:DateTime('UTC')} AND window < {until:DateTime('UTC')}
GROUP BY step
ORDER BY step
