-- At which hours of the day is the fleet idle? All GPUs' hours, idle hours, use and power by the hour of the day in a time zone.
-- @since -14d  start of the window, rounded down to an hour
-- @until now  end of the window
-- @timezone UTC  whose hours: Europe/Berlin, America/New_York, …
SELECT
    toHour(window, {timezone:String}) AS hour,
    sum(covered_ms) / 3600000 AS gpu_hours,
    sum(idle_ms) / 3600000 AS idle_gpu_hours,
    idle_gpu_hours / nullIf(gpu_hours, 0) AS idle,
    sum(gpu_util_permille_sum) / nullIf(sum(gpu_util_permille_count), 0) / 1000 AS gpu_util,
    sum(power_deciwatts_sum) / nullIf(sum(power_deciwatts_count), 0) / 10 AS power_watts_per_gpu
FROM fleet_windows_1h
WHERE window >= toStartOfHour({since:DateTime('UTC')}) AND window < {until:DateTime('UTC')}
GROUP BY hour
ORDER BY hour
