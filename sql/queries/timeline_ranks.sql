-- Which ranks of a capture have a timeline? One row a process.
-- @capture_id -  the capture
SELECT rank, process, host, captured_at, row_counts['trace_timeline'] AS events
FROM trace_ranks
WHERE capture_id = {capture_id:String}
ORDER BY rank, process
