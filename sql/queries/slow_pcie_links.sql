-- Which GPUs hang on a slow PCIe link? The best that a GPU's link did in the window against the best of its model.
-- The generation is that of hours in which the GPU worked, for an idle link rests at a low one; NULL where it never did.
-- @since -24h  start of the window, rounded down to an hour
-- @until now  end of the window
SELECT
    host, gpu, uuid, model, generation, width, generation_best, width_best,
    ifNull(exp2(generation - generation_best), 1) * width / width_best AS of_best
FROM
(
    SELECT
        links.host AS host, links.gpu AS gpu, links.uuid AS uuid, devices.model AS model, links.generation AS generation, links.width AS width,
        max(links.generation) OVER (PARTITION BY devices.model) AS generation_best,
        max(links.width) OVER (PARTITION BY devices.model) AS width_best
    FROM
    (
        SELECT host, gpu, uuid, maxIf(best_generation, NOT idle) AS generation, max(best_width) AS width
        FROM
        (
            SELECT
                host, gpu, uuid,
                max(g.pcie_link_generation_max) AS best_generation,
                max(g.pcie_link_width_max) AS best_width,
                sum(g.idle_ms) = sum(g.covered_ms) AS idle
            FROM gpu_heatmap_1h AS g
            WHERE window >= toStartOfHour({since:DateTime('UTC')}) AND window < {until:DateTime('UTC')}
            GROUP BY host, gpu, uuid, window
        )
        GROUP BY host, gpu, uuid
        HAVING isNotNull(width)
    ) AS links
    GLOBAL INNER JOIN
    (
        SELECT host, uuid, argMaxMerge(latest).model AS model FROM gpu_last GROUP BY host, uuid
    ) AS devices ON devices.host = links.host AND devices.uuid = links.uuid
)
WHERE of_best < 1
ORDER BY of_best, host, gpu, uuid
