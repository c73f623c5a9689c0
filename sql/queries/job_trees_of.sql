-- Where does a job run? Its process trees, those that have not ended first: the host, the topmost process, and its rank.
-- @job_id -  the job
SELECT host, pid, rank, ranks, state, command, last_at, ended_at
FROM job_processes
WHERE job_id = {job_id:String}
ORDER BY state = 'ended', rank ASC NULLS LAST, host, pid
LIMIT 10000
