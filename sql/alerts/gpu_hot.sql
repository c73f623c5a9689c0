-- A GPU is hot: it slows down soon, and ages.
-- severity: warning
-- for: 120
-- keep: 120
-- unit: °C
-- summary: GPU {gpu} of host {host} is at {value} (jobs {jobs})
-- do: Look at the fans, the inlet temperature and the neighbours in the rack.
-- @celsius 87  temperature that is too much; it holds until 4 below
SELECT host, gpu, uuid, last.temperature_celsius AS value, last.temperature_celsius >= {celsius:UInt8} AS starts, last.job_ids AS jobs
FROM
(
    SELECT host, gpu, uuid, max(gpu_last.last_at) AS seen_at, argMaxMerge(latest) AS last
    FROM gpu_last
    GROUP BY host, gpu, uuid
)
WHERE last.temperature_celsius >= {celsius:UInt8} - 4
    AND seen_at <= {now:DateTime64(3, 'UTC')} + INTERVAL 1 HOUR
    AND seen_at >= {now:DateTime64(3, 'UTC')} - INTERVAL greatest(60, intDiv(6 * toInt64(last.period_ms), 1000)) SECOND
ORDER BY host, gpu, uuid
