-- Which XIDs did GPUs report? One row a GPU and code that was reported in the period; standing: nobody has said since that it
-- is over (a reset, a driver reload, the GPU answers again).
-- @since -  start of the period
-- @until -  its end
-- @limit 2000  how many rows
SELECT
    e.host AS host, e.gpu AS gpu, toString(e.uuid) AS uuid, e.code AS xid,
    argMaxIf(e.what, e.ts, e.state = 'raised') AS what,
    countIf(e.state = 'raised') AS reports,
    minIf(e.ts, e.state = 'raised') AS first_at,
    maxIf(e.ts, e.state = 'raised') AS last_at,
    toBool(maxIf(e.ts, e.state = 'raised') > ifNull(maxOrNullIf(e.ts, e.state = 'cleared'), toDateTime64(0, 3, 'UTC'))) AS standing,
    arraySort(groupUniqArrayArray(CAST(e.job_ids, 'Array(String)'))) AS jobs
FROM gpu_events AS e
WHERE e.kind = 'xid' AND e.ts >= {since:DateTime('UTC')} AND e.ts < {until:DateTime('UTC')}
GROUP BY e.host, e.gpu, e.uuid, e.code
HAVING reports > 0
ORDER BY standing DESC, last_at DESC, host, gpu, xid
LIMIT {limit:UInt32}
