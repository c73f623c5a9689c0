-- What does each team's work cost? GPU hours and energy of its jobs at given prices, and what of it went to waste.
-- @since -7d  start of the window, rounded down to an hour
-- @until now  end of the window
-- @gpu_hour_price 2.0  of a GPU hour, in any currency
-- @kwh_price 0.3  of a kWh, in the same
SELECT
    if(owner.account = '', 'unknown', owner.account) AS team,
    sum(used.gpu_seconds) / 3600 AS gpu_hours,
    sum(used.energy_joules) / 3.6e6 AS energy_kwh,
    gpu_hours * {gpu_hour_price:Float64} AS gpu_cost,
    energy_kwh * {kwh_price:Float64} AS energy_cost,
    sum(used.idle_seconds) / 3600 * {gpu_hour_price:Float64} AS wasted_cost
FROM job_windows_1h AS used
GLOBAL LEFT JOIN
(
    SELECT
        job_id,
        argMax(job_trees.labels, (notEmpty(job_trees.labels), job_trees.last_at)) AS told,
        coalesce(nullIf(told['account'], ''), nullIf(told['team'], ''), nullIf(told['queue'], ''), told['namespace']) AS account
    FROM job_trees
    GROUP BY job_id
) AS owner ON owner.job_id = used.job_id
WHERE used.window >= toStartOfHour({since:DateTime('UTC')}) AND used.window < {until:DateTime('UTC')}
GROUP BY team
HAVING gpu_hours > 0
ORDER BY gpu_cost DESC, team
