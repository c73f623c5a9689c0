-- What did the calls in a stretch of a thread launch on the devices? In order of time, the first 200, and of how many.
-- @capture_id -  the capture
-- @process -  of timeline_load
-- @load -  of timeline_load
-- @thread -  pid/tid
-- @since_ns -  start of the stretch, nanoseconds from the first event
-- @until_ns -  its end
SELECT
    lane, depth, start_ns, duration_ns, kind, name,
    count() OVER () AS events,
    sum(duration_ns) OVER () AS total_ns
FROM trace_timeline_loads
WHERE capture_id = {capture_id:String} AND process = {process:String} AND load = {load:String} AND lane != 65535
    AND kind IN ('kernel', 'memcpy', 'memset')
    AND start_ns >= {since_ns:Int64}
    AND correlation GLOBAL IN (
        SELECT correlation
        FROM trace_timeline_loads
        WHERE capture_id = {capture_id:String} AND process = {process:String} AND load = {load:String}
            AND thread = {thread:String} AND kind = 'call' AND correlation != -1
            AND start_ns >= {since_ns:Int64} AND start_ns < {until_ns:Int64}
    )
ORDER BY start_ns, lane
LIMIT 200
