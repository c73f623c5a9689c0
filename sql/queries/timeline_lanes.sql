-- What lanes has a rank's timeline? One row a lane: streams of devices, what waited on them, threads, their Python calls.
-- Nesting depth, events, from when to when, and the time in which any event was open. A lane of 65535: loaded by a
-- version that drew no lanes.
-- @capture_id -  the capture
-- @process -  of timeline_load
-- @load -  of timeline_load
SELECT
    lane,
    multiIf(kind IN ('kernel', 'memcpy', 'memset'), 'stream', kind = 'wait', 'waits', kind = 'frame', 'python', 'thread') AS sort,
    any(device) AS device,
    any(stream) AS stream,
    any(thread) AS thread,
    any(thread_name) AS thread_name,
    count() AS events,
    max(depth) + 1 AS depths,
    min(start_ns) AS first_ns,
    max(start_ns + duration_ns) AS last_ns,
    sumIf(duration_ns, depth = 0) AS busy_ns
FROM trace_timeline_loads
WHERE capture_id = {capture_id:String} AND process = {process:String} AND load = {load:String}
GROUP BY lane, sort
ORDER BY lane
