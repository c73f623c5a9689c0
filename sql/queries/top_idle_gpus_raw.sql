-- Which GPUs were idle for most of the window? The same as top_idle_gpus from the raw rows.
-- @since -15m  start of the window
-- @until now  end of the window
-- @limit 20  how many GPUs
SELECT
    host, gpu, uuid,
    sumIf(period_ms, gpu_util_permille < 50) / nullIf(sum(period_ms), 0) AS idle,
    sumIf(period_ms, gpu_util_permille < 50) / 1000 AS idle_s,
    avg(gpu_util_permille) / 1000 AS gpu_util
FROM gpu_samples
WHERE ts >= {since:DateTime('UTC')} AND ts < {until:DateTime('UTC')}
GROUP BY host, gpu, uuid
ORDER BY idle DESC, host, gpu, uuid
LIMIT {limit:UInt32}
SETTINGS optimize_aggregation_in_order = 1
