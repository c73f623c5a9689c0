-- Which hosts were silent? Hours of the period in which nothing was measured of a host since it was first seen, up to the
-- last sample of any host.
-- @since -  start of the period, a whole hour
-- @until -  its end
-- @hosts_until -  end of the last sample of any host in it
-- @least_hours 0.1  silent for at least so long
-- @limit 2000  how many rows
WITH
    heard AS
    (
        SELECT w.host AS host, sum(w.covered_ms) / 3600000 AS hours
        FROM host_windows_1h AS w
        WHERE w.window >= {since:DateTime('UTC')} AND w.window < {until:DateTime('UTC')}
        GROUP BY w.host
    )
SELECT
    seen.host AS host,
    round((toUnixTimestamp64Milli({hosts_until:DateTime64(3, 'UTC')}) - greatest(toUnixTimestamp({since:DateTime('UTC')}) * 1000, toUnixTimestamp64Milli(seen.first_at))) / 3600000 - heard.hours, 6) AS silent_hours,
    round(heard.hours, 6) AS heard_hours,
    seen.first_at AS first_seen_at,
    seen.last_at AS last_seen_at
FROM
(
    SELECT l.host AS host, min(l.first_at) AS first_at, max(l.last_at) AS last_at
    FROM host_last AS l
    GROUP BY l.host
    HAVING first_at < {until:DateTime('UTC')} AND last_at >= {since:DateTime('UTC')} - INTERVAL 28 DAY
) AS seen
GLOBAL LEFT JOIN heard ON heard.host = seen.host
WHERE silent_hours >= {least_hours:Float64}
ORDER BY silent_hours DESC, host
LIMIT {limit:UInt32}
