-- Until when was the fleet measured? A row for GPUs and one for hosts: the end of the last sample of any of them within the
-- period, by the moment where it is the newest there is, else by the minute where minutes are kept (90 days), else by the
-- hour. A sample stands for its period from its time on. No row: none was.
-- @since -  start of the period, a whole hour
-- @until -  its end
SELECT
    of,
    fromUnixTimestamp64Milli(least(
        toInt64(toUnixTimestamp(hour)) * 1000 + 3600000,
        multiIf(
            newest_ms < toInt64(toUnixTimestamp(hour)) * 1000 + 3600000, assumeNotNull(newest_ms) + period_ms,
            toUnixTimestamp(minute) > 0, toInt64(toUnixTimestamp(assumeNotNull(minute))) * 1000 + greatest(toInt64(60000), period_ms),
            toInt64(toUnixTimestamp(hour)) * 1000 + 3600000
        )
    ), 'UTC') AS ends_at
FROM
(
    SELECT
        'gpus' AS of,
        max(w.window) AS hour,
        toInt64(round(argMax(w.covered_ms / w.samples, w.window))) AS period_ms,
        (
            SELECT toUnixTimestamp64Milli(max(l.last_at)) FROM gpu_last AS l
        ) AS newest_ms,
        (
            SELECT max(m.window) FROM gpu_heatmap_1m AS m
            WHERE m.window >= (SELECT max(h.window) FROM gpu_heatmap_1h AS h WHERE h.window >= {since:DateTime('UTC')} AND h.window < {until:DateTime('UTC')})
                AND m.window < (SELECT max(h.window) + INTERVAL 1 HOUR FROM gpu_heatmap_1h AS h WHERE h.window >= {since:DateTime('UTC')} AND h.window < {until:DateTime('UTC')})
        ) AS minute
    FROM gpu_heatmap_1h AS w
    WHERE w.window >= {since:DateTime('UTC')} AND w.window < {until:DateTime('UTC')}
    HAVING count() > 0
    UNION ALL
    SELECT
        'hosts' AS of,
        max(w.window) AS hour,
        toInt64(round(argMax(w.covered_ms / w.samples, w.window))) AS period_ms,
        (
            SELECT toUnixTimestamp64Milli(max(l.last_at)) FROM host_last AS l
        ) AS newest_ms,
        (
            SELECT max(m.window) FROM host_windows_1m AS m
            WHERE m.window >= (SELECT max(h.window) FROM host_windows_1h AS h WHERE h.window >= {since:DateTime('UTC')} AND h.window < {until:DateTime('UTC')})
                AND m.window < (SELECT max(h.window) + INTERVAL 1 HOUR FROM host_windows_1h AS h WHERE h.window >= {since:DateTime('UTC')} AND h.window < {until:DateTime('UTC')})
        ) AS minute
    FROM host_windows_1h AS w
    WHERE w.window >= {since:DateTime('UTC')} AND w.window < {until:DateTime('UTC')}
    HAVING count() > 0
)
