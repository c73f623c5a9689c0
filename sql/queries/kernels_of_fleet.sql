-- Which kernels take the fleet's GPU time? Over all captures in the window, with the workloads that run them; a sample of what runs, not all of it.
-- @since -30d  start of the window, by when the captures were recorded
-- @until now  end of the window
-- @kind ''  compute, comm, memcpy or memset alone
-- @limit 20  how many
SELECT
    any(k.short_name) AS kernel,
    any(k.sort) AS sort,
    sum(k.total_ns) / 1e9 AS total_seconds,
    sum(k.total_ns) / nullIf(sum(sum(k.total_ns)) OVER (), 0) AS share,
    sum(k.count) AS count,
    sum(k.total_ns) / sum(k.count) / 1e9 AS mean_seconds,
    uniqExact(k.capture_id) AS captures,
    arraySort(groupUniqArray(toString(k.workload))) AS workloads,
    name
FROM trace_kernels AS k
WHERE k.captured_at >= {since:DateTime('UTC')} AND k.captured_at < {until:DateTime('UTC')} AND ({kind:String} = '' OR k.sort = {kind:String})
GROUP BY name
ORDER BY total_seconds DESC, name
LIMIT {limit:UInt32}
