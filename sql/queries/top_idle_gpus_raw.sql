-- Which GPUs were idle for most of the last minutes? Share of a GPU's samples below 5 %, of those in which it is known.
-- @since -15m  start of the window
-- @until now  end of the window
-- @limit 20  how many GPUs
SELECT host, gpu, uuid, avg(gpu_util_permille < 50) AS idle
FROM gpu_samples
WHERE ts >= {since:DateTime64(3, 'UTC')} AND ts < {until:DateTime64(3, 'UTC')}
GROUP BY host, gpu, uuid
ORDER BY idle DESC, host, gpu, uuid
LIMIT {limit:UInt32}
SETTINGS optimize_aggregation_in_order = 1
