-- What belongs to a correlation of a rank's timeline? The call that launched and what it launched, in order of time.
-- @capture_id -  the capture
-- @process -  of timeline_load
-- @load -  of timeline_load
-- @correlation -  its number
SELECT lane, depth, start_ns, duration_ns, kind, name, device, stream, thread
FROM trace_timeline_loads
WHERE capture_id = {capture_id:String} AND process = {process:String} AND load = {load:String} AND lane != 65535
    AND correlation = {correlation:Int64}
ORDER BY start_ns, lane
LIMIT 1000
