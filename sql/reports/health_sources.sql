-- Which sources fail? What agents could not read in the period (failed, timeout, denied), by source, state and reason: on how
-- many hosts, of how many subjects, for how long in all, and from when until when. From the raw rows, which are kept for 14
-- days.
-- @since -  start of the period
-- @until -  its end
-- @limit 200  how many rows
SELECT
    toString(s.source) AS source, toString(s.state) AS state,
    argMax(s.why, s.ts) AS why,
    uniqExact(s.host) AS hosts,
    uniqExact(s.host, s.subject) AS subjects,
    count() AS reports,
    min(s.ts) AS first_at,
    max(s.ts) AS last_at,
    arraySlice(arraySort(groupUniqArray(100)(toString(s.host))), 1, 100) AS on_hosts
FROM source_health AS s
WHERE s.ts >= {since:DateTime('UTC')} AND s.ts < {until:DateTime('UTC')} AND s.state IN ('failed', 'timeout', 'denied') AND s.source != 'clock'
GROUP BY s.source, s.state, if(s.why = '', '', replaceRegexpAll(s.why, '[0-9]+', '#'))
ORDER BY hosts DESC, reports DESC, source, state, why
LIMIT {limit:UInt32}
