-- A GPU that was there has fallen off the bus, or left its driver's list.
-- severity: critical
-- for: 0
-- keep: 60
-- summary: GPU {gpu} of host {host} is gone: {why}
-- do: Drain the host; restart it. A GPU that is lost again belongs to the vendor's support, with the kernel's log (XID 79).
SELECT gone.host AS host, ifNull(toString(seen.gpu), '') AS gpu, gone.uuid AS uuid, NULL AS value, gone.why AS why
FROM
(
    SELECT host, subject AS uuid, max(source_last.last_at) AS seen_at, argMaxMerge(latest) AS last, last.why AS why
    FROM source_last
    WHERE subject != ''
    GROUP BY host, uuid
    HAVING last.state = 'gone'
) AS gone
LEFT JOIN
(
    SELECT host, uuid, toNullable(any(gpu_last.gpu)) AS gpu, max(gpu_last.last_at) AS last_at
    FROM gpu_last
    GROUP BY host, uuid
) AS seen ON seen.host = gone.host AND seen.uuid = gone.uuid
WHERE gone.seen_at >= {now:DateTime64(3, 'UTC')} - INTERVAL greatest(60, intDiv(6 * toInt64(gone.last.period_ms), 1000)) SECOND
    AND gone.seen_at <= {now:DateTime64(3, 'UTC')} + INTERVAL 1 HOUR
    AND (seen.gpu IS NULL OR gone.seen_at >= seen.last_at OR seen.last_at > {now:DateTime64(3, 'UTC')} + INTERVAL 1 HOUR)
ORDER BY host, gpu, uuid
