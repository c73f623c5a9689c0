-- Heat holds the clocks of a GPU down: its job, and all ranks that wait for it, run slower.
-- severity: warning
-- for: 120
-- keep: 300
-- unit: °C
-- summary: Heat holds the clocks of GPU {gpu} of host {host} down, at {value} (jobs {jobs})
-- do: Look at the fans, the inlet temperature and the neighbours in the rack; a single hot GPU of a host may need new thermal paste or a dust filter.
SELECT host, gpu, uuid, last.temperature_celsius AS value, last.job_ids AS jobs
FROM
(
    SELECT host, gpu, uuid, max(gpu_last.last_at) AS seen_at, argMaxMerge(latest) AS last
    FROM gpu_last
    GROUP BY host, gpu, uuid
)
WHERE bitAnd(ifNull(last.throttle_reasons, 0), 0x60) != 0
    AND seen_at <= {now:DateTime64(3, 'UTC')} + INTERVAL 1 HOUR
    AND seen_at >= {now:DateTime64(3, 'UTC')} - INTERVAL greatest(60, intDiv(6 * toInt64(last.period_ms), 1000)) SECOND
ORDER BY host, gpu, uuid
