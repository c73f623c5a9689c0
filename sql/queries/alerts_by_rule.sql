-- Which rules speak most? Alerts of each rule in the window: how many fired, how many nobody took care of, how long they stood.
-- @since -7d  alerts that began since then
-- @until now  and before
SELECT
    rule,
    any(a.severity) AS severity,
    countIf(a.fired_at IS NOT NULL) AS fired,
    countIf(a.state = 'firing') AS firing_now,
    countIf(a.state = 'dropped') AS dropped,
    countIf(a.fired_at IS NOT NULL AND a.acknowledged_by = '' AND a.silenced_by = '') AS unheeded,
    countIf(a.flapping) AS flapping,
    avgOrNull(dateDiff('second', a.fired_at, coalesce(a.resolved_at, now64(3))) / 3600) AS hours_mean,
    max(a.started_at) AS last_at
FROM alerts_now AS a
WHERE a.started_at >= {since:DateTime('UTC')} AND a.started_at < {until:DateTime('UTC')}
GROUP BY rule
ORDER BY fired DESC, rule
