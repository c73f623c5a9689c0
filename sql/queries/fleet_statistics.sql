-- How busy is the fleet, and how busy was it before? One row a headline metric: mean, median and 95th percentile over the
-- window, and the mean of the window before. From the minutes or hours, so the window begins with a whole one; fb_used is
-- device memory in use over all there is.
-- @before -12h  start of the window before
-- @since -6h  start of the window, end of the one before
-- @until now  end of the window
-- @windows fleet_windows_1m  or fleet_windows_1h
-- @step_s 60  seconds of those windows: 60 or 3600
WITH
    window >= toStartOfInterval({since:DateTime('UTC')}, toIntervalSecond({step_s:UInt32})) AS now
SELECT
    stat.1 AS metric, stat.2 AS unit, stat.3 AS mean, stat.4 AS p50, stat.5 AS p95, stat.6 AS before,
    mean - before AS change, gpu_hours, idle_gpu_hours
FROM
(
    SELECT
        sumIf(gpu_util_permille_sum, now) / nullIf(sumIf(gpu_util_permille_count, now), 0) / 1000 AS gpu_util,
        sumIf(gpu_util_permille_sum, NOT now) / nullIf(sumIf(gpu_util_permille_count, NOT now), 0) / 1000 AS gpu_util_before,
        arrayMap(x -> if(isNaN(x), NULL, x / 1000), quantilesTimingMergeIf(0.5, 0.95)(gpu_util_permille_quantiles, now)) AS gpu_util_quantiles,
        sumIf(sm_active_permille_sum, now) / nullIf(sumIf(sm_active_permille_count, now), 0) / 1000 AS sm_active,
        sumIf(sm_active_permille_sum, NOT now) / nullIf(sumIf(sm_active_permille_count, NOT now), 0) / 1000 AS sm_active_before,
        arrayMap(x -> if(isNaN(x), NULL, x / 1000), quantilesTimingMergeIf(0.5, 0.95)(sm_active_permille_quantiles, now)) AS sm_active_quantiles,
        sumIf(tensor_active_permille_sum, now) / nullIf(sumIf(tensor_active_permille_count, now), 0) / 1000 AS tensor_active,
        sumIf(tensor_active_permille_sum, NOT now) / nullIf(sumIf(tensor_active_permille_count, NOT now), 0) / 1000 AS tensor_active_before,
        arrayMap(x -> if(isNaN(x), NULL, x / 1000), quantilesTimingMergeIf(0.5, 0.95)(tensor_active_permille_quantiles, now)) AS tensor_active_quantiles,
        sumIf(dram_active_permille_sum, now) / nullIf(sumIf(dram_active_permille_count, now), 0) / 1000 AS dram_active,
        sumIf(dram_active_permille_sum, NOT now) / nullIf(sumIf(dram_active_permille_count, NOT now), 0) / 1000 AS dram_active_before,
        arrayMap(x -> if(isNaN(x), NULL, x / 1000), quantilesTimingMergeIf(0.5, 0.95)(dram_active_permille_quantiles, now)) AS dram_active_quantiles,
        sumIf(power_deciwatts_sum, now) / nullIf(sumIf(power_deciwatts_count, now), 0) / 10 AS power_watts,
        sumIf(power_deciwatts_sum, NOT now) / nullIf(sumIf(power_deciwatts_count, NOT now), 0) / 10 AS power_watts_before,
        arrayMap(x -> if(isNaN(x), NULL, x / 10), quantilesDDMergeIf(0.01, 0.5, 0.95)(power_deciwatts_quantiles, now)) AS power_watts_quantiles,
        sumIf(temperature_celsius_sum, now) / nullIf(sumIf(temperature_celsius_count, now), 0) AS temperature_celsius,
        sumIf(temperature_celsius_sum, NOT now) / nullIf(sumIf(temperature_celsius_count, NOT now), 0) AS temperature_celsius_before,
        arrayMap(x -> if(isNaN(x), NULL, x), quantilesDDMergeIf(0.01, 0.5, 0.95)(temperature_celsius_quantiles, now)) AS temperature_celsius_quantiles,
        sumIf(fb_used_mebibytes_sum, now) / nullIf(sumIf(fb_total_mebibytes_sum, now), 0) AS fb_used,
        sumIf(fb_used_mebibytes_sum, NOT now) / nullIf(sumIf(fb_total_mebibytes_sum, NOT now), 0) AS fb_used_before,
        sumIf(covered_ms, now) / 3600000 AS gpu_hours,
        sumIf(idle_ms, now) / 3600000 AS idle_gpu_hours
    FROM {windows:Identifier}
    WHERE window >= toStartOfInterval({before:DateTime('UTC')}, toIntervalSecond({step_s:UInt32})) AND window < {until:DateTime('UTC')}
)
ARRAY JOIN [
    ('gpu_util', 'ratio 0-1', gpu_util, gpu_util_quantiles[1], gpu_util_quantiles[2], gpu_util_before),
    ('sm_active', 'ratio 0-1', sm_active, sm_active_quantiles[1], sm_active_quantiles[2], sm_active_before),
    ('tensor_active', 'ratio 0-1', tensor_active, tensor_active_quantiles[1], tensor_active_quantiles[2], tensor_active_before),
    ('dram_active', 'ratio 0-1', dram_active, dram_active_quantiles[1], dram_active_quantiles[2], dram_active_before),
    ('fb_used', 'ratio 0-1', fb_used, NULL, NULL, fb_used_before),
    ('power_watts', 'W', power_watts, power_watts_quantiles[1], power_watts_quantiles[2], power_watts_before),
    ('temperature_celsius', '°C', temperature_celsius, temperature_celsius_quantiles[1], temperature_celsius_quantiles[2], temperature_celsius_before)
] AS stat
