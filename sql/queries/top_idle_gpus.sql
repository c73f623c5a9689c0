-- Which GPUs were idle for most of the time? Share of the time in which a GPU was known to be below 5 %, from its hours.
-- @since -24h  start of the window, rounded down to an hour
-- @until now  end of the window
-- @limit 20  how many GPUs
SELECT
    host, gpu, uuid,
    sum(idle_ms) / nullIf(sum(covered_ms), 0) AS idle,
    sum(idle_ms) / 1000 AS idle_s
FROM gpu_heatmap_1h
WHERE window >= toStartOfHour({since:DateTime('UTC')}) AND window < {until:DateTime('UTC')}
GROUP BY host, gpu, uuid
ORDER BY idle DESC, host, gpu, uuid
LIMIT {limit:UInt32}
SETTINGS optimize_aggregation_in_order = 1
