-- Who used the GPUs? GPU hours, how busy they were and the energy of each user's jobs.
-- @since -7d  start of the window, rounded down to an hour
-- @until now  end of the window
SELECT
    if(owner.user = '', 'unknown', owner.user) AS user,
    uniqExact(used.job_id) AS jobs,
    sum(used.gpu_seconds) / 3600 AS gpu_hours,
    sum(used.idle_seconds) / 3600 AS idle_gpu_hours,
    sum(used.gpu_util_seconds) / nullIf(sum(used.gpu_util_known_seconds), 0) AS gpu_util,
    sum(used.energy_joules) / 3.6e6 AS energy_kwh
FROM job_windows_1h AS used
GLOBAL LEFT JOIN (SELECT job_id, any(user) AS user FROM job_trees GROUP BY job_id) AS owner ON owner.job_id = used.job_id
WHERE used.window >= toStartOfHour({since:DateTime('UTC')}) AND used.window < {until:DateTime('UTC')}
GROUP BY user
HAVING gpu_hours > 0
ORDER BY gpu_hours DESC, user
