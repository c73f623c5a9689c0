-- How do the steps of a capture differ? Each step's duration and what the GPUs did for it and in its window, over its ranks. Odd ones are longer than the median by a tenth and by five times the usual distance from it.
-- @capture_id -  the capture
-- @process ''  one process of it (a rank's number); all where it is empty
SELECT
    *,
    duration_seconds > 1.1 * median_seconds AND duration_seconds > median_seconds + 5 * 1.4826 * quantileExact(0.5)(abs(duration_seconds - median_seconds)) OVER () AS odd
FROM
(
    SELECT
        name AS step,
        count() AS ranks,
        max(trace_steps.duration_ns) / 1e9 AS duration_seconds,
        argMax(rank, trace_steps.duration_ns) AS slowest_rank,
        avg(trace_steps.compute_ns) / 1e9 AS compute_seconds,
        avg(trace_steps.exposed_comm_ns) / 1e9 AS exposed_comm_seconds,
        avg(trace_steps.during_busy_ns / nullIf(trace_steps.duration_ns, 0)) AS busy_share,
        avg(trace_steps.input_ns) / 1e9 AS input_seconds,
        avg(mfu) AS mfu,
        avg(trace_steps.duration_ns) / 1e9 AS mean_seconds,
        min(trace_steps.duration_ns) / 1e9 AS shortest_seconds,
        avg(trace_steps.during_compute_ns) / 1e9 AS during_compute_seconds,
        avg(trace_steps.during_exposed_comm_ns) / 1e9 AS during_exposed_comm_seconds,
        avg(trace_steps.during_exposed_mem_ns) / 1e9 AS during_exposed_mem_seconds,
        avg(trace_steps.duration_ns - trace_steps.during_busy_ns) / 1e9 AS during_idle_seconds,
        avg(trace_steps.wait_ns) / 1e9 AS wait_seconds,
        avg(trace_steps.lead_ns) / 1e9 AS lead_seconds,
        avg(trace_steps.tail_ns) / 1e9 AS tail_seconds,
        sum(trace_steps.gpu_events) AS gpu_events,
        sum(trace_steps.launches) AS launches,
        sum(flops) AS flops,
        max(memory_peak_bytes) AS memory_peak_bytes,
        min(trace_steps.start_ns) / 1e9 AS start_seconds,
        min(trace_steps.step) AS place,
        quantileExact(0.5)(duration_seconds) OVER () AS median_seconds
    FROM trace_steps
    WHERE capture_id = {capture_id:String} AND ({process:String} = '' OR process = {process:String})
    GROUP BY step
)
ORDER BY place, step
