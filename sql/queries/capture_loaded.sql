-- Which ranks of a capture are analysed and loaded, and by which load? Nothing of a capture that is not there.
-- @capture_id -  the capture
SELECT process, rank, host, load
FROM trace_ranks
WHERE capture_id = {capture_id:String}
ORDER BY rank, process
