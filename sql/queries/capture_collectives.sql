-- How fast were the collectives of a capture, and how much of their time was waiting? By process group, kind and size.
-- @capture_id -  the capture
-- @process ''  one process of it (a rank's number); all where it is empty
-- @sort total_seconds  a column to sort by
-- @descending 1  0: the lowest first
-- @limit 30  how many
-- @offset 0  after so many
SELECT
    `group`, kind, dtype, bytes,
    uniqExactIf(meeting, meeting IS NOT NULL) AS collectives,
    max(met) AS ranks,
    sum(trace_collectives.duration_ns) / 1e9 AS total_seconds,
    sum(trace_collectives.wait_ns) / nullIf(sum(trace_collectives.duration_ns), 0) AS wait_share,
    quantileExact(0.5)(trace_collectives.transfer_ns) / 1e9 AS transfer_p50_seconds,
    max(trace_collectives.skew_ns) / 1e9 AS skew_max_seconds,
    quantileExact(0.5)(bus_bytes_per_s) AS bus_bytes_per_s,
    count() AS count,
    max(group_size) AS group_size,
    sum(trace_collectives.wait_ns) / 1e9 AS wait_seconds,
    quantileExact(0.5)(trace_collectives.skew_ns) / 1e9 AS skew_p50_seconds,
    if(late = 0, NULL, topKIf(1)(rank, last)[1]) AS last_rank,
    countIf(last) AS late,
    concat(`group`, '/', kind, '/', dtype, '/', ifNull(toString(bytes), '-')) AS id
FROM trace_collectives
WHERE capture_id = {capture_id:String} AND ({process:String} = '' OR process = {process:String})
GROUP BY `group`, kind, dtype, bytes
ORDER BY
    if({descending:UInt8} = 1, NULL, {sort:Identifier}) ASC NULLS LAST,
    if({descending:UInt8} = 1, {sort:Identifier}, NULL) DESC NULLS LAST,
    `group`, kind, dtype, bytes
LIMIT {limit:UInt32} OFFSET {offset:UInt32}
SETTINGS exact_rows_before_limit = 1
