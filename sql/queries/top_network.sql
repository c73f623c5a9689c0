-- Which network links carry most, and which lose packets? Mean and highest rates in the window, losses by their time.
-- @since -1h  start of the window
-- @until now  end of the window
-- @limit 20  how many links
SELECT
    host, device,
    avg(d.rx_bytes_per_s) AS rx_bytes_per_s,
    avg(d.tx_bytes_per_s) AS tx_bytes_per_s,
    max(d.rx_bytes_per_s + d.tx_bytes_per_s) AS bytes_per_s_max,
    8 * max(greatest(d.rx_bytes_per_s, d.tx_bytes_per_s)) / max(link_bits_per_s) AS link_use_max,
    sum((rx_errors_per_s + tx_errors_per_s) * period_ms / 1000) AS errors,
    sum((rx_drops_per_s + tx_drops_per_s) * period_ms / 1000) AS drops
FROM device_samples AS d
WHERE kind = 'nic' AND ts >= {since:DateTime64(3, 'UTC')} AND ts < {until:DateTime64(3, 'UTC')}
GROUP BY host, device
ORDER BY rx_bytes_per_s + tx_bytes_per_s DESC, host, device
LIMIT {limit:UInt32}
