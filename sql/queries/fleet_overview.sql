-- How busy is the fleet? Mean, median and 95th percentile of the headline metrics over the window, from its minutes.
-- @since -6h  start of the window
-- @until now  end of the window
SELECT
    sum(gpu_util_permille_sum) / nullIf(sum(gpu_util_permille_count), 0) / 1000 AS gpu_util,
    sum(sm_active_permille_sum) / nullIf(sum(sm_active_permille_count), 0) / 1000 AS sm_active,
    sum(tensor_active_permille_sum) / nullIf(sum(tensor_active_permille_count), 0) / 1000 AS tensor_active,
    arrayMap(x -> x / 1000, quantilesTimingMerge(0.5, 0.95)(gpu_util_permille_quantiles)) AS gpu_util_quantiles,
    arrayMap(x -> x / 1000, quantilesTimingMerge(0.5, 0.95)(sm_active_permille_quantiles)) AS sm_active_quantiles,
    arrayMap(x -> x / 1000, quantilesTimingMerge(0.5, 0.95)(tensor_active_permille_quantiles)) AS tensor_active_quantiles,
    sum(power_deciwatts_sum) / nullIf(sum(power_deciwatts_count), 0) / 10 AS power_watts,
    sum(fb_used_mebibytes_sum) / nullIf(sum(fb_total_mebibytes_sum), 0) AS fb_used,
    sum(covered_ms) / 3600000 AS gpu_hours,
    sum(idle_ms) / 3600000 AS idle_gpu_hours
FROM fleet_windows_1m
WHERE window >= {since:DateTime('UTC')} AND window < {until:DateTime('UTC')}
