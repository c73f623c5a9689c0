-- How much of the fleet was heard of? Hosts and GPUs with samples in the period, and hours of each.
-- @since -  start of the period, a whole hour
-- @until -  its end
WITH
    host AS
    (
        SELECT w.host AS host, sum(w.covered_ms) / 3600000 AS hours
        FROM host_windows_1h AS w
        WHERE w.window >= {since:DateTime('UTC')} AND w.window < {until:DateTime('UTC')}
        GROUP BY w.host
    ),
    gpu AS
    (
        SELECT uniqExact(g.host, g.gpu, g.uuid) AS gpus, sum(g.covered_ms) / 3600000 AS hours
        FROM gpu_heatmap_1h AS g
        WHERE g.window >= {since:DateTime('UTC')} AND g.window < {until:DateTime('UTC')}
    )
SELECT
    (SELECT count() FROM host) AS hosts,
    (SELECT round(sum(host.hours), 6) FROM host) AS host_hours,
    gpu.gpus AS gpus,
    round(gpu.hours, 6) AS available_gpu_hours
FROM gpu
