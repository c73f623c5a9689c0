-- Which captures were asked for, what came of them, and how did the traced ranks spend their time? One row a capture of the
-- period, or of one job; shares are of the span over all ranks that are loaded; step: the median rank's median step.
-- @since -  start of the period
-- @until -  its end
-- @job_id ''  of this job alone
-- @limit 1000  how many rows
SELECT
    c.capture_id AS capture_id,
    c.requested_at AS requested_at,
    nullIf(c.requested_by, '') AS requested_by,
    nullIf(c.job_id, '') AS job_id,
    c.state AS state,
    nullIf(c.reason, '') AS reason,
    nullIf(c.why, '') AS why,
    c.processes AS processes,
    c.captured AS captured,
    c.analysed AS analysed,
    c.failed AS failed,
    nullIf(s.ranks, 0) AS ranks,
    s.step_p50_ns AS step_p50_ns,
    round(s.busy_share, 6) AS busy_share,
    round(s.compute_share, 6) AS compute_share,
    round(s.exposed_comm_share, 6) AS exposed_communication_share,
    round(s.idle_share, 6) AS idle_share,
    nullIf(s.top_kernel, '') AS top_kernel,
    round(s.top_kernel_share, 6) AS top_kernel_share,
    s.straggler AS straggler
FROM
(
    SELECT * FROM captures
    WHERE requested_at >= {since:DateTime('UTC')} AND requested_at < {until:DateTime('UTC')}
        AND ({job_id:String} = '' OR job_id = {job_id:String})
    ORDER BY requested_at DESC, capture_id
    LIMIT {limit:UInt32}
) AS c
GLOBAL LEFT JOIN
(
    SELECT
        capture_id, ranks, toNullable(step_p50_ns) AS step_p50_ns, busy_share, compute_share, exposed_comm_share, idle_share,
        top_kernel, top_kernel_share, straggler
    FROM capture_summary
    WHERE capture_id GLOBAL IN
    (
        SELECT r.capture_id FROM capture_requests AS r
        WHERE r.action = 'start' AND r.ts >= {since:DateTime('UTC')} AND r.ts < {until:DateTime('UTC')}
    )
) AS s ON s.capture_id = c.capture_id
ORDER BY requested_at DESC, capture_id
