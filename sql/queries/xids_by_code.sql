-- Which XIDs does the fleet have? By NVIDIA's number: how often, on how many GPUs and hosts, and how many of them stand.
-- @since -30d  reported since then
-- @until now  and before
SELECT
    code,
    argMax(x.what, x.last_raised_at) AS what,
    sum(x.count) AS reports,
    count() AS times,
    uniqExact(host, uuid) AS gpus,
    uniqExact(host) AS hosts,
    countIf(isNull(cleared_at)) AS standing,
    max(x.last_raised_at) AS last_at
FROM gpu_xids AS x
WHERE raised_at >= {since:DateTime('UTC')} AND raised_at < {until:DateTime('UTC')}
GROUP BY code
ORDER BY standing DESC, gpus DESC, code
