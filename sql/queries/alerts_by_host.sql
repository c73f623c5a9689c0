-- Which hosts have most alerts? Those that fired in the window, by the host that they are about, with their rules.
-- @since -7d  alerts that began since then
-- @until now  and before
-- @limit 20  how many hosts
SELECT
    a.labels['host'] AS host,
    count() AS alerts,
    countIf(a.severity = 'critical') AS critical,
    countIf(a.state = 'firing') AS firing_now,
    arraySort(groupUniqArray(toString(a.rule))) AS rules,
    max(a.started_at) AS last_at
FROM alerts_now AS a
WHERE a.fired_at IS NOT NULL AND host != '' AND a.started_at >= {since:DateTime('UTC')} AND a.started_at < {until:DateTime('UTC')}
GROUP BY host
ORDER BY alerts DESC, host
LIMIT {limit:UInt32}
