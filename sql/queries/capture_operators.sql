-- Which operators made the GPUs work, and how near to what the device can do? By name and shapes of a capture, over its ranks.
-- @capture_id -  the capture
-- @process ''  one process of it (a rank's number); all where it is empty
-- @search ''  part of the operator's name
-- @by_shape 1  0: all shapes of an operator together
-- @sort gpu_self_seconds  a column to sort by
-- @descending 1  0: the lowest first
-- @limit 20  how many
-- @offset 0  after so many
SELECT
    name AS operator, dims, types,
    sum(trace_ops.count) AS calls,
    sum(trace_ops.gpu_self_ns) / 1e9 AS gpu_self_seconds,
    sum(trace_ops.cpu_self_ns) / 1e9 AS cpu_self_seconds,
    sum(flops) AS flops,
    avg(flops_per_s) AS flops_per_s,
    avg(roof_share) AS roof_share,
    any(bound) AS bound,
    sum(trace_ops.gpu_total_ns) / 1e9 AS gpu_total_seconds,
    sum(trace_ops.cpu_total_ns) / 1e9 AS cpu_total_seconds,
    sum(trace_ops.gpu_events) AS gpu_events,
    count() AS ranks
FROM trace_ops
WHERE capture_id = {capture_id:String} AND ({process:String} = '' OR process = {process:String}) AND by_shape = {by_shape:Bool}
    AND ({search:String} = '' OR positionCaseInsensitive(name, {search:String}) > 0)
GROUP BY operator, dims, types
ORDER BY
    if({descending:UInt8} = 1, NULL, {sort:Identifier}) ASC NULLS LAST,
    if({descending:UInt8} = 1, {sort:Identifier}, NULL) DESC NULLS LAST,
    cpu_self_seconds DESC, operator, dims, types
LIMIT {limit:UInt32} OFFSET {offset:UInt32}
SETTINGS exact_rows_before_limit = 1
