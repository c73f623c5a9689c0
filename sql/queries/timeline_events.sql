-- What is drawn of a stretch of a rank's timeline? Events of at least a bucket's length that overlap it, each as it is;
-- shorter ones that begin in it merged, a row a lane, depth and bucket: from the first one's start to the last one's
-- end, how many they are, in how much of that one ran, and the name that took most of it. A row of count 1 is an event
-- as it is. Stretches that lie side by side, cut at whole buckets, merge as one that holds both.
-- @capture_id -  the capture
-- @process -  of timeline_load
-- @load -  of timeline_load
-- @since_ns 0  start of the stretch, nanoseconds from the first event
-- @until_ns 1000000000  its end
-- @bucket_ns 1000000  length of a bucket
-- @depths 65536  only events with fewer around them
-- @most 20000  rows that one more than is answered
SELECT
    lane,
    depth,
    min(first_ns) AS start_ns,
    max(last_ns) - min(first_ns) AS duration_ns,
    sum(busy) AS busy_ns,
    sum(events) AS count,
    argMax(id, busy) AS name
FROM
(
    SELECT
        lane, depth,
        bitShiftRight(cityHash64(name), 16) AS id,
        if(e.duration_ns >= {bucket_ns:Int64}, -1 - e.start_ns, intDiv(e.start_ns, {bucket_ns:Int64})) AS part,
        min(e.start_ns) AS first_ns,
        max(e.start_ns + e.duration_ns) AS last_ns,
        sum(e.duration_ns) AS busy,
        count() AS events
    FROM trace_timeline_loads AS e
    WHERE depth < {depths:UInt32} AND capture_id = {capture_id:String} AND process = {process:String} AND load = {load:String} AND lane != 65535
        AND start_ns < {until_ns:Int64}
        AND start_ns + duration_ns >= {since_ns:Int64}
        AND (start_ns >= {since_ns:Int64} OR duration_ns >= {bucket_ns:Int64})
    GROUP BY lane, depth, part, id
)
GROUP BY lane, depth, part
LIMIT {most:UInt64} + 1
