-- What did the traces show? One row a finding, over the captures of the period (or of one job), the costliest first: its
-- words and what to do where it cost most, in how many captures and jobs it was found, and what it cost all ranks together.
-- @since -  start of the period
-- @until -  its end
-- @job_id ''  of this job alone
-- @limit 100  how many rows
SELECT
    f.id AS finding,
    argMax(f.text, f.cost_ns) AS text,
    nullIf(argMax(r.advice[place], f.cost_ns), '') AS advice,
    uniqExact(r.capture_id) AS captures,
    uniqExactIf(r.job_id, r.job_id != '') AS jobs,
    count() AS ranks,
    sum(f.cost_ns) AS cost_ns,
    argMax(r.capture_id, f.cost_ns) AS worst_capture
FROM trace_ranks AS r
ARRAY JOIN r.findings AS f, arrayEnumerate(r.findings) AS place
WHERE r.captured_at >= {since:DateTime('UTC')} AND r.captured_at < {until:DateTime('UTC')}
    AND ({job_id:String} = '' OR r.job_id = {job_id:String})
GROUP BY f.id
ORDER BY cost_ns DESC, finding
LIMIT {limit:UInt32}
