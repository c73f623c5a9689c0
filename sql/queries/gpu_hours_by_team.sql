-- Which team wasted most GPU hours? What each team's jobs held, and how much of that they left idle, the largest waste first.
-- A team is what the view `jobs` calls account: who is charged, else the team, queue or namespace that a job's labels name.
-- @since -7d  start of the window, rounded down to an hour
-- @until now  end of the window
SELECT
    if(owner.account = '', 'unknown', owner.account) AS team,
    uniqExactIf(used.job_id, used.gpu_seconds > 0) AS jobs,
    uniqExactIf(owner.user, owner.user != '' AND used.gpu_seconds > 0) AS users,
    sum(used.gpu_seconds) / 3600 AS gpu_hours,
    sum(used.idle_seconds) / 3600 AS wasted_gpu_hours,
    wasted_gpu_hours / nullIf(gpu_hours, 0) AS wasted,
    sum(used.gpu_util_seconds) / nullIf(sum(used.gpu_util_known_seconds), 0) AS gpu_util,
    sum(used.energy_joules) / 3.6e6 AS energy_kwh
FROM job_windows_1h AS used
GLOBAL LEFT JOIN
(
    SELECT
        job_id,
        any(job_trees.user) AS user,
        argMax(job_trees.labels, (notEmpty(job_trees.labels), job_trees.last_at)) AS told,
        coalesce(nullIf(told['account'], ''), nullIf(told['team'], ''), nullIf(told['queue'], ''), told['namespace']) AS account
    FROM job_trees
    GROUP BY job_id
) AS owner ON owner.job_id = used.job_id
WHERE used.window >= toStartOfHour({since:DateTime('UTC')}) AND used.window < {until:DateTime('UTC')}
GROUP BY team
HAVING gpu_hours > 0
ORDER BY wasted_gpu_hours DESC, team
