-- Nothing new arrives in the store, or what arrives is old: ingest is behind or ended, the bus is away, or no agent runs. While nothing arrives, what other rules would read is old, so they are not evaluated and their alerts stand as they are.
-- severity: critical
-- for: 0
-- keep: 60
-- asked: first
-- unit: s
-- summary: The newest sample in the store is {value} old (of {newest})
-- do: Look at ingest (`warpmeter status`, `warpmeter doctor`): does it run, is the store slow to take rows, is the bus there? When all agents were stopped, this is right.
-- @lag_s 90  how old the newest sample must be, in seconds
SELECT
    dateDiff('millisecond', newest, {now:DateTime64(3, 'UTC')}) / 1000 AS value,
    value >= {lag_s:Float64} AS starts,
    newest
FROM
(
    SELECT max(h.last_at) AS newest, quantileExact(0.5)(h.period_s) AS period_s, count() AS hosts
    FROM
    (
        SELECT host, max(host_last.last_at) AS last_at, argMaxMerge(latest).period_ms / 1000 AS period_s
        FROM host_last
        GROUP BY host
        HAVING last_at <= {now:DateTime64(3, 'UTC')} + INTERVAL 1 HOUR
    ) AS h
)
WHERE hosts > 0 AND value >= least({lag_s:Float64}, greatest(30, 3 * period_s))
