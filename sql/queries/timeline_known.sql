-- Is a load of a rank's trace whole? 1 where its events are all there, whether or not a later one is shown.
-- @capture_id -  the capture
-- @process -  of timeline_load
-- @load -  of timeline_load
SELECT count() > 0 AS known
FROM trace_ranks_loads
WHERE capture_id = {capture_id:String} AND process = {process:String} AND load = {load:String}
