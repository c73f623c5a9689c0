-- What ran in a stretch of a rank's timeline? By lane and name: events that overlap it, and their time within it. Of
-- nested events each counts for itself; `outer_ns` counts the outermost alone.
-- @capture_id -  the capture
-- @process -  of timeline_load
-- @load -  of timeline_load
-- @since_ns 0  start of the stretch, nanoseconds from the first event
-- @until_ns 1000000000  its end
-- @top 200  how many rows, those with most time
WITH least(e.start_ns + e.duration_ns, {until_ns:Int64}) - greatest(e.start_ns, {since_ns:Int64}) AS within
SELECT lane, name, any(kind) AS kind, count() AS count, sum(within) AS total_ns, sumIf(within, depth = 0) AS outer_ns
FROM trace_timeline_loads AS e
WHERE capture_id = {capture_id:String} AND process = {process:String} AND load = {load:String} AND lane != 65535
    AND start_ns < {until_ns:Int64} AND start_ns + duration_ns > {since_ns:Int64}
GROUP BY lane, name
ORDER BY total_ns DESC, lane, name
LIMIT {top:UInt32}
