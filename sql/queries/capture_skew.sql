-- To which collectives of a capture did one rank come latest? Who it was, by how much, and what it did longer than the others since they last met.
-- @capture_id -  the capture
-- @sort skew_seconds  a column to sort by
-- @descending 1  0: the lowest first
-- @limit 20  how many
-- @offset 0  after so many
SELECT
    meeting, `group`, kind, bytes, met AS ranks, rank AS last_rank, host AS last_host,
    trace_collectives.start_ns AS start_ns,
    trace_collectives.skew_ns / 1e9 AS skew_seconds,
    trace_collectives.late_ns / 1e9 AS late_seconds,
    trace_collectives.cost_ns / 1e9 AS cost_seconds,
    if(arrayMax(mapValues(late_by)) > 0, arraySort((name, ns) -> -ns, mapKeys(late_by), mapValues(late_by))[1], '') AS cause
FROM trace_collectives
WHERE capture_id = {capture_id:String} AND last AND trace_collectives.skew_ns IS NOT NULL
ORDER BY
    if({descending:UInt8} = 1, NULL, {sort:Identifier}) ASC NULLS LAST,
    if({descending:UInt8} = 1, {sort:Identifier}, NULL) DESC NULLS LAST,
    meeting, rank
LIMIT {limit:UInt32} OFFSET {offset:UInt32}
SETTINGS exact_rows_before_limit = 1
