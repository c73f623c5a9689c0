-- Where did the GPUs' time of a capture go, by kernel? Sums over its ranks, and how far the ranks differ.
-- @capture_id -  the capture
-- @limit 20  how many kernels
SELECT
    any(trace_kernels.short_name) AS kernel,
    any(trace_kernels.sort) AS sort,
    sum(trace_kernels.total_ns) / 1e9 AS total_seconds,
    sum(trace_kernels.total_ns) / any(whole.ns) AS share,
    sum(trace_kernels.count) AS count,
    sum(trace_kernels.total_ns) / sum(trace_kernels.count) / 1e9 AS mean_seconds,
    max(trace_kernels.max_ns) / 1e9 AS max_seconds,
    count() AS ranks,
    argMax(rank, trace_kernels.total_ns / trace_kernels.count) AS slowest_rank,
    topK(1)(operator)[1] AS operator
FROM trace_kernels
CROSS JOIN (SELECT sum(total_ns) AS ns FROM trace_kernels WHERE capture_id = {capture_id:String}) AS whole
WHERE capture_id = {capture_id:String}
GROUP BY name
ORDER BY total_seconds DESC, name
LIMIT {limit:UInt32}
