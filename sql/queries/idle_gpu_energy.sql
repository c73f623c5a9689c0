-- What do idle GPUs draw? Energy of each host's GPUs in hours in which they did nothing at all, the largest first.
-- @since -7d  start of the window, rounded down to an hour
-- @until now  end of the window
-- @limit 20  how many hosts
SELECT
    host,
    uniqExact(uuid) AS gpus,
    sum(covered_ms) / 3600000 AS idle_gpu_hours,
    sum(power_deciwatts_sum / 10 * covered_ms / 1000 / nullIf(samples, 0)) / 3.6e6 AS energy_kwh,
    sum(power_deciwatts_sum) / nullIf(sum(power_deciwatts_count), 0) / 10 AS power_watts
FROM
(
    SELECT
        host, uuid, window,
        sum(g.covered_ms) AS covered_ms, sum(g.idle_ms) AS idle_ms, sum(g.samples) AS samples,
        sum(g.power_deciwatts_sum) AS power_deciwatts_sum, sum(g.power_deciwatts_count) AS power_deciwatts_count
    FROM gpu_heatmap_1h AS g
    WHERE window >= toStartOfHour({since:DateTime('UTC')}) AND window < {until:DateTime('UTC')}
    GROUP BY host, gpu, uuid, window
    HAVING idle_ms = covered_ms AND covered_ms > 0
)
GROUP BY host
ORDER BY energy_kwh DESC, host
LIMIT {limit:UInt32}
