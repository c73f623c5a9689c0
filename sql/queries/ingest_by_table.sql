-- How much lands, in which tables? Rows, inserts and the rate of each table, and its share of all.
-- @since -24h  landed since then
-- @until now  and before
SELECT
    table,
    sum(b.rows) AS rows,
    rows / nullIf(sum(rows) OVER (), 0) AS share,
    count() AS inserts,
    rows / nullIf(dateDiff('second', {since:DateTime('UTC')}, {until:DateTime('UTC')}), 0) AS rows_per_s,
    max(b.inserted_at) AS last_at
FROM ingest_batches AS b
WHERE b.inserted_at >= {since:DateTime('UTC')} AND b.inserted_at < {until:DateTime('UTC')}
GROUP BY table
ORDER BY rows DESC, table
