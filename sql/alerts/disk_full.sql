-- A file system of a host is nearly full, in bytes or in files: what writes there fails when it is.
-- severity: warning
-- for: 0
-- keep: 300
-- every: 120
-- unit: ratio 0-1
-- summary: {mount} of host {host} is {value} full ({what}), {free} are free
-- do: Free it: what grows there is shown by `du -x --max-depth=2` on the host.
-- @full 0.92  share in use that is too much
SELECT
    host, mount,
    greatest(used, ifNull(files, 0)) AS value,
    value >= {full:Float64} AS starts,
    if(used >= ifNull(files, 0), 'bytes', 'files') AS what,
    formatReadableSize(available * 1048576) AS free
FROM
(
    SELECT
        host, device AS mount,
        argMax(d.fs_available_mebibytes, d.ts) AS available,
        argMax(d.fs_used_mebibytes / nullIf(d.fs_used_mebibytes + d.fs_available_mebibytes, 0), d.ts) AS used,
        argMax(d.inodes_used / nullIf(d.inodes_total, 0), d.ts) AS files
    FROM device_samples AS d
    WHERE d.kind = 'mount' AND d.ts > {now:DateTime64(3, 'UTC')} - INTERVAL 2 MINUTE AND d.ts <= {now:DateTime64(3, 'UTC')}
        AND d.fs_total_mebibytes > 0 AND NOT ifNull(d.read_only, false)
    GROUP BY host, mount
)
WHERE value >= {full:Float64} - 0.02
ORDER BY host, mount
