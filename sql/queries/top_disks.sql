-- Which disks are busiest? Rates, busy share and latency in the window; latency is weighted by the operations.
-- @since -1h  start of the window
-- @until now  end of the window
-- @limit 20  how many disks
SELECT
    host, device,
    avg(d.busy) AS busy,
    avg(d.read_bytes_per_s) AS read_bytes_per_s,
    avg(d.write_bytes_per_s) AS write_bytes_per_s,
    sum(d.read_latency_seconds * reads_per_s) / nullIf(sumIf(reads_per_s, isNotNull(d.read_latency_seconds)), 0) AS read_latency_seconds,
    sum(d.write_latency_seconds * writes_per_s) / nullIf(sumIf(writes_per_s, isNotNull(d.write_latency_seconds)), 0) AS write_latency_seconds,
    max(queue) AS queue_max
FROM device_samples AS d
WHERE kind = 'disk' AND ts >= {since:DateTime64(3, 'UTC')} AND ts < {until:DateTime64(3, 'UTC')}
GROUP BY host, device
ORDER BY busy DESC, host, device
LIMIT {limit:UInt32}
