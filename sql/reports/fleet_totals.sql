-- What did the fleet have, and what became of it? One row over the period. Available: hours that GPUs were measured (a MIG
-- instance counts as a GPU); unmeasured: hours since a GPU was first seen in which nothing was heard of it, up to the last
-- sample of any GPU. Allocated: held by jobs; of it wasted: known to be below 5 %, used: known to be above, unknown:
-- neither is known. Free: available, and held by no job. Means weigh GPUs by time; energy is power times the time in which it
-- is known (power_known_share).
-- @since -  start of the period, a whole hour
-- @until -  its end
-- @gpus_until -  end of the last sample of any GPU in it
-- @price_per_kwh -  of energy, or NULL
-- @price_per_gpu_hour -  of an allocated GPU hour, or NULL
WITH
    gpu AS
    (
        SELECT
            w.host AS host, w.gpu AS gpu, w.uuid AS uuid,
            sum(w.covered_ms) AS covered_ms,
            sum(w.idle_ms) AS idle_ms,
            sum(w.gpu_util_permille_sum * w.covered_ms / w.samples) AS util,
            sum(w.gpu_util_permille_count * w.covered_ms / w.samples) AS util_known,
            sum(w.sm_active_permille_sum * w.covered_ms / w.samples) AS sm,
            sum(w.sm_active_permille_count * w.covered_ms / w.samples) AS sm_known,
            sum(w.tensor_active_permille_sum * w.covered_ms / w.samples) AS tensor,
            sum(w.tensor_active_permille_count * w.covered_ms / w.samples) AS tensor_known,
            sum(w.power_deciwatts_sum * w.covered_ms / w.samples) AS power,
            sum(w.power_deciwatts_count * w.covered_ms / w.samples) AS power_known
        FROM gpu_heatmap_1h AS w
        WHERE w.window >= {since:DateTime('UTC')} AND w.window < {until:DateTime('UTC')}
        GROUP BY w.host, w.gpu, w.uuid
    ),
    measured AS
    (
        SELECT
            uniqExact(gpu.host) AS hosts,
            count() AS gpus,
            sum(gpu.covered_ms) / 3600000 AS available,
            sum(greatest(0,
                toUnixTimestamp64Milli({gpus_until:DateTime64(3, 'UTC')})
                - greatest(toUnixTimestamp({since:DateTime('UTC')}) * 1000, seen.first_ms) - gpu.covered_ms
            )) / 3600000 AS unmeasured,
            sum(gpu.idle_ms) / 3600000 AS idle,
            sum(gpu.util) / nullIf(sum(gpu.util_known), 0) / 1000 AS gpu_util,
            sum(gpu.sm) / nullIf(sum(gpu.sm_known), 0) / 1000 AS sm_active,
            sum(gpu.tensor) / nullIf(sum(gpu.tensor_known), 0) / 1000 AS tensor_active,
            sum(gpu.power) / nullIf(sum(gpu.power_known), 0) / 10 AS power_watts,
            if(sum(gpu.power_known) = 0, NULL, sum(gpu.power) / 10 / 1000 / 3.6e6) AS energy_kwh,
            sum(gpu.power_known) / nullIf(sum(gpu.covered_ms), 0) AS power_known_share
        FROM gpu
        GLOBAL LEFT JOIN
        (
            SELECT last.host AS host, last.gpu AS gpu, last.uuid AS uuid, toUnixTimestamp64Milli(min(last.first_at)) AS first_ms
            FROM gpu_last AS last
            GROUP BY last.host, last.gpu, last.uuid
        ) AS seen ON seen.host = gpu.host AND seen.gpu = gpu.gpu AND seen.uuid = gpu.uuid
    ),
    spread AS
    (
        SELECT
            arrayMap(x -> if(isNaN(x), NULL, x / 1000), quantilesTimingMerge(0.5, 0.95)(f.gpu_util_permille_quantiles)) AS util,
            arrayMap(x -> if(isNaN(x), NULL, x / 1000), quantilesTimingMerge(0.5, 0.95)(f.sm_active_permille_quantiles)) AS sm
        FROM fleet_windows_1h AS f
        WHERE f.window >= {since:DateTime('UTC')} AND f.window < {until:DateTime('UTC')}
    ),
    held AS
    (
        SELECT
            uniqExactIf(j.job_id, j.gpu_seconds > 0) AS jobs,
            sum(j.gpu_seconds) / 3600 AS allocated,
            sum(j.idle_seconds) / 3600 AS wasted,
            sum(greatest(0, j.gpu_seconds - greatest(j.gpu_util_known_seconds, j.sm_active_known_seconds))) / 3600 AS unknown
        FROM job_windows_1h AS j
        WHERE j.window >= {since:DateTime('UTC')} AND j.window < {until:DateTime('UTC')}
    )
SELECT
    measured.hosts AS hosts,
    measured.gpus AS gpus,
    held.jobs AS jobs,
    round(measured.available, 6) AS available_gpu_hours,
    round(measured.unmeasured, 6) AS unmeasured_gpu_hours,
    round(held.allocated, 6) AS allocated_gpu_hours,
    round(greatest(0, measured.available - held.allocated), 6) AS free_gpu_hours,
    round(held.allocated - held.wasted - held.unknown, 6) AS used_gpu_hours,
    round(held.wasted, 6) AS wasted_gpu_hours,
    round(held.unknown, 6) AS unknown_gpu_hours,
    round(measured.idle, 6) AS idle_gpu_hours,
    round(held.allocated / nullIf(measured.available, 0), 6) AS allocated_share,
    round(held.wasted / nullIf(held.allocated, 0), 6) AS wasted_share,
    round(measured.gpu_util, 6) AS gpu_util,
    spread.util[1] AS gpu_util_p50,
    spread.util[2] AS gpu_util_p95,
    round(measured.sm_active, 6) AS sm_active,
    spread.sm[1] AS sm_active_p50,
    spread.sm[2] AS sm_active_p95,
    round(measured.tensor_active, 6) AS tensor_active,
    round(measured.power_watts, 6) AS power_watts,
    round(measured.energy_kwh, 6) AS energy_kwh,
    round(measured.power_known_share, 6) AS power_known_share,
    round(measured.energy_kwh * {price_per_kwh:Nullable(Float64)}, 6) AS energy_cost,
    round(held.allocated * {price_per_gpu_hour:Nullable(Float64)}, 6) AS allocated_cost,
    round(held.wasted * {price_per_gpu_hour:Nullable(Float64)}, 6) AS wasted_cost
FROM measured, spread, held
