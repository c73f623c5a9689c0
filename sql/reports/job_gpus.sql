-- How did the job's GPUs do while it ran? Of each GPU that it ever held, over the whole hours of the period: use by whoever
-- held it, power, the highest temperature, and in how many hours heat, a power brake or the hardware held its clocks down.
-- @job_id -  the job
-- @since -  start of the period, a whole hour
-- @until -  its end
-- @limit 2000  how many rows
WITH held AS
(
    SELECT DISTINCT t.host AS host, arrayJoin(t.gpu_uuids_held) AS uuid FROM job_trees AS t WHERE t.job_id = {job_id:String}
)
SELECT
    w.host AS host, w.gpu AS gpu, w.uuid AS uuid,
    round(sum(w.covered_ms) / 3600000, 6) AS available_gpu_hours,
    round(sum(w.idle_ms) / 3600000, 6) AS idle_gpu_hours,
    round(sum(w.gpu_util_permille_sum * w.covered_ms / w.samples) / nullIf(sum(w.gpu_util_permille_count * w.covered_ms / w.samples), 0) / 1000, 6) AS gpu_util,
    round(sum(w.sm_active_permille_sum * w.covered_ms / w.samples) / nullIf(sum(w.sm_active_permille_count * w.covered_ms / w.samples), 0) / 1000, 6) AS sm_active,
    round(sum(w.power_deciwatts_sum * w.covered_ms / w.samples) / nullIf(sum(w.power_deciwatts_count * w.covered_ms / w.samples), 0) / 10, 6) AS power_watts,
    max(w.temperature_celsius_max) AS temperature_celsius,
    uniqExactIf(w.window, bitAnd(w.throttle_reasons_max, 0xe8) != 0) AS held_back_hours
FROM gpu_heatmap_1h AS w
WHERE w.window >= {since:DateTime('UTC')} AND w.window < {until:DateTime('UTC')}
    AND w.host GLOBAL IN (SELECT host FROM held) AND (w.host, w.uuid) GLOBAL IN (SELECT host, uuid FROM held)
GROUP BY w.host, w.gpu, w.uuid
ORDER BY host, gpu, uuid
LIMIT {limit:UInt32}
