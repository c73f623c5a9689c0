-- How far behind is what I see? For each table the newest sample, its age, how long rows took to land, and the rate.
-- @since -1h  start of the window
SELECT
    table,
    max(max_ts) AS newest,
    dateDiff('millisecond', newest, now64(3)) / 1000 AS age_s,
    quantileExact(0.95)(dateDiff('millisecond', max_ts, inserted_at) / 1000) AS landed_after_s_p95,
    sum(b.rows) AS rows,
    count() AS spans,
    sum(b.rows) / count() AS rows_per_span
FROM ingest_batches AS b
WHERE inserted_at >= {since:DateTime('UTC')}
GROUP BY table
ORDER BY table
