-- Which load of a rank's trace is shown? What the other timeline queries ask for: process and load, the latest that is whole.
-- @capture_id -  the capture
-- @rank 0  the rank
-- @process ''  where several processes of the capture are that rank: which one, as trace_ranks names it
SELECT process, load, host, rank, captured_at, events, job_id, row_counts['trace_timeline'] AS timeline_events
FROM trace_ranks
WHERE capture_id = {capture_id:String} AND rank = {rank:UInt32} AND ({process:String} = '' OR process = {process:String})
ORDER BY process
LIMIT 1
