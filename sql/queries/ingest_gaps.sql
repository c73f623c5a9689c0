-- Is anything missing or doubled? Offsets of a partition between its first and last span that no span holds, and those
-- that two spans hold. A gap at offsets that the broker's retention took is a loss that ingest has counted itself.
-- @since -24h  spans that landed since then
SELECT
    table, topic_uuid, partition,
    count() AS spans,
    sum(rows) AS rows,
    min(first) AS first,
    max(last) AS last,
    sum(if(number > 1 AND span.first > seen + 1, span.first - seen - 1, 0)) AS missing,
    sum(if(number > 1 AND span.first <= seen, least(span.last, seen) - span.first + 1, 0)) AS doubled
FROM
(
    SELECT
        table, topic_uuid, partition, first, last, rows,
        row_number() OVER w AS number,
        max(last) OVER (
            PARTITION BY table, topic_uuid, partition ORDER BY first, last ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS seen
    FROM ingest_batches
    WHERE inserted_at >= {since:DateTime('UTC')} AND topic_uuid != ''
    WINDOW w AS (PARTITION BY table, topic_uuid, partition ORDER BY first, last)
) AS span
GROUP BY table, topic_uuid, partition
ORDER BY table, topic_uuid, partition
