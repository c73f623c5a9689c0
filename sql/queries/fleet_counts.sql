-- How many GPUs and hosts were seen in the window?
-- @since -6h  start of the window
-- @until now  end of the window
SELECT uniqExact(host, uuid) AS gpus, uniqExact(host) AS hosts
FROM gpu_last
WHERE last_at >= {since:DateTime('UTC')} AND first_at < {until:DateTime('UTC')}
