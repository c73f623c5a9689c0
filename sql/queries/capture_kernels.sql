-- Where did the GPUs' time of a capture go, by kernel? Sums over its ranks, how far the ranks differ, and how long after its launch it ran.
-- @capture_id -  the capture
-- @process ''  one process of it (a rank's number); all where it is empty
-- @search ''  part of the kernel's name, or of the operator's that launched it
-- @kind ''  compute, comm, memcpy or memset alone
-- @sort total_seconds  a column to sort by
-- @descending 1  0: the lowest first
-- @limit 20  how many kernels
-- @offset 0  after so many
SELECT
    any(trace_kernels.short_name) AS kernel,
    any(trace_kernels.sort) AS sort,
    sum(trace_kernels.total_ns) / 1e9 AS total_seconds,
    sum(trace_kernels.total_ns) / nullIf(any(whole.ns), 0) AS share,
    sum(trace_kernels.count) AS count,
    sum(trace_kernels.total_ns) / sum(trace_kernels.count) / 1e9 AS mean_seconds,
    min(trace_kernels.min_ns) / 1e9 AS min_seconds,
    max(trace_kernels.max_ns) / 1e9 AS max_seconds,
    sum(trace_kernels.launch_delay_mean_ns * trace_kernels.launched) / nullIf(sum(trace_kernels.launched), 0) / 1e9 AS launch_delay_seconds,
    count() AS ranks,
    argMax(rank, trace_kernels.total_ns / trace_kernels.count) AS slowest_rank,
    max(trace_kernels.total_ns / trace_kernels.count) / nullIf(min(trace_kernels.total_ns / trace_kernels.count), 0) AS slowest_over_fastest,
    argMax(trace_kernels.operator, trace_kernels.total_ns) AS operator,
    sum(trace_kernels.occupancy * trace_kernels.total_ns) / nullIf(sumIf(trace_kernels.total_ns, trace_kernels.occupancy IS NOT NULL), 0) AS occupancy,
    any(trace_kernels.matrix_units) AS matrix_units,
    name
FROM trace_kernels
CROSS JOIN
(
    SELECT sum(total_ns) AS ns
    FROM trace_ranks
    WHERE capture_id = {capture_id:String} AND ({process:String} = '' OR process = {process:String})
) AS whole
WHERE capture_id = {capture_id:String} AND ({process:String} = '' OR process = {process:String})
    AND ({kind:String} = '' OR trace_kernels.sort = {kind:String})
    AND ({search:String} = '' OR positionCaseInsensitive(name, {search:String}) > 0 OR positionCaseInsensitive(trace_kernels.operator, {search:String}) > 0)
GROUP BY name
ORDER BY
    if({descending:UInt8} = 1, NULL, {sort:Identifier}) ASC NULLS LAST,
    if({descending:UInt8} = 1, {sort:Identifier}, NULL) DESC NULLS LAST,
    name
LIMIT {limit:UInt32} OFFSET {offset:UInt32}
SETTINGS exact_rows_before_limit = 1
