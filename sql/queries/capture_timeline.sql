-- What ran in a stretch of a rank's trace? Its events on device and host, as long as they are kept (store.raw_ttl_days).
-- @capture_id -  the capture
-- @rank 0  the rank
-- @start_ns 0  start of the stretch, nanoseconds from the first event
-- @end_ns 1000000000  its end
SELECT kind, device, stream, thread, start_ns, duration_ns, name, correlation
FROM trace_timeline
WHERE capture_id = {capture_id:String} AND rank = {rank:UInt32} AND start_ns < {end_ns:Int64} AND start_ns + duration_ns >= {start_ns:Int64}
ORDER BY start_ns, duration_ns DESC
