-- What was the job, and what did it make of its GPUs? One row, over its life or its part of the period. Means are over the
-- GPU time in which a figure is known; wasted: known to be below 5 %; several jobs on a GPU share its time.
-- @job_id -  the job
-- @since -  start of the period, a whole hour
-- @until -  its end
-- @price_per_kwh -  of energy, or NULL
-- @price_per_gpu_hour -  of an allocated GPU hour, or NULL
WITH
    used AS
    (
        SELECT
            sum(w.gpu_seconds) / 3600 AS allocated,
            sum(w.idle_seconds) / 3600 AS wasted,
            sum(greatest(0, w.gpu_seconds - greatest(w.gpu_util_known_seconds, w.sm_active_known_seconds))) / 3600 AS unknown,
            sum(w.gpu_util_seconds) / nullIf(sum(w.gpu_util_known_seconds), 0) AS gpu_util,
            sum(w.sm_active_seconds) / nullIf(sum(w.sm_active_known_seconds), 0) AS sm_active,
            sum(w.tensor_active_seconds) / nullIf(sum(w.tensor_active_known_seconds), 0) AS tensor_active,
            sum(w.dram_active_seconds) / nullIf(sum(w.dram_active_known_seconds), 0) AS dram_active,
            sum(w.energy_joules) / nullIf(sum(w.power_known_seconds), 0) AS power_watts,
            if(sum(w.power_known_seconds) = 0, NULL, sum(w.energy_joules) / 3.6e6) AS energy_kwh,
            nullIf(max(w.fb_used_bytes_max), 0) AS fb_used_bytes,
            sum(w.cpu_core_seconds) / nullIf(sum(w.cpu_known_seconds), 0) AS cpu_cores,
            sum(w.read_bytes) AS read_bytes,
            sum(w.written_bytes) AS written_bytes
        FROM job_windows_1h AS w
        WHERE w.job_id = {job_id:String} AND w.window >= {since:DateTime('UTC')} AND w.window < {until:DateTime('UTC')}
    )
SELECT
    jobs.job_id AS job_id,
    nullIf(jobs.name, '') AS name,
    nullIf(jobs.user, '') AS user,
    nullIf(jobs.account, '') AS team,
    coalesce(nullIf(jobs.labels['partition'], ''), nullIf(jobs.labels['queue'], ''), nullIf(jobs.labels['namespace'], '')) AS partition,
    nullIf(jobs.scheduler, '') AS scheduler,
    nullIf(jobs.command, '') AS command,
    jobs.state AS state,
    jobs.hosts AS hosts,
    jobs.hosts_lost AS hosts_lost,
    jobs.gpus AS gpus,
    jobs.world_size AS world_size,
    jobs.started_at AS started_at,
    jobs.ended_at AS ended_at,
    jobs.last_seen_at AS last_seen_at,
    jobs.duration_s AS duration_seconds,
    round(used.allocated, 6) AS allocated_gpu_hours,
    round(used.allocated - used.wasted - used.unknown, 6) AS used_gpu_hours,
    round(used.wasted, 6) AS wasted_gpu_hours,
    round(used.unknown, 6) AS unknown_gpu_hours,
    round(used.wasted / nullIf(used.allocated, 0), 6) AS wasted_share,
    round(used.gpu_util, 6) AS gpu_util,
    round(used.sm_active, 6) AS sm_active,
    round(used.tensor_active, 6) AS tensor_active,
    round(used.dram_active, 6) AS dram_active,
    round(used.power_watts, 6) AS power_watts,
    round(used.energy_kwh, 6) AS energy_kwh,
    used.fb_used_bytes AS fb_used_bytes,
    round(used.cpu_cores, 6) AS cpu_cores,
    jobs.rss_bytes_max AS rss_bytes,
    used.read_bytes AS read_bytes,
    used.written_bytes AS written_bytes,
    round(used.energy_kwh * {price_per_kwh:Nullable(Float64)}, 6) AS energy_cost,
    round(used.allocated * {price_per_gpu_hour:Nullable(Float64)}, 6) AS allocated_cost,
    round(used.wasted * {price_per_gpu_hour:Nullable(Float64)}, 6) AS wasted_cost
FROM (SELECT * FROM jobs WHERE job_id = {job_id:String}) AS jobs
CROSS JOIN used
