-- Who had the GPUs, and what did they make of them? One row a user, team or partition with jobs that held GPUs. Team: the
-- account, team, queue or namespace that a job's labels tell, the first of them that is there; partition: its partition,
-- queue or namespace; not told: no label tells it. Energy is what the jobs' share of their GPUs drew, where power is known.
-- @by user  user, team or partition
-- @since -  start of the period, a whole hour
-- @until -  its end
-- @price_per_kwh -  of energy, or NULL
-- @price_per_gpu_hour -  of an allocated GPU hour, or NULL
-- @limit 1000  how many rows
WITH
    used AS
    (
        SELECT
            j.job_id AS job_id,
            sum(j.gpu_seconds) AS gpu_seconds,
            sum(j.idle_seconds) AS idle_seconds,
            sum(greatest(0, j.gpu_seconds - greatest(j.gpu_util_known_seconds, j.sm_active_known_seconds))) AS unknown_seconds,
            sum(j.gpu_util_seconds) AS util, sum(j.gpu_util_known_seconds) AS util_known,
            sum(j.sm_active_seconds) AS sm, sum(j.sm_active_known_seconds) AS sm_known,
            sum(j.energy_joules) AS energy, sum(j.power_known_seconds) AS power_known
        FROM job_windows_1h AS j
        WHERE j.window >= {since:DateTime('UTC')} AND j.window < {until:DateTime('UTC')}
        GROUP BY j.job_id
        HAVING gpu_seconds > 0
    ),
    owner AS
    (
        SELECT
            t.job_id AS job_id,
            argMax(t.user, (notEmpty(t.user), t.last_at)) AS user,
            argMax(t.labels, (notEmpty(t.labels), t.last_at)) AS labels
        FROM job_trees AS t
        WHERE t.job_id GLOBAL IN (SELECT job_id FROM used)
        GROUP BY t.job_id
    )
SELECT
    multiIf(
        {by:String} = 'user', nullIf(owner.user, ''),
        {by:String} = 'team', coalesce(nullIf(owner.labels['account'], ''), nullIf(owner.labels['team'], ''), nullIf(owner.labels['queue'], ''), nullIf(owner.labels['namespace'], '')),
        coalesce(nullIf(owner.labels['partition'], ''), nullIf(owner.labels['queue'], ''), nullIf(owner.labels['namespace'], ''))
    ) AS name,
    count() AS jobs,
    round(sum(used.gpu_seconds) / 3600, 6) AS allocated_gpu_hours,
    round(sum(used.gpu_seconds - used.idle_seconds - used.unknown_seconds) / 3600, 6) AS used_gpu_hours,
    round(sum(used.idle_seconds) / 3600, 6) AS wasted_gpu_hours,
    round(sum(used.unknown_seconds) / 3600, 6) AS unknown_gpu_hours,
    round(sum(used.idle_seconds) / sum(used.gpu_seconds), 6) AS wasted_share,
    round(sum(used.util) / nullIf(sum(used.util_known), 0), 6) AS gpu_util,
    round(sum(used.sm) / nullIf(sum(used.sm_known), 0), 6) AS sm_active,
    if(sum(used.power_known) = 0, NULL, round(sum(used.energy) / 3.6e6, 6)) AS energy_kwh,
    round(energy_kwh * {price_per_kwh:Nullable(Float64)}, 6) AS energy_cost,
    round(allocated_gpu_hours * {price_per_gpu_hour:Nullable(Float64)}, 6) AS allocated_cost,
    round(wasted_gpu_hours * {price_per_gpu_hour:Nullable(Float64)}, 6) AS wasted_cost
FROM used
GLOBAL LEFT JOIN owner ON owner.job_id = used.job_id
GROUP BY name
ORDER BY allocated_gpu_hours DESC, name NULLS LAST
LIMIT {limit:UInt32}
