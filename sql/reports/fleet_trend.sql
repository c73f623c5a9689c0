-- What was there, what was held, used and wasted, and how before? One row a stretch of time, the latest last: a day of the
-- period, or a whole period. A stretch in which nothing was measured has no row.
-- @since -  start of the first stretch, a whole hour
-- @until -  end of the last stretch
-- @step_s -  length of a stretch in seconds, of whole hours
-- @price_per_kwh -  of energy, or NULL
-- @price_per_gpu_hour -  of an allocated GPU hour, or NULL
WITH
    measured AS
    (
        SELECT
            {since:DateTime('UTC')} + toIntervalSecond(intDiv(dateDiff('second', {since:DateTime('UTC')}, w.window), {step_s:UInt32}) * {step_s:UInt32}) AS starts_at,
            sum(w.covered_ms) / 3600000 AS available,
            sum(w.idle_ms) / 3600000 AS idle,
            sum(w.gpu_util_permille_sum * w.covered_ms / w.samples) / nullIf(sum(w.gpu_util_permille_count * w.covered_ms / w.samples), 0) / 1000 AS gpu_util,
            sum(w.sm_active_permille_sum * w.covered_ms / w.samples) / nullIf(sum(w.sm_active_permille_count * w.covered_ms / w.samples), 0) / 1000 AS sm_active,
            if(sum(w.power_deciwatts_count) = 0, NULL, sum(w.power_deciwatts_sum * w.covered_ms / w.samples) / 10 / 1000 / 3.6e6) AS energy_kwh
        FROM gpu_heatmap_1h AS w
        WHERE w.window >= {since:DateTime('UTC')} AND w.window < {until:DateTime('UTC')}
        GROUP BY starts_at
    ),
    held AS
    (
        SELECT
            {since:DateTime('UTC')} + toIntervalSecond(intDiv(dateDiff('second', {since:DateTime('UTC')}, j.window), {step_s:UInt32}) * {step_s:UInt32}) AS starts_at,
            uniqExactIf(j.job_id, j.gpu_seconds > 0) AS jobs,
            sum(j.gpu_seconds) / 3600 AS allocated,
            sum(j.idle_seconds) / 3600 AS wasted,
            sum(greatest(0, j.gpu_seconds - greatest(j.gpu_util_known_seconds, j.sm_active_known_seconds))) / 3600 AS unknown
        FROM job_windows_1h AS j
        WHERE j.window >= {since:DateTime('UTC')} AND j.window < {until:DateTime('UTC')}
        GROUP BY starts_at
    )
SELECT
    measured.starts_at AS starts_at,
    held.jobs AS jobs,
    round(measured.available, 6) AS available_gpu_hours,
    round(held.allocated, 6) AS allocated_gpu_hours,
    round(greatest(0, measured.available - held.allocated), 6) AS free_gpu_hours,
    round(held.allocated - held.wasted - held.unknown, 6) AS used_gpu_hours,
    round(held.wasted, 6) AS wasted_gpu_hours,
    round(held.unknown, 6) AS unknown_gpu_hours,
    round(measured.idle, 6) AS idle_gpu_hours,
    round(held.wasted / nullIf(held.allocated, 0), 6) AS wasted_share,
    round(measured.gpu_util, 6) AS gpu_util,
    round(measured.sm_active, 6) AS sm_active,
    round(measured.energy_kwh, 6) AS energy_kwh,
    round(measured.energy_kwh * {price_per_kwh:Nullable(Float64)}, 6) AS energy_cost,
    round(held.allocated * {price_per_gpu_hour:Nullable(Float64)}, 6) AS allocated_cost,
    round(held.wasted * {price_per_gpu_hour:Nullable(Float64)}, 6) AS wasted_cost
FROM measured
GLOBAL LEFT JOIN held ON held.starts_at = measured.starts_at
ORDER BY starts_at
