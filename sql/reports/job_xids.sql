-- Which faults did GPUs report while the job was on them? XIDs, the first and the last time.
-- @job_id -  the job
-- @limit 500  how many rows
SELECT
    e.host AS host, e.gpu AS gpu, toString(e.uuid) AS uuid, e.code AS xid,
    argMax(e.what, e.ts) AS what, min(e.ts) AS first_at, max(e.ts) AS last_at, count() AS reports
FROM gpu_events AS e
WHERE e.kind = 'xid' AND e.state = 'raised' AND has(e.job_ids, {job_id:String})
GROUP BY e.host, e.gpu, e.uuid, e.code
ORDER BY first_at, host, gpu, xid
LIMIT {limit:UInt32}
