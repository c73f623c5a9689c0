-- A disk of the store is nearly full: inserts fail when it is.
-- severity: critical
-- for: 60
-- keep: 300
-- asked: always
-- unit: ratio 0-1
-- summary: Disk {disk} of the store is {value} full, {free} are free
-- do: Keep rows for a shorter time (store.raw_ttl_days, minute_ttl_days), free the disk, or give it more.
-- @full 0.9  share in use that is too much
SELECT
    name AS disk,
    1 - free_space / total_space AS value,
    value >= {full:Float64} AS starts,
    formatReadableSize(free_space) AS free
FROM system.disks
WHERE total_space > 0 AND total_space < 1e18 AND value >= {full:Float64} - 0.02
ORDER BY disk
