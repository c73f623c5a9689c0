-- How much device memory did the tensors of a rank hold over time, and who held it at the peak? Nothing where the trace was made without profile_memory.
-- @capture_id -  the capture
-- @process ''  one process of it (a rank's number); all where it is empty
-- @limit 5000  how many points
SELECT process, rank, device_type, device, at_seconds, allocated_bytes, reserved_bytes, absolute, peak, holders
FROM trace_memory
WHERE capture_id = {capture_id:String} AND ({process:String} = '' OR process = {process:String})
ORDER BY rank, process, device_type DESC, device, at_seconds
LIMIT {limit:UInt32}
