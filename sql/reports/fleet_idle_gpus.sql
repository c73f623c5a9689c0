-- Which GPUs did nothing? Those known to be below 5 % for 95 % of the time they were measured or more, the longest first.
-- of: how many there are in all.
-- @since -  start of the period, a whole hour
-- @until -  its end
-- @idle_share 0.95  idle for at least that share
-- @limit 50  how many rows
SELECT
    idle.host AS host,
    idle.gpu AS gpu,
    idle.uuid AS uuid,
    nullIf(told.model, '') AS model,
    round(idle.hours, 6) AS available_gpu_hours,
    round(idle.idle_hours, 6) AS idle_gpu_hours,
    round(idle.idle_hours / idle.hours, 6) AS idle_share,
    round(idle.power_watts, 6) AS power_watts,
    idle.of AS of
FROM
(
    SELECT
        w.host AS host, w.gpu AS gpu, w.uuid AS uuid,
        sum(w.covered_ms) / 3600000 AS hours,
        sum(w.idle_ms) / 3600000 AS idle_hours,
        sum(w.power_deciwatts_sum) / nullIf(sum(w.power_deciwatts_count), 0) / 10 AS power_watts,
        count() OVER () AS of
    FROM gpu_heatmap_1h AS w
    WHERE w.window >= {since:DateTime('UTC')} AND w.window < {until:DateTime('UTC')}
    GROUP BY w.host, w.gpu, w.uuid
    HAVING hours > 0 AND idle_hours >= {idle_share:Float64} * hours
    ORDER BY idle_hours DESC, host, gpu, uuid
    LIMIT {limit:UInt32}
) AS idle
GLOBAL LEFT JOIN
(
    SELECT last.host AS host, last.gpu AS gpu, last.uuid AS uuid, argMaxMerge(last.latest).model AS model
    FROM gpu_last AS last
    GROUP BY last.host, last.gpu, last.uuid
) AS told ON told.host = idle.host AND told.gpu = idle.gpu AND told.uuid = idle.uuid
ORDER BY idle_gpu_hours DESC, host, gpu, uuid
