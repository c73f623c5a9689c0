-- How fast were the collectives of a capture, and how much of their time was waiting? By process group, kind and size.
-- @capture_id -  the capture
-- @limit 30  how many
SELECT
    `group`, kind, dtype, bytes,
    uniqExactIf(meeting, meeting IS NOT NULL) AS collectives,
    max(met) AS ranks,
    sum(trace_collectives.duration_ns) / 1e9 AS total_seconds,
    sum(trace_collectives.wait_ns) / nullIf(sum(trace_collectives.duration_ns), 0) AS wait_share,
    quantileExact(0.5)(trace_collectives.transfer_ns) / 1e9 AS transfer_p50_seconds,
    max(trace_collectives.skew_ns) / 1e9 AS skew_max_seconds,
    quantileExact(0.5)(bus_bytes_per_s) AS bus_bytes_per_s
FROM trace_collectives
WHERE capture_id = {capture_id:String}
GROUP BY `group`, kind, dtype, bytes
ORDER BY total_seconds DESC, `group`, kind, dtype, bytes
LIMIT {limit:UInt32}
