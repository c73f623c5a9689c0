-- When did the steps of a rank's trace run? On the host, in the times of its timeline.
-- @capture_id -  the capture
-- @process -  of timeline_load
-- @load -  of timeline_load
SELECT step, name, start_ns, duration_ns
FROM trace_steps_loads
WHERE capture_id = {capture_id:String} AND process = {process:String} AND load = {load:String}
ORDER BY start_ns, step
LIMIT 20000
