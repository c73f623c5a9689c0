-- What are the names of a rank's events? By the number that stands for each in the other timeline queries.
-- @capture_id -  the capture
-- @process -  of timeline_load
-- @load -  of timeline_load
SELECT bitShiftRight(cityHash64(name), 16) AS id, name, any(kind) AS kind, count() AS count, sum(duration_ns) AS total_ns
FROM trace_timeline_loads
WHERE capture_id = {capture_id:String} AND process = {process:String} AND load = {load:String}
GROUP BY name
ORDER BY total_ns DESC, name
LIMIT 100000
