-- A host has hardly any memory left for programs: the kernel is about to end some of them.
-- severity: warning
-- for: 120
-- keep: 300
-- unit: ratio 0-1
-- summary: Host {host} has {value} of its memory left ({available} of {total})
-- do: `warpmeter sql "SELECT * FROM jobs WHERE has(hosts, '{host}') AND state = 'running'"` shows whose jobs hold it (rss_bytes); data loaders with many workers are the usual cause.
-- @left 0.03  share available that is too little
SELECT
    host,
    last.mem_available_mebibytes / nullIf(last.mem_total_mebibytes, 0) AS value,
    value <= {left:Float64} AS starts,
    formatReadableSize(toUInt64(last.mem_available_mebibytes) * 1048576) AS available,
    formatReadableSize(toUInt64(last.mem_total_mebibytes) * 1048576) AS total
FROM
(
    SELECT host, max(host_last.last_at) AS seen_at, argMaxMerge(latest) AS last
    FROM host_last
    GROUP BY host
)
WHERE value <= 2 * {left:Float64}
    AND seen_at <= {now:DateTime64(3, 'UTC')} + INTERVAL 1 HOUR
    AND seen_at >= {now:DateTime64(3, 'UTC')} - INTERVAL greatest(60, intDiv(6 * toInt64(last.period_ms), 1000)) SECOND
ORDER BY host
