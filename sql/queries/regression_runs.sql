-- Which runs are there of jobs that ran in the window? Runs of one user and name, the earliest first; `asked` are those of
-- the window, the others those that they can be held against.
-- @since -7d  start of the window
-- @until now  end of the window
-- @past -35d  no run that began before
-- @job ''  of jobs of this name alone
-- @user ''  of this user alone
-- @job_id ''  of jobs of the same user and name as this one alone
WITH
    told AS
    (
        SELECT
            t.job_id AS job_id, argMax(t.user, t.last_at) AS user, argMax(t.name, t.last_at) AS name, min(t.started_at) AS started_at,
            max(t.last_at) AS last_seen_at,
            last_seen_at >= {since:DateTime('UTC')} AND ({job_id:String} = '' OR job_id = {job_id:String}) AS asked
        FROM job_trees AS t
        WHERE t.last_at >= {past:DateTime('UTC')}
        GROUP BY t.job_id
        HAVING started_at >= {past:DateTime('UTC')} AND started_at < {until:DateTime('UTC')} AND name != ''
            AND ({job:String} = '' OR name = {job:String}) AND ({user:String} = '' OR user = {user:String})
    )
SELECT job_id, user, name, started_at, last_seen_at, asked
FROM told
WHERE (user, name) GLOBAL IN (SELECT of.user, of.name FROM told AS of WHERE of.asked)
ORDER BY user, name, started_at, job_id
