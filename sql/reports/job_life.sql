-- When did the job begin, and when was it last heard of or ended? One row, none where no job is called so.
-- @job_id -  the job
SELECT min(t.started_at) AS started_at, max(t.last_at) AS last_seen_at
FROM job_trees AS t
WHERE t.job_id = {job_id:String}
HAVING count() > 0
