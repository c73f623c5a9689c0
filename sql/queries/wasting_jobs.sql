-- Which running jobs waste most GPU hours? Over their whole life so far, from the view job_efficiency.
-- @gpu_hours 1  that a job has held at least
-- @limit 20  how many
SELECT job_id, name, user, hosts, gpus, started_at, gpu_hours, wasted_gpu_hours, wasted, gpu_util, sm_active, power_watts
FROM job_efficiency
WHERE state = 'running' AND gpu_hours >= {gpu_hours:Float64} AND wasted_gpu_hours > 0
ORDER BY wasted_gpu_hours DESC, job_id
LIMIT {limit:UInt32}
