-- Which GPUs run slower than others of their model? Mean clock of a GPU in the hours in which it was busy throughout, against the median of its model.
-- @since -7d  start of the window, rounded down to an hour
-- @until now  end of the window
-- @behind 0.05  by this share at least
SELECT
    host, gpu, uuid, model, busy_hours, sm_clock_hertz, model_median_hertz,
    1 - sm_clock_hertz / model_median_hertz AS behind,
    temperature_celsius, power_watts
FROM
(
    SELECT *, quantileExactInclusive(0.5)(sm_clock_hertz) OVER (PARTITION BY model) AS model_median_hertz
    FROM
    (
        SELECT
            host, gpu, uuid,
            sum(hour.covered_ms) / 3600000 AS busy_hours,
            sum(hour.clock_sum) / nullIf(sum(hour.clock_count), 0) * 1000000 AS sm_clock_hertz,
            sum(hour.temperature_sum) / nullIf(sum(hour.temperature_count), 0) AS temperature_celsius,
            sum(hour.power_sum) / nullIf(sum(hour.power_count), 0) / 10 AS power_watts
        FROM
        (
            SELECT
                host, gpu, uuid, window,
                sum(g.covered_ms) AS covered_ms, sum(g.idle_ms) AS idle_ms,
                sum(g.sm_clock_megahertz_sum) AS clock_sum, sum(g.sm_clock_megahertz_count) AS clock_count,
                sum(g.temperature_celsius_sum) AS temperature_sum, sum(g.temperature_celsius_count) AS temperature_count,
                sum(g.power_deciwatts_sum) AS power_sum, sum(g.power_deciwatts_count) AS power_count
            FROM gpu_heatmap_1h AS g
            WHERE window >= toStartOfHour({since:DateTime('UTC')}) AND window < {until:DateTime('UTC')}
            GROUP BY host, gpu, uuid, window
            HAVING idle_ms = 0
        ) AS hour
        GROUP BY host, gpu, uuid
        HAVING isNotNull(sm_clock_hertz)
    ) AS seen
    GLOBAL INNER JOIN
    (
        SELECT host, uuid, argMaxMerge(latest).model AS model FROM gpu_last GROUP BY host, uuid
    ) AS devices ON devices.host = seen.host AND devices.uuid = seen.uuid
)
WHERE behind >= {behind:Float64}
ORDER BY behind DESC, host, gpu, uuid
