-- Which GPUs were missing while their host was heard of? Hours of the host without the GPU, from the GPU's first day on, and
-- what its agent said of it last. GPUs that were last seen more than 28 days before the period, and MIG instances, which come
-- and go, are left out.
-- @since -  start of the period, a whole hour
-- @until -  its end
-- @least_hours 0.1  missing for at least so long
-- @limit 2000  how many rows
WITH
    seen AS
    (
        SELECT l.host AS host, l.gpu AS gpu, l.uuid AS uuid, min(l.first_at) AS first_at, max(l.last_at) AS last_at
        FROM gpu_last AS l
        WHERE NOT startsWith(l.uuid, 'MIG-')
        GROUP BY l.host, l.gpu, l.uuid
        HAVING first_at < {until:DateTime('UTC')} AND last_at >= {since:DateTime('UTC')} - INTERVAL 28 DAY
    ),
    measured AS
    (
        SELECT g.host AS host, g.gpu AS gpu, toString(g.uuid) AS uuid, sum(g.covered_ms) / 3600000 AS hours
        FROM gpu_heatmap_1h AS g
        WHERE g.window >= {since:DateTime('UTC')} AND g.window < {until:DateTime('UTC')}
        GROUP BY g.host, g.gpu, g.uuid
    ),
    there AS
    (
        SELECT seen.host AS host, seen.gpu AS gpu, seen.uuid AS uuid, sumIf(w.hours, w.window >= seen.first_at) AS hours, any(seen.last_at) AS last_at
        FROM seen
        GLOBAL INNER JOIN
        (
            SELECT h.host AS host, h.window AS window, sum(h.covered_ms) / 3600000 AS hours
            FROM host_windows_1h AS h
            WHERE h.window >= {since:DateTime('UTC')} AND h.window < {until:DateTime('UTC')}
            GROUP BY h.host, h.window
        ) AS w ON w.host = seen.host
        GROUP BY seen.host, seen.gpu, seen.uuid
    )
SELECT
    there.host AS host, there.gpu AS gpu, there.uuid AS uuid,
    round(there.hours - measured.hours, 6) AS missing_gpu_hours,
    round(measured.hours, 6) AS available_gpu_hours,
    there.last_at AS last_seen_at,
    nullIf(gone.why, '') AS why
FROM there
GLOBAL LEFT JOIN measured ON measured.host = there.host AND measured.gpu = there.gpu AND measured.uuid = there.uuid
GLOBAL LEFT JOIN
(
    SELECT host, subject AS uuid, argMax(why, last_at) AS why
    FROM (SELECT s.host AS host, s.subject AS subject, max(s.last_at) AS last_at, argMaxMerge(s.latest) AS last, last.why AS why, last.state AS state FROM source_last AS s WHERE s.subject != '' GROUP BY s.host, s.source, s.subject)
    WHERE state = 'gone'
    GROUP BY host, subject
) AS gone ON gone.host = there.host AND gone.uuid = there.uuid
WHERE there.hours - measured.hours >= {least_hours:Float64}
ORDER BY missing_gpu_hours DESC, host, gpu, uuid
LIMIT {limit:UInt32}
