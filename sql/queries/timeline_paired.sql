-- Which operators of a rank's timeline share a sequence number: a forward operator and its backward ones?
-- @capture_id -  the capture
-- @process -  of timeline_load
-- @load -  of timeline_load
-- @sequence -  the number
SELECT lane, depth, start_ns, duration_ns, kind, name, thread
FROM trace_timeline_loads
WHERE capture_id = {capture_id:String} AND process = {process:String} AND load = {load:String} AND lane != 65535
    AND sequence = {sequence:Int64}
ORDER BY start_ns, lane
LIMIT 100
