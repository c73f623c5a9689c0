-- What is known of one event of a rank's timeline? Itself, and what is around it on its lane, the outermost first; events
-- that began at the same moment at the same depth are all there.
-- @capture_id -  the capture
-- @process -  of timeline_load
-- @load -  of timeline_load
-- @lane -  its lane
-- @start_ns -  when it starts, nanoseconds from the first event
-- @depth -  its depth, or that of the deepest event to find
SELECT
    lane, depth, start_ns, duration_ns, kind, name, device, stream, thread, thread_name,
    nullIf(correlation, -1) AS correlation, nullIf(external, -1) AS external, nullIf(sequence, -1) AS sequence, arguments
FROM trace_timeline_loads
WHERE capture_id = {capture_id:String} AND process = {process:String} AND load = {load:String} AND lane = {lane:UInt16}
    AND start_ns <= {start_ns:Int64}
    AND start_ns + duration_ns >= {start_ns:Int64}
    AND depth <= {depth:UInt16}
    AND (start_ns = {start_ns:Int64} OR start_ns + duration_ns > {start_ns:Int64})
ORDER BY depth, start_ns
