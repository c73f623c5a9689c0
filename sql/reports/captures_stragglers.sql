-- Which ranks did the others wait for? One row a rank of a capture that surely came late to collectives, the costliest first;
-- cost: what the job gains if this rank alone keeps up.
-- @since -  start of the period
-- @until -  its end
-- @job_id ''  of this job alone
-- @limit 50  how many rows
SELECT
    s.capture_id AS capture_id, nullIf(s.job_id, '') AS job_id, s.rank AS rank, s.host AS host,
    s.last AS times_last, s.of AS collectives, s.late_ns AS late_ns, s.cost_ns AS cost_ns, nullIf(s.cause, '') AS cause
FROM stragglers AS s
WHERE s.captured_at >= {since:DateTime('UTC')} AND s.captured_at < {until:DateTime('UTC')}
    AND ({job_id:String} = '' OR s.job_id = {job_id:String})
ORDER BY cost_ns DESC, capture_id, rank
LIMIT {limit:UInt32}
