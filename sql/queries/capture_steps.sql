-- How do the steps of a capture differ? Each step's duration and what the GPUs did for it, over its ranks.
-- @capture_id -  the capture
SELECT
    name AS step,
    count() AS ranks,
    max(trace_steps.duration_ns) / 1e9 AS duration_seconds,
    argMax(rank, trace_steps.duration_ns) AS slowest_rank,
    avg(trace_steps.compute_ns) / 1e9 AS compute_seconds,
    avg(trace_steps.exposed_comm_ns) / 1e9 AS exposed_comm_seconds,
    avg(trace_steps.during_busy_ns / trace_steps.duration_ns) AS busy_share,
    avg(trace_steps.input_ns) / 1e9 AS input_seconds,
    avg(mfu) AS mfu
FROM trace_steps
WHERE capture_id = {capture_id:String}
GROUP BY step
ORDER BY min(trace_steps.step), step
