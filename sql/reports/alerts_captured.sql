-- Which alerts led to captures, and what did these show? One row an alert of the period that has a capture.
-- @since -  start of the period
-- @until -  its end
-- @limit 500  how many rows
SELECT
    a.started_at AS started_at, a.rule AS rule, a.severity AS severity, a.state AS state, a.summary AS summary,
    a.capture_id AS capture_id, a.findings AS findings
FROM alerts_now AS a
WHERE a.capture_id != '' AND a.state NOT IN ('pending', 'dropped')
    AND a.started_at >= {since:DateTime('UTC')} AND a.started_at < {until:DateTime('UTC')}
ORDER BY started_at, rule, capture_id
LIMIT {limit:UInt32}
