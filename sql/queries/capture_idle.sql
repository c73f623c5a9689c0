-- What did the streams of a capture's GPUs wait for? Gaps between a stream's events: for the host (the launch came late), for another kernel (short gaps), or for something else; the busiest streams first.
-- @capture_id -  the capture
-- @process ''  one process of it (a rank's number); all where it is empty
-- @sort busy_seconds  a column to sort by
-- @descending 1  0: the lowest first
-- @limit 50  how many streams
-- @offset 0  after so many
SELECT
    process, rank, device, stream, gpu_events, span_seconds, busy_seconds, compute_seconds, comm_seconds, mem_seconds,
    idle_seconds, host_wait_seconds, kernel_wait_seconds, other_seconds
FROM trace_streams
WHERE capture_id = {capture_id:String} AND ({process:String} = '' OR process = {process:String})
ORDER BY
    if({descending:UInt8} = 1, NULL, {sort:Identifier}) ASC NULLS LAST,
    if({descending:UInt8} = 1, {sort:Identifier}, NULL) DESC NULLS LAST,
    rank, process, device, stream
LIMIT {limit:UInt32} OFFSET {offset:UInt32}
SETTINGS exact_rows_before_limit = 1
