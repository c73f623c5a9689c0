-- Which alerts were there? One row an alert of a job, or of the period where none is named, by its last state.
-- @job_id ''  of this job alone
-- @since -  start of the period
-- @until -  its end
-- @limit 500  how many rows
SELECT
    a.started_at AS started_at, a.rule AS rule, a.severity AS severity, a.state AS state, a.summary AS summary,
    a.value AS value, a.unit AS unit, a.resolved_at AS resolved_at, nullIf(a.capture_id, '') AS capture_id,
    a.findings AS findings, nullIf(a.acknowledged_by, '') AS acknowledged_by
FROM alerts_now AS a
WHERE a.state != 'pending' AND a.state != 'dropped'
    AND ({job_id:String} = '' OR a.labels['job_id'] = {job_id:String})
    AND a.started_at < {until:DateTime('UTC')} AND ifNull(a.resolved_at, a.last_at) >= {since:DateTime('UTC')}
ORDER BY started_at, rule, summary
LIMIT {limit:UInt32}
