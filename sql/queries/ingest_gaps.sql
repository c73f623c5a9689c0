-- Is anything missing or doubled? Offsets of a partition between its first and last span that no span holds, and those
-- that two spans hold, with where they are (the first thousand). A hole may be known: messages that were all refused are
-- in the dead letters, offsets that retention took are in source_health. `warpmeter check` looks there, and at the topics.
-- @since -24h  spans that landed since then
SELECT
    table, topic_uuid, partition,
    count() AS spans,
    sum(rows) AS rows,
    min(first) AS first,
    max(last) AS last,
    sum(if(number > 1 AND span.first > seen + 1, span.first - seen - 1, 0)) AS missing,
    sum(if(number > 1 AND span.first <= seen, least(span.last, seen) - span.first + 1, 0)) AS doubled,
    groupArrayIf(1000)((seen + 1, span.first - 1), number > 1 AND span.first > seen + 1) AS holes,
    groupArrayIf(1000)((span.first, least(span.last, seen)), number > 1 AND span.first <= seen) AS overlaps
FROM
(
    SELECT
        table, topic_uuid, partition, first, last, rows,
        row_number() OVER w AS number,
        max(last) OVER (
            PARTITION BY table, topic_uuid, partition ORDER BY first, last ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS seen
    FROM ingest_batches
    -- Rows of an insert by hand, or that were stored again under a token of their own, are no span of a topic.
    WHERE inserted_at >= {since:DateTime('UTC')} AND match(topic_uuid, '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')
    WINDOW w AS (PARTITION BY table, topic_uuid, partition ORDER BY first, last)
) AS span
GROUP BY table, topic_uuid, partition
ORDER BY table, topic_uuid, partition
