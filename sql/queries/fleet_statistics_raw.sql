-- How busy is the fleet, and how busy was it before? The same as fleet_statistics from the raw rows, for short windows.
-- @before -30m  start of the window before
-- @since -15m  start of the window, end of the one before
-- @until now  end of the window
WITH
    ts >= {since:DateTime64(3, 'UTC')} AS now
SELECT
    stat.1 AS metric, stat.2 AS unit, stat.3 AS mean, stat.4 AS p50, stat.5 AS p95, stat.6 AS before,
    mean - before AS change, gpu_hours, idle_gpu_hours
FROM
(
    SELECT
        avgOrNullIf(t.gpu_util_permille, now) / 1000 AS gpu_util,
        avgOrNullIf(t.gpu_util_permille, NOT now) / 1000 AS gpu_util_before,
        arrayMap(x -> if(isNaN(x), NULL, x / 1000), quantilesTimingIf(0.5, 0.95)(t.gpu_util_permille, now)) AS gpu_util_quantiles,
        avgOrNullIf(t.sm_active_permille, now) / 1000 AS sm_active,
        avgOrNullIf(t.sm_active_permille, NOT now) / 1000 AS sm_active_before,
        arrayMap(x -> if(isNaN(x), NULL, x / 1000), quantilesTimingIf(0.5, 0.95)(t.sm_active_permille, now)) AS sm_active_quantiles,
        avgOrNullIf(t.tensor_active_permille, now) / 1000 AS tensor_active,
        avgOrNullIf(t.tensor_active_permille, NOT now) / 1000 AS tensor_active_before,
        arrayMap(x -> if(isNaN(x), NULL, x / 1000), quantilesTimingIf(0.5, 0.95)(t.tensor_active_permille, now)) AS tensor_active_quantiles,
        avgOrNullIf(t.dram_active_permille, now) / 1000 AS dram_active,
        avgOrNullIf(t.dram_active_permille, NOT now) / 1000 AS dram_active_before,
        arrayMap(x -> if(isNaN(x), NULL, x / 1000), quantilesTimingIf(0.5, 0.95)(t.dram_active_permille, now)) AS dram_active_quantiles,
        avgOrNullIf(t.power_deciwatts, now) / 10 AS power_watts,
        avgOrNullIf(t.power_deciwatts, NOT now) / 10 AS power_watts_before,
        arrayMap(x -> if(isNaN(x), NULL, x / 10), quantilesDDIf(0.01, 0.5, 0.95)(t.power_deciwatts, now)) AS power_watts_quantiles,
        avgOrNullIf(t.temperature_celsius, now) AS temperature_celsius,
        avgOrNullIf(t.temperature_celsius, NOT now) AS temperature_celsius_before,
        arrayMap(x -> if(isNaN(x), NULL, x), quantilesDDIf(0.01, 0.5, 0.95)(t.temperature_celsius, now)) AS temperature_celsius_quantiles,
        avgOrNullIf(t.fb_used_mebibytes, now) / nullIf(avgOrNullIf(t.fb_total_mebibytes, now), 0) AS fb_used,
        avgOrNullIf(t.fb_used_mebibytes, NOT now) / nullIf(avgOrNullIf(t.fb_total_mebibytes, NOT now), 0) AS fb_used_before,
        sumIf(t.period_ms, now) / 3600000 AS gpu_hours,
        sumIf(t.period_ms, now AND coalesce(t.gpu_util_permille, t.sm_active_permille) < 50) / 3600000 AS idle_gpu_hours
    FROM gpu_samples AS t
    WHERE ts >= {before:DateTime64(3, 'UTC')} AND ts < {until:DateTime64(3, 'UTC')}
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
