-- What was on that GPU when it failed? Every XID, with the jobs that ran on the GPU at that instant, whose they were, and whether it stands; the latest first.
-- @since -7d  reported since then
-- @until now  and before
-- @host ''  on this host alone
-- @uuid ''  of this GPU alone
-- @code 0  this XID alone
-- @limit 100  how many
SELECT
    failed.raised_at AS raised_at, failed.host AS host, failed.gpu AS gpu, failed.uuid AS uuid, failed.code AS code,
    failed.what AS what, failed.count AS count, failed.cleared_at AS cleared_at, failed.job_ids AS job_ids,
    arrayFilter(name -> name != '', arrayMap(job -> owners.names[job], failed.job_ids)) AS job_names,
    arrayDistinct(arrayFilter(user -> user != '', arrayMap(job -> owners.users[job], failed.job_ids))) AS users,
    failed.pids AS pids
FROM gpu_xids AS failed
CROSS JOIN
(
    SELECT CAST((groupArray(job_id), groupArray(name)), 'Map(String, String)') AS names, CAST((groupArray(job_id), groupArray(user)), 'Map(String, String)') AS users
    FROM
    (
        SELECT job_id, any(t.name) AS name, any(t.user) AS user
        FROM job_trees AS t
        WHERE job_id GLOBAL IN (SELECT arrayJoin(e.job_ids) FROM gpu_events AS e WHERE kind = 'xid' AND e.ts >= {since:DateTime('UTC')})
        GROUP BY job_id
    )
) AS owners
WHERE raised_at >= {since:DateTime('UTC')} AND raised_at < {until:DateTime('UTC')}
    AND ({host:String} = '' OR host = {host:String})
    AND ({uuid:String} = '' OR uuid = {uuid:String})
    AND ({code:UInt32} = 0 OR code = {code:UInt32})
ORDER BY raised_at DESC, host, gpu, code
LIMIT {limit:UInt32}
