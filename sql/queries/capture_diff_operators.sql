-- Which operators of two captures took longer on the GPU or on the host in the later one? Per step and rank where both have steps.
-- @capture_id -  the later capture
-- @base -  the earlier one
-- @search ''  part of the operator's name
-- @sort changed_gpu_seconds  a column to sort by
-- @descending 1  0: the lowest first
-- @limit 50  how many, the largest change on the GPU first
-- @offset 0  after so many
SELECT
    name AS operator,
    sumIf(trace_ops.count, capture_id = {base:String}) AS before_calls,
    sumIf(trace_ops.count, capture_id = {capture_id:String}) AS after_calls,
    sumIf(trace_ops.gpu_self_ns, capture_id = {base:String}) / any(units.before) / 1e9 AS before_gpu_seconds,
    sumIf(trace_ops.gpu_self_ns, capture_id = {capture_id:String}) / any(units.after) / 1e9 AS after_gpu_seconds,
    after_gpu_seconds - before_gpu_seconds AS change_gpu_seconds,
    abs(change_gpu_seconds) AS changed_gpu_seconds,
    sumIf(trace_ops.cpu_self_ns, capture_id = {base:String}) / any(units.before) / 1e9 AS before_cpu_seconds,
    sumIf(trace_ops.cpu_self_ns, capture_id = {capture_id:String}) / any(units.after) / 1e9 AS after_cpu_seconds,
    after_cpu_seconds - before_cpu_seconds AS change_cpu_seconds
FROM trace_ops
CROSS JOIN
(
    SELECT
        min(trace_ranks.steps) > 0 AS by_step,
        if(by_step, sumIf(trace_ranks.steps, capture_id = {base:String}), 1) AS before,
        if(by_step, sumIf(trace_ranks.steps, capture_id = {capture_id:String}), 1) AS after
    FROM trace_ranks
    WHERE capture_id IN ({capture_id:String}, {base:String})
) AS units
WHERE capture_id IN ({capture_id:String}, {base:String}) AND NOT by_shape
    AND ({search:String} = '' OR positionCaseInsensitive(name, {search:String}) > 0)
GROUP BY operator
ORDER BY
    if({descending:UInt8} = 1, NULL, {sort:Identifier}) ASC NULLS LAST,
    if({descending:UInt8} = 1, {sort:Identifier}, NULL) DESC NULLS LAST,
    operator
LIMIT {limit:UInt32} OFFSET {offset:UInt32}
SETTINGS exact_rows_before_limit = 1
