-- Which hosts' clocks are off? Steps of a clock that agents saw, and by how much hosts were ahead of the scheduler (behind, where it is
-- negative) when captures looked at them: the furthest in the period, where that is a tenth of a second or more.
-- @since -  start of the period
-- @until -  its end
-- @least_ms 100  ahead or behind by at least so much
-- @limit 2000  how many rows
SELECT host, max(skew) AS clock_skew_ms, sum(steps) AS steps, nullIf(argMax(said, at), '') AS why, min(at) AS first_at, max(at) AS last_at
FROM
(
    SELECT toString(e.host) AS host, toNullable(argMax(e.clock_skew_ms, abs(e.clock_skew_ms))) AS skew, 0 AS steps, '' AS said, max(e.ts) AS at
    FROM capture_events AS e
    WHERE e.ts >= {since:DateTime('UTC')} AND e.ts < {until:DateTime('UTC')} AND e.by = 'scheduler' AND abs(e.clock_skew_ms) >= {least_ms:UInt32}
    GROUP BY e.host
    UNION ALL
    SELECT toString(s.host), NULL, uniqExact(s.why), argMax(s.why, s.ts), max(s.ts)
    FROM source_health AS s
    WHERE s.ts >= {since:DateTime('UTC')} AND s.ts < {until:DateTime('UTC')} AND s.source = 'clock' AND s.state = 'failed'
    GROUP BY s.host
)
GROUP BY host
ORDER BY abs(ifNull(clock_skew_ms, 0)) DESC, steps DESC, host
LIMIT {limit:UInt32}
