-- How did the runs of one job name compare? One row a run, the latest first: how long, on what, and how well it used its GPUs.
-- @name -  the job's name, as the view `jobs` has it
-- @user ''  of this user alone
-- @limit 20  how many runs
SELECT
    job_id, user, state, started_at, ended_at, gpus, hosts, gpu_hours, wasted, gpu_util, sm_active, tensor_active,
    sm_active / nullIf(first_value(sm_active) OVER (ORDER BY started_at ROWS BETWEEN 1 PRECEDING AND 1 PRECEDING), 0) AS sm_active_over_run_before,
    power_watts, energy_joules
FROM job_efficiency
WHERE name = {name:String} AND ({user:String} = '' OR user = {user:String})
ORDER BY started_at DESC, job_id
LIMIT {limit:UInt32}
