-- What did a capture copy and set, and how fast? By direction (or what was set), over its ranks; bytes and speed of those whose size the trace tells.
-- @capture_id -  the capture
-- @process ''  one process of it (a rank's number); all where it is empty
SELECT
    if(startsWith(name, 'Memcpy '), trimRight(splitByChar('(', name)[1]), toString(name)) AS operation,
    any(trace_kernels.sort) AS sort,
    sum(trace_kernels.count) AS count,
    sum(trace_kernels.total_ns) / 1e9 AS total_seconds,
    sum(trace_kernels.total_ns) / sum(trace_kernels.count) / 1e9 AS mean_seconds,
    min(trace_kernels.min_ns) / 1e9 AS min_seconds,
    max(trace_kernels.max_ns) / 1e9 AS max_seconds,
    sum(trace_kernels.bytes) AS bytes,
    sum(trace_kernels.bytes) / nullIf(sum(trace_kernels.sized_ns), 0) * 1e9 AS bytes_per_s,
    arraySort(groupUniqArrayIf(trim(BOTH ')' FROM splitByChar('(', name)[2]), startsWith(name, 'Memcpy ') AND position(name, '(') > 0)) AS paths,
    uniqExact(process) AS ranks
FROM trace_kernels
WHERE capture_id = {capture_id:String} AND ({process:String} = '' OR process = {process:String}) AND trace_kernels.sort IN ('memcpy', 'memset')
GROUP BY operation
ORDER BY total_seconds DESC, operation
