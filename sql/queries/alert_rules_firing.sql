-- Of which rules are alerts open, and when did each last fire?
SELECT rule, countIf(state = 'firing') AS firing, countIf(state = 'pending') AS pending, max(fired_at) AS last_fired_at
FROM
(
    SELECT any(a.rule) AS rule, argMax(a.state, a.ts) AS state, max(a.fired_at) AS fired_at
    FROM alerts AS a
    GROUP BY a.alert_id
)
GROUP BY rule
ORDER BY rule
LIMIT 10000
