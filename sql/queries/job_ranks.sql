-- Which rank of a job is the odd one? One row a GPU that the job held, with its means over the window while the job ran, from
-- minutes or hours. `odd` names the metrics in which it is far from the others: by more than six times their median
-- deviation from the median, and by at least 0.1 of a ratio, 50 W, 10 °C, 100 MHz or 4 GB. The rank is that of the process
-- on the GPU, where that is known, else of the process tree that held it.
-- @job_id -  the job
-- @since -24h  start of the window
-- @until now  end of the window
-- @windows gpu_heatmap_1m  or gpu_heatmap_1h
-- @step_s 60  seconds of those windows: 60 or 3600
WITH
    (SELECT toStartOfInterval(min(started_at), toIntervalSecond({step_s:UInt32})) FROM job_trees WHERE job_id = {job_id:String}) AS begun,
    (SELECT max(last_at) FROM job_trees WHERE job_id = {job_id:String}) AS seen
SELECT
    rank, host, pid, gpu, uuid,
    gpu_util,
    sm_active,
    tensor_active,
    dram_active,
    power_watts,
    temperature_celsius,
    sm_clock_hertz,
    fb_used_bytes,
    arrayFilter(name -> name != '', [
        if(abs(gpu_util - gpu_util_median) > greatest(6 * gpu_util_mad, 0.1), 'gpu_util', ''),
        if(abs(sm_active - sm_active_median) > greatest(6 * sm_active_mad, 0.1), 'sm_active', ''),
        if(abs(tensor_active - tensor_active_median) > greatest(6 * tensor_active_mad, 0.1), 'tensor_active', ''),
        if(abs(dram_active - dram_active_median) > greatest(6 * dram_active_mad, 0.1), 'dram_active', ''),
        if(abs(power_watts - power_watts_median) > greatest(6 * power_watts_mad, 50), 'power_watts', ''),
        if(abs(temperature_celsius - temperature_celsius_median) > greatest(6 * temperature_celsius_mad, 10), 'temperature_celsius', ''),
        if(abs(sm_clock_hertz - sm_clock_hertz_median) > greatest(6 * sm_clock_hertz_mad, 1e+08), 'sm_clock_hertz', ''),
        if(abs(fb_used_bytes - fb_used_bytes_median) > greatest(6 * fb_used_bytes_mad, 4e+09), 'fb_used_bytes', '')
    ]) AS odd
FROM
(
    SELECT
        *,
        quantileExact(0.5)(abs(gpu_util - gpu_util_median)) OVER () AS gpu_util_mad,
        quantileExact(0.5)(abs(sm_active - sm_active_median)) OVER () AS sm_active_mad,
        quantileExact(0.5)(abs(tensor_active - tensor_active_median)) OVER () AS tensor_active_mad,
        quantileExact(0.5)(abs(dram_active - dram_active_median)) OVER () AS dram_active_mad,
        quantileExact(0.5)(abs(power_watts - power_watts_median)) OVER () AS power_watts_mad,
        quantileExact(0.5)(abs(temperature_celsius - temperature_celsius_median)) OVER () AS temperature_celsius_mad,
        quantileExact(0.5)(abs(sm_clock_hertz - sm_clock_hertz_median)) OVER () AS sm_clock_hertz_mad,
        quantileExact(0.5)(abs(fb_used_bytes - fb_used_bytes_median)) OVER () AS fb_used_bytes_mad
    FROM
    (
        SELECT
            *,
            quantileExact(0.5)(gpu_util) OVER () AS gpu_util_median,
            quantileExact(0.5)(sm_active) OVER () AS sm_active_median,
            quantileExact(0.5)(tensor_active) OVER () AS tensor_active_median,
            quantileExact(0.5)(dram_active) OVER () AS dram_active_median,
            quantileExact(0.5)(power_watts) OVER () AS power_watts_median,
            quantileExact(0.5)(temperature_celsius) OVER () AS temperature_celsius_median,
            quantileExact(0.5)(sm_clock_hertz) OVER () AS sm_clock_hertz_median,
            quantileExact(0.5)(fb_used_bytes) OVER () AS fb_used_bytes_median
        FROM
        (
            SELECT
                coalesce(placed.rank, held.rank) AS rank,
                held.host AS host,
                coalesce(placed.pid, held.pid) AS pid,
                measured.gpu AS gpu,
                held.uuid AS uuid,
                gpu_util,
                sm_active,
                tensor_active,
                dram_active,
                power_watts,
                temperature_celsius,
                sm_clock_hertz,
                fb_used_bytes
            FROM
            (
                SELECT toString(host) AS host, uuid, any(rank) AS rank, any(pid) AS pid
                FROM job_processes ARRAY JOIN gpu_uuids AS uuid
                WHERE job_id = {job_id:String}
                GROUP BY host, uuid
            ) AS held
            LEFT JOIN
            (
                SELECT
                    toString(w.host) AS host, toString(w.uuid) AS uuid, any(toNullable(w.gpu)) AS gpu,
                    sum(w.gpu_util_permille_sum) / nullIf(sum(w.gpu_util_permille_count), 0) / 1000 AS gpu_util,
                    sum(w.sm_active_permille_sum) / nullIf(sum(w.sm_active_permille_count), 0) / 1000 AS sm_active,
                    sum(w.tensor_active_permille_sum) / nullIf(sum(w.tensor_active_permille_count), 0) / 1000 AS tensor_active,
                    sum(w.dram_active_permille_sum) / nullIf(sum(w.dram_active_permille_count), 0) / 1000 AS dram_active,
                    sum(w.power_deciwatts_sum) / nullIf(sum(w.power_deciwatts_count), 0) / 10 AS power_watts,
                    sum(w.temperature_celsius_sum) / nullIf(sum(w.temperature_celsius_count), 0) AS temperature_celsius,
                    sum(w.sm_clock_megahertz_sum) / nullIf(sum(w.sm_clock_megahertz_count), 0) * 1000000 AS sm_clock_hertz,
                    sum(w.fb_used_mebibytes_sum) / nullIf(sum(w.fb_used_mebibytes_count), 0) * 1048576 AS fb_used_bytes
                FROM {windows:Identifier} AS w
                WHERE w.host GLOBAL IN (SELECT host FROM job_trees WHERE job_id = {job_id:String})
                    AND w.window >= greatest(begun, toStartOfInterval({since:DateTime('UTC')}, toIntervalSecond({step_s:UInt32})))
                    AND w.window < {until:DateTime('UTC')} AND w.window <= seen
                GROUP BY host, uuid
            ) AS measured ON measured.host = held.host AND measured.uuid = held.uuid
            LEFT JOIN
            (
                SELECT toString(p.host) AS host, toString(p.uuid) AS uuid, argMax(toNullable(ranked.rank), p.ts) AS rank, argMax(toNullable(p.pid), p.ts) AS pid
                FROM gpu_processes AS p
                GLOBAL INNER JOIN
                (
                    SELECT DISTINCT toString(host) AS host, placed.1 AS rank, placed.2 AS pid
                    FROM job_events ARRAY JOIN arrayZip(ranks, rank_pids) AS placed
                    WHERE job_id = {job_id:String} AND length(ranks) = length(rank_pids)
                ) AS ranked ON ranked.host = p.host AND ranked.pid = p.pid
                WHERE p.job_id = {job_id:String}
                GROUP BY host, uuid
            ) AS placed ON placed.host = held.host AND placed.uuid = held.uuid
        )
    )
)
ORDER BY isNull(rank), rank, host, gpu, uuid
LIMIT 20000
SETTINGS join_use_nulls = 1
