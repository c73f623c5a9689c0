-- Which jobs leave GPU memory unused? Most that a job had on one GPU against what the GPUs of its hosts have, those that held GPUs for longest first.
-- @since -7d  start of the window, rounded down to an hour
-- @until now  end of the window
-- @used 0.5  below this share of the memory
-- @limit 20  how many jobs
SELECT
    job_id, name, user, gpu_hours, fb_used_bytes_max, fb_total_bytes,
    fb_used_bytes_max / nullIf(fb_total_bytes, 0) AS fb_used_max
FROM
(
    SELECT
        used.job_id AS job_id,
        any(owner.name) AS name,
        any(owner.user) AS user,
        sum(used.gpu_seconds) / 3600 AS gpu_hours,
        max(used.fb_used_bytes_max) AS fb_used_bytes_max,
        max(devices.fb_total_bytes) AS fb_total_bytes
    FROM job_windows_1h AS used
    GLOBAL LEFT JOIN (SELECT job_id, any(job_trees.name) AS name, any(job_trees.user) AS user FROM job_trees GROUP BY job_id) AS owner
        ON owner.job_id = used.job_id
    GLOBAL LEFT JOIN
    (
        SELECT host, max(fb_total_mebibytes_max) * 1048576 AS fb_total_bytes
        FROM gpu_heatmap_1h
        WHERE window >= toStartOfHour({since:DateTime('UTC')}) AND window < {until:DateTime('UTC')}
        GROUP BY host
    ) AS devices ON devices.host = used.host
    WHERE used.window >= toStartOfHour({since:DateTime('UTC')}) AND used.window < {until:DateTime('UTC')}
    GROUP BY used.job_id
    HAVING gpu_hours > 0 AND fb_used_bytes_max > 0
)
WHERE fb_used_max < {used:Float64}
ORDER BY gpu_hours DESC, job_id
LIMIT {limit:UInt32}
