-- What became of an alert? Its states, and what was said of it, in their order; `by` is who said it.
-- @alert_id -  which one
SELECT at, kind, what, by, comment, value, silenced_by, acknowledged_by, flapping, capture_id
FROM
(
    SELECT
        a.ts AS at, 'state' AS kind, toString(a.state) AS what, '' AS by, '' AS comment, a.value AS value,
        a.silenced_by AS silenced_by, a.acknowledged_by AS acknowledged_by, a.flapping AS flapping, a.capture_id AS capture_id
    FROM alerts AS a
    WHERE a.alert_id = {alert_id:String}
    UNION ALL
    SELECT w.ts, 'word', toString(w.action), w.said_by, w.comment, NULL, '', '', false, ''
    FROM alert_words AS w
    WHERE w.subject = {alert_id:String}
)
ORDER BY at DESC, kind
LIMIT 1000
