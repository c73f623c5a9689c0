-- Which captures failed, and why? Captures that ended with a reason, and processes that gave no trace or whose trace could
-- not be analysed, by reason.
-- @since -  start of the period
-- @until -  its end
-- @limit 100  how many rows
WITH asked AS
(
    SELECT capture_id, reason, why, job_id FROM captures
    WHERE requested_at >= {since:DateTime('UTC')} AND requested_at < {until:DateTime('UTC')}
)
SELECT
    of, reason, any(said) AS why, uniqExact(capture_id) AS captures, count() AS times,
    arraySlice(arraySort(groupUniqArrayIf(toString(host), host != '')), 1, 100) AS hosts,
    min(capture_id) AS example
FROM
(
    SELECT 'capture' AS of, toString(reason) AS reason, why AS said, capture_id, '' AS host FROM asked WHERE reason != ''
    UNION ALL
    SELECT 'process', toString(r.reason), r.why, r.capture_id, toString(r.host)
    FROM capture_ranks AS r
    WHERE r.reason != '' AND r.capture_id GLOBAL IN (SELECT capture_id FROM asked)
)
GROUP BY of, reason
ORDER BY times DESC, of, reason
LIMIT {limit:UInt32}
