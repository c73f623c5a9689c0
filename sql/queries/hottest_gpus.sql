-- Which GPUs run hottest? Highest and mean temperature in the window.
-- @since -1h  start of the window, rounded down to a minute
-- @until now  end of the window
-- @limit 20  how many GPUs
SELECT
    host, gpu, uuid,
    max(temperature_celsius_max) AS temperature_celsius_max,
    sum(temperature_celsius_sum) / nullIf(sum(temperature_celsius_count), 0) AS temperature_celsius,
    max(mem_temperature_celsius_max) AS mem_temperature_celsius_max,
    max(power_deciwatts_max) / 10 AS power_watts_max
FROM gpu_heatmap_1m
WHERE window >= toStartOfMinute({since:DateTime('UTC')}) AND window < {until:DateTime('UTC')}
GROUP BY host, gpu, uuid
HAVING isNotNull(temperature_celsius_max)
ORDER BY temperature_celsius_max DESC, host, gpu, uuid
LIMIT {limit:UInt32}
