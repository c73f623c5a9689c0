-- Where does a job run? Its process trees that have not ended: the host, the topmost process, the rank if one is known.
-- @job_id -  the job
SELECT host, pid, rank, ranks, state, command, last_at
FROM job_processes
WHERE job_id = {job_id:String} AND state != 'ended'
ORDER BY rank ASC NULLS LAST, host, pid
LIMIT 10000
