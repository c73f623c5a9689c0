-- Which operators made the GPUs work, and how near to what the device can do? By name and shapes of a capture, over its ranks.
-- @capture_id -  the capture
-- @limit 20  how many
SELECT
    name AS operator, dims, types,
    sum(trace_ops.count) AS calls,
    sum(trace_ops.gpu_self_ns) / 1e9 AS gpu_self_seconds,
    sum(trace_ops.cpu_self_ns) / 1e9 AS cpu_self_seconds,
    sum(flops) AS flops,
    avg(flops_per_s) AS flops_per_s,
    avg(roof_share) AS roof_share,
    any(bound) AS bound
FROM trace_ops
WHERE capture_id = {capture_id:String} AND by_shape
GROUP BY operator, dims, types
ORDER BY gpu_self_seconds DESC, operator, dims, types
LIMIT {limit:UInt32}
