-- Which links are slow or faulty? GPUs whose PCIe link had fewer lanes or a lower generation at its best than the GPUs of the same
-- model mostly have, that sent PCIe packets again more than a thousand times, or whose NVLinks had CRC errors, over the period;
-- and network links that are slower at the period's end than most of the same name, or down.
-- @since -  start of the period, a whole hour
-- @until -  its end
-- @limit 2000  how many rows
WITH
    gpu AS
    (
        SELECT
            w.host AS host, w.gpu AS gpu, toString(w.uuid) AS uuid,
            max(w.pcie_link_generation_max) AS generation,
            max(w.pcie_link_width_max) AS width,
            toInt64(max(w.pcie_replays_max)) - toInt64(min(w.pcie_replays_min)) AS replays,
            toInt64(max(w.nvlink_crc_errors_max)) - toInt64(min(w.nvlink_crc_errors_min)) AS crc
        FROM gpu_heatmap_1h AS w
        WHERE w.window >= {since:DateTime('UTC')} AND w.window < {until:DateTime('UTC')}
        GROUP BY w.host, w.gpu, w.uuid
    ),
    about AS
    (
        SELECT gpu.*, told.model AS model,
            topKIf(1)(gpu.generation, isNotNull(gpu.generation)) OVER (PARTITION BY told.model) AS usual_generation,
            topKIf(1)(gpu.width, isNotNull(gpu.width)) OVER (PARTITION BY told.model) AS usual_width
        FROM gpu
        GLOBAL LEFT JOIN
        (
            SELECT l.host AS host, l.gpu AS gpu, l.uuid AS uuid, argMaxMerge(l.latest).model AS model
            FROM gpu_last AS l
            GROUP BY l.host, l.gpu, l.uuid
        ) AS told ON told.host = gpu.host AND told.gpu = gpu.gpu AND told.uuid = gpu.uuid
    ),
    link AS
    (
        SELECT
            d.host AS host, d.kind AS kind, d.device AS device,
            argMaxIf(assumeNotNull(d.link_megabits_per_s), d.ts, isNotNull(d.link_megabits_per_s)) AS megabits,
            argMaxIf(assumeNotNull(d.link_up), d.ts, isNotNull(d.link_up)) AS up,
            countIf(isNotNull(d.link_megabits_per_s)) AS told,
            countIf(isNotNull(d.link_up)) AS told_up
        FROM device_samples AS d
        WHERE d.ts >= {until:DateTime('UTC')} - INTERVAL 1 HOUR AND d.ts < {until:DateTime('UTC')} AND d.kind IN ('nic', 'rdma')
        GROUP BY d.host, d.kind, d.device
    )
SELECT host, link, what, value, usual
FROM
(
    SELECT host, concat('GPU ', toString(gpu)) AS link, 'PCIe generation' AS what, toFloat64(generation) AS value, toNullable(toFloat64(usual_generation[1])) AS usual
    FROM about WHERE generation < usual_generation[1]
    UNION ALL
    SELECT host, concat('GPU ', toString(gpu)), 'PCIe lanes', toFloat64(width), toNullable(toFloat64(usual_width[1])) FROM about WHERE width < usual_width[1]
    UNION ALL
    SELECT host, concat('GPU ', toString(gpu)), 'PCIe packets sent again', toFloat64(replays), NULL FROM about WHERE replays > 1000
    UNION ALL
    SELECT host, concat('GPU ', toString(gpu)), 'NVLink CRC errors', toFloat64(crc), NULL FROM about WHERE crc > 0
    UNION ALL
    SELECT host, concat(kind, ' ', device), 'Gbit/s', megabits / 1000, toNullable(usual[1] / 1000)
    FROM (SELECT link.*, topKIf(1)(link.megabits, link.told > 0) OVER (PARTITION BY link.kind, link.device) AS usual FROM link)
    WHERE told > 0 AND megabits < usual[1]
)
ORDER BY what, host, link
LIMIT {limit:UInt32}
