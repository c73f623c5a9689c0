-- What did the job do over time? GPUs held, their use, power and CPU in each step of its life, over all its hosts.
-- @job_id -  the job
-- @since -  start of the period
-- @until -  its end
-- @windows job_windows_1h  or job_windows_1m
-- @step_s 3600  length of a step in seconds, of whole windows
SELECT
    {since:DateTime('UTC')} + toIntervalSecond(intDiv(dateDiff('second', {since:DateTime('UTC')}, w.window), {step_s:UInt32}) * {step_s:UInt32}) AS starts_at,
    round(sum(w.gpu_seconds) / {step_s:UInt32}, 6) AS gpus,
    round(sum(w.idle_seconds) / nullIf(sum(w.gpu_seconds), 0), 6) AS wasted_share,
    round(sum(w.gpu_util_seconds) / nullIf(sum(w.gpu_util_known_seconds), 0), 6) AS gpu_util,
    round(sum(w.sm_active_seconds) / nullIf(sum(w.sm_active_known_seconds), 0), 6) AS sm_active,
    round(sum(w.tensor_active_seconds) / nullIf(sum(w.tensor_active_known_seconds), 0), 6) AS tensor_active,
    round(sum(w.energy_joules) / nullIf(sum(w.power_known_seconds), 0), 6) AS power_watts,
    if(sum(w.cpu_known_seconds) = 0, NULL, round(sum(w.cpu_core_seconds) / {step_s:UInt32}, 6)) AS cpu_cores
FROM {windows:Identifier} AS w
WHERE w.job_id = {job_id:String} AND w.window >= {since:DateTime('UTC')} AND w.window < {until:DateTime('UTC')}
GROUP BY starts_at
ORDER BY starts_at
