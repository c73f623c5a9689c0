-- What came of each process of a capture? The view capture_ranks: the state of each, why, and where its trace is.
-- @capture_id -  the capture
-- @limit 20000  how many, the latest rounds first
SELECT
    sequence, host, pid, rank, job_id, state, reason, why, start_at, traced_from, traced_until, url, bytes, raw_bytes, sha256,
    slowdown_permille, clock_skew_ms, clock_skewed, first_at, last_at
FROM capture_ranks
WHERE capture_id = {capture_id:String}
ORDER BY sequence DESC, rank ASC NULLS LAST, host, pid
LIMIT {limit:UInt32}
