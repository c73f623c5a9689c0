-- Which jobs had most GPU hours, or wasted most? One row a job, over its part of the period. Waste is the time in which its
-- GPUs were known to be below 5 %.
-- @by allocated  allocated or wasted: what the list is ordered by
-- @since -  start of the period, a whole hour
-- @until -  its end
-- @price_per_kwh -  of energy, or NULL
-- @price_per_gpu_hour -  of an allocated GPU hour, or NULL
-- @limit 20  how many rows
WITH
    used AS
    (
        SELECT
            j.job_id AS job_id,
            uniqExactIf(j.host, j.gpu_seconds > 0) AS hosts,
            sum(j.gpu_seconds) AS gpu_seconds,
            sum(j.idle_seconds) AS idle_seconds,
            sum(greatest(0, j.gpu_seconds - greatest(j.gpu_util_known_seconds, j.sm_active_known_seconds))) AS unknown_seconds,
            sum(j.gpu_util_seconds) / nullIf(sum(j.gpu_util_known_seconds), 0) AS gpu_util,
            sum(j.sm_active_seconds) / nullIf(sum(j.sm_active_known_seconds), 0) AS sm_active,
            if(sum(j.power_known_seconds) = 0, NULL, sum(j.energy_joules) / 3.6e6) AS energy_kwh
        FROM job_windows_1h AS j
        WHERE j.window >= {since:DateTime('UTC')} AND j.window < {until:DateTime('UTC')}
        GROUP BY j.job_id
        HAVING if({by:String} = 'wasted', idle_seconds, gpu_seconds) > 0
        ORDER BY if({by:String} = 'wasted', round(idle_seconds, 3), round(gpu_seconds, 3)) DESC, job_id
        LIMIT {limit:UInt32}
    ),
    owner AS
    (
        SELECT
            t.job_id AS job_id,
            argMax(t.name, (notEmpty(t.name), t.last_at)) AS name,
            argMax(t.user, (notEmpty(t.user), t.last_at)) AS user,
            argMax(t.labels, (notEmpty(t.labels), t.last_at)) AS labels,
            min(t.started_at) AS started_at,
            uniqExactArray(t.gpu_uuids_held) AS gpus
        FROM job_trees AS t
        WHERE t.job_id GLOBAL IN (SELECT job_id FROM used)
        GROUP BY t.job_id
    )
SELECT
    used.job_id AS job_id,
    nullIf(owner.name, '') AS name,
    nullIf(owner.user, '') AS user,
    coalesce(nullIf(owner.labels['account'], ''), nullIf(owner.labels['team'], ''), nullIf(owner.labels['queue'], ''), nullIf(owner.labels['namespace'], '')) AS team,
    coalesce(nullIf(owner.labels['partition'], ''), nullIf(owner.labels['queue'], ''), nullIf(owner.labels['namespace'], '')) AS partition,
    used.hosts AS hosts,
    nullIf(owner.gpus, 0) AS gpus,
    if(toUnixTimestamp(owner.started_at) = 0, NULL, owner.started_at) AS started_at,
    round(used.gpu_seconds / 3600, 6) AS allocated_gpu_hours,
    round((used.gpu_seconds - used.idle_seconds - used.unknown_seconds) / 3600, 6) AS used_gpu_hours,
    round(used.idle_seconds / 3600, 6) AS wasted_gpu_hours,
    round(used.idle_seconds / used.gpu_seconds, 6) AS wasted_share,
    round(used.gpu_util, 6) AS gpu_util,
    round(used.sm_active, 6) AS sm_active,
    round(used.energy_kwh, 6) AS energy_kwh,
    round(used.energy_kwh * {price_per_kwh:Nullable(Float64)}, 6) AS energy_cost,
    round(used.gpu_seconds / 3600 * {price_per_gpu_hour:Nullable(Float64)}, 6) AS allocated_cost,
    round(used.idle_seconds / 3600 * {price_per_gpu_hour:Nullable(Float64)}, 6) AS wasted_cost
FROM used
GLOBAL LEFT JOIN owner ON owner.job_id = used.job_id
ORDER BY if({by:String} = 'wasted', wasted_gpu_hours, allocated_gpu_hours) DESC, job_id
