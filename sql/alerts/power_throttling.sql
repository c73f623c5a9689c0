-- Power holds the clocks of a GPU down: by default a power brake, which the host's supply asks for. That a GPU runs into its own power limit under load is as it should be; who wants to hear of it gives `reasons` 132.
-- severity: warning
-- for: 120
-- keep: 300
-- unit: W
-- summary: Power holds the clocks of GPU {gpu} of host {host} down, at {value} (jobs {jobs})
-- do: Look at the power supplies and the power budget of host and rack (BMC, `ipmitool sel list`).
-- @reasons 128  bits of NVML's nvmlClocksEventReasons: 128 the power brake, 4 the power limit
SELECT host, gpu, uuid, last.power_deciwatts / 10 AS value, last.job_ids AS jobs
FROM
(
    SELECT host, gpu, uuid, max(gpu_last.last_at) AS seen_at, argMaxMerge(latest) AS last
    FROM gpu_last
    GROUP BY host, gpu, uuid
)
WHERE bitAnd(ifNull(last.throttle_reasons, 0), {reasons:UInt64}) != 0
    AND seen_at <= {now:DateTime64(3, 'UTC')} + INTERVAL 1 HOUR
    AND seen_at >= {now:DateTime64(3, 'UTC')} - INTERVAL greatest(60, intDiv(6 * toInt64(last.period_ms), 1000)) SECOND
ORDER BY host, gpu, uuid
