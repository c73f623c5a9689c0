-- What was open on a thread of a rank's timeline at a moment: operators and ranges, or Python calls? The outermost first.
-- @capture_id -  the capture
-- @process -  of timeline_load
-- @load -  of timeline_load
-- @thread -  pid/tid
-- @at_ns -  the moment, nanoseconds from the first event
-- @python 0  1: Python calls
SELECT lane, depth, start_ns, duration_ns, kind, name
FROM trace_timeline_loads
WHERE capture_id = {capture_id:String} AND process = {process:String} AND load = {load:String} AND lane != 65535
    AND thread = {thread:String} AND (kind = 'frame') = {python:UInt8}
    AND start_ns <= {at_ns:Int64} AND start_ns + duration_ns >= {at_ns:Int64}
    AND (start_ns = {at_ns:Int64} OR start_ns + duration_ns > {at_ns:Int64})
ORDER BY depth, start_ns
LIMIT 1000
