-- Which jobs ran on a host in the window, and from when to when? `until` is NULL while it runs.
-- @host -  the host
-- @since -6h  start of the window
-- @until now  end of the window
-- @limit 500  how many jobs, the latest first
SELECT
    job_id,
    argMax(name, last_at) AS name,
    argMax(user, last_at) AS user,
    multiIf(countIf(state = 'running') > 0, 'running', countIf(state = 'lost') > 0, 'lost', 'ended') AS state,
    min(started_at) AS `from`,
    if(state = 'ended', max(tree.ended_at), NULL) AS `until`,
    max(last_at) AS last_seen_at,
    length(groupUniqArrayArray(gpu_uuids)) AS gpus
FROM job_processes AS tree
WHERE host = {host:String}
GROUP BY job_id
HAVING `from` < {until:DateTime('UTC')} AND last_seen_at >= {since:DateTime('UTC')}
ORDER BY `from` DESC, job_id
LIMIT {limit:UInt32}
