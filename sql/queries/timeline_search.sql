-- Which events of a rank's timeline have a name like that? In order of time.
-- @capture_id -  the capture
-- @process -  of timeline_load
-- @load -  of timeline_load
-- @pattern -  a regular expression (RE2) that their names match
-- @limit 1000  how many
-- @offset 0  of how many before to go on
SELECT lane, depth, start_ns, duration_ns, kind, name
FROM trace_timeline_loads
WHERE capture_id = {capture_id:String} AND process = {process:String} AND load = {load:String} AND lane != 65535
    AND match(name, {pattern:String})
ORDER BY start_ns, lane, depth
LIMIT {limit:UInt32} OFFSET {offset:UInt64}
