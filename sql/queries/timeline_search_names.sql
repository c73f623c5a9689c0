-- How often does each name like that occur on a rank's timeline, in how much time, and how often before a moment?
-- @capture_id -  the capture
-- @process -  of timeline_load
-- @load -  of timeline_load
-- @pattern -  a regular expression (RE2) that the names match
-- @before_ns 0  the moment, nanoseconds from the first event
SELECT name, any(kind) AS kind, count() AS count, sum(duration_ns) AS total_ns, countIf(start_ns < {before_ns:Int64}) AS before
FROM trace_timeline_loads
WHERE capture_id = {capture_id:String} AND process = {process:String} AND load = {load:String} AND lane != 65535
    AND match(name, {pattern:String})
GROUP BY name
ORDER BY count DESC, name
