-- Which captures are analysed and loaded? One row a capture, a page of them: whose job, of what, how many ranks.
-- @search ''  part of the capture's name, job, workload or host
-- @sort captured_at  a column to sort by
-- @descending 1  0: the lowest first
-- @limit 100  how many
-- @offset 0  after so many
SELECT
    capture_id,
    any(each.job_id) AS job_id,
    any(each.workload) AS workload,
    min(each.captured_at) AS captured_at,
    max(each.loaded_at) AS loaded_at,
    count() AS ranks,
    max(each.world_size) AS world_size,
    arraySort(groupUniqArrayIf(toString(each.host), each.host != '')) AS hosts,
    arraySort(groupUniqArrayIf(toString(each.gpu_model), each.gpu_model != '')) AS gpu_models,
    sum(each.busy_ns) / nullIf(sum(each.span_ns), 0) AS busy_share,
    sum(each.exposed_comm_ns) / nullIf(sum(each.span_ns), 0) AS exposed_comm_share,
    quantileExact(0.5)(each.step_p50_ns) / 1e9 AS step_seconds,
    arrayStringConcat(hosts, ' ') AS every_host
FROM trace_ranks AS each
GROUP BY capture_id
HAVING {search:String} = '' OR positionCaseInsensitiveUTF8(concat(capture_id, ' ', job_id, ' ', workload, ' ', every_host), {search:String}) > 0
ORDER BY
    if({descending:UInt8} = 1, NULL, {sort:Identifier}) ASC NULLS LAST,
    if({descending:UInt8} = 1, {sort:Identifier}, NULL) DESC NULLS LAST,
    capture_id
LIMIT {limit:UInt32} OFFSET {offset:UInt32}
SETTINGS exact_rows_before_limit = 1
