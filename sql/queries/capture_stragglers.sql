-- Who held the others up? Ranks for which the others of a capture waited in collectives, the costliest first, and why they were late.
-- @since -30d  start of the window, by when the captures were recorded
-- @until now  end of the window
-- @limit 20  how many
SELECT captured_at, capture_id, job_id, rank, host, last, of, cost_seconds, late_seconds, waited_seconds, cause, compute_over_median
FROM stragglers
WHERE captured_at >= {since:DateTime('UTC')} AND captured_at < {until:DateTime('UTC')}
ORDER BY cost_seconds DESC, capture_id, rank
LIMIT {limit:UInt32}
