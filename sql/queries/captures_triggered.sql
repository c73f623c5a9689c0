-- Which captures did alerts ask for, and did they capture anything? The latest first; `subject` is the job,
-- or the host where the alert named no job.
-- @since -24h  start of the window, by when they were asked for
-- @until now  end of the window
SELECT
    capture_id, name AS alert_id, substring(requested_by, 6) AS rule, job_id, requested_at, state, captured,
    if(job_id != '', job_id, hosts[1]) AS subject
FROM captures
WHERE requested_at >= {since:DateTime('UTC')} AND requested_at < {until:DateTime('UTC')} + INTERVAL 1 SECOND
    AND startsWith(requested_by, 'rule:')
ORDER BY requested_at DESC, capture_id
