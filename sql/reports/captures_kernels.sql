-- Which kernels took most GPU time? Over the captures of the period, or of one job; share: of the GPU time of all kernels
-- in them.
-- @since -  start of the period
-- @until -  its end
-- @job_id ''  of this job alone
-- @limit 30  how many rows
SELECT
    any(k.short_name) AS kernel,
    k.sort AS sort,
    uniqExact(k.capture_id) AS captures,
    uniqExactIf(k.job_id, k.job_id != '') AS jobs,
    sum(k.count) AS launches,
    sum(k.total_ns) AS total_ns,
    round(sum(k.total_ns) / sum(sum(k.total_ns)) OVER (), 6) AS share,
    round(sum(k.total_ns) / sum(k.count), 0) AS mean_ns,
    k.name AS name
FROM trace_kernels AS k
WHERE k.captured_at >= {since:DateTime('UTC')} AND k.captured_at < {until:DateTime('UTC')} AND k.count > 0
    AND ({job_id:String} = '' OR k.job_id = {job_id:String})
GROUP BY k.name, k.sort
ORDER BY total_ns DESC, name
LIMIT {limit:UInt32}
