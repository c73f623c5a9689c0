-- Why do captures fail? By reason: how many processes of how many captures, on which hosts, and the latest in words.
-- @since -30d  failed since then
-- @until now  and before
SELECT
    reason,
    count() AS processes,
    uniqExact(capture_id) AS captures,
    arraySort(groupUniqArray(20)(toString(host))) AS hosts,
    argMax(c.why, c.last_at) AS why,
    max(c.last_at) AS last_at
FROM capture_ranks AS c
WHERE state IN ('failed', 'cancelled') AND c.last_at >= {since:DateTime('UTC')} AND c.last_at < {until:DateTime('UTC')}
GROUP BY reason
ORDER BY processes DESC, reason
