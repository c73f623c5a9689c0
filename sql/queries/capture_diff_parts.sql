-- Which part of the time changed between two captures? Each one's time (of a step of a rank where both have steps, else of the whole) as computation, exposed communication, exposed copies and idle time.
-- @capture_id -  the later capture
-- @base -  the earlier one
SELECT
    if(is_after, 'after', 'before') AS side, ranks, steps,
    if(min(least_steps) OVER () > 0, 'step', 'capture') AS unit,
    if(unit = 'step', steps, 1) AS units,
    kernels_ns / units / 1e9 AS kernels_seconds,
    if(unit = 'step', windows.duration_ns, whole.span_ns) / units / 1e9 AS span_seconds,
    if(unit = 'step', windows.compute_ns, whole.compute_ns) / units / 1e9 AS compute_seconds,
    if(unit = 'step', windows.exposed_comm_ns, whole.exposed_comm_ns) / units / 1e9 AS exposed_comm_seconds,
    if(unit = 'step', windows.exposed_mem_ns, whole.exposed_mem_ns) / units / 1e9 AS exposed_mem_seconds,
    span_seconds - compute_seconds - exposed_comm_seconds - exposed_mem_seconds AS idle_seconds
FROM
(
    SELECT
        capture_id = {capture_id:String} AS is_after,
        count() AS ranks,
        sum(each.steps) AS steps,
        min(each.steps) AS least_steps,
        sum(each.total_ns) AS kernels_ns,
        sum(each.span_ns) AS span_ns,
        sum(each.compute_ns) AS compute_ns,
        sum(each.exposed_comm_ns) AS exposed_comm_ns,
        sum(each.exposed_mem_ns) AS exposed_mem_ns
    FROM trace_ranks AS each
    WHERE capture_id IN ({capture_id:String}, {base:String})
    GROUP BY is_after
) AS whole
LEFT JOIN
(
    SELECT
        capture_id = {capture_id:String} AS is_after,
        sumIf(toNullable(each.duration_ns), each.during_busy_ns IS NOT NULL) AS duration_ns,
        sum(each.during_compute_ns) AS compute_ns,
        sum(each.during_exposed_comm_ns) AS exposed_comm_ns,
        sum(each.during_exposed_mem_ns) AS exposed_mem_ns
    FROM trace_steps AS each
    WHERE capture_id IN ({capture_id:String}, {base:String})
    GROUP BY is_after
) AS windows ON windows.is_after = whole.is_after
ORDER BY side DESC
