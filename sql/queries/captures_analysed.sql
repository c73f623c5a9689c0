-- What do the loaded captures say? One row a capture: how its GPUs' time was spent, its slowest rank and its costliest finding.
-- @since -30d  start of the window, by when they were recorded
-- @until now  end of the window
-- @limit 50  how many, the latest first
SELECT
    captured_at, capture_id, job_id, workload, hosts, gpu_models, ranks, ranks_missing, busy_share, compute_share, exposed_comm_share, step_p50_seconds,
    mfu, slowest_rank, slowest_over_fastest, straggler, top_kernel, top_kernel_share, findings[1].text AS finding
FROM capture_summary
WHERE captured_at >= {since:DateTime('UTC')} AND captured_at < {until:DateTime('UTC')}
ORDER BY captured_at DESC, capture_id
LIMIT {limit:UInt32}
