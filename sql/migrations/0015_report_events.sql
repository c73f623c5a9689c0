-- Reports: what became of each, rendered once a period and delivered to each target. The view `reports` says how each
-- stands (sql/views/80_reports.sql).

{% set dedup = "non_replicated_deduplication_window = 100000, replicated_deduplication_window = 100000, "
             ~ "replicated_deduplication_window_seconds = 604800" %}

{% macro checks(times, given) %}
{% for time in times %}
    CONSTRAINT {{ time }}_2020_to_2100 CHECK ifNull({{ time }} >= toDateTime64('2020-01-01 00:00:00', 3, 'UTC') AND {{ time }} < toDateTime64('2100-01-01 00:00:00', 3, 'UTC'), 1),
{% endfor %}
    CONSTRAINT {{ given }}_given CHECK {{ given }} != ''
{%- endmacro %}

CREATE TABLE IF NOT EXISTS {{ local("report_events") }} {{ on_cluster }}
(
    `report_id` String COMMENT 'schedule, period and subject' CODEC(ZSTD(1)),
    `ts` DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    `schedule` LowCardinality(String) COMMENT 'who wanted it; empty: somebody by hand' CODEC(ZSTD(1)),
    `report` LowCardinality(String) COMMENT 'fleet-weekly, job, host-health, captures' CODEC(ZSTD(1)),
    `subject` String COMMENT 'the job, or empty' CODEC(ZSTD(1)),
    `period_start` DateTime64(3, 'UTC') CODEC(ZSTD(1)),
    `period_end` DateTime64(3, 'UTC') CODEC(ZSTD(1)),
    `state` LowCardinality(String) COMMENT 'rendered, late (rows are awaited), queued, delivered, failed (tried again), gave_up, skipped' CODEC(ZSTD(1)),
    `target` LowCardinality(String) COMMENT 'empty: of the report as a whole' CODEC(ZSTD(1)),
    `attempt` UInt32 COMMENT 'of the delivery, from 1' CODEC(ZSTD(1)),
    `why` String COMMENT 'what went wrong and what to do' CODEC(ZSTD(1)),
    `bytes` Nullable(UInt64) COMMENT 'what was rendered or delivered' CODEC(ZSTD(1)),
    `url` String COMMENT 'where it lies' CODEC(ZSTD(1)),
    `title` String CODEC(ZSTD(1)),
{{ checks(["ts", "period_start", "period_end"], "report_id") }},
    CONSTRAINT known_state CHECK state IN ('rendered', 'late', 'queued', 'delivered', 'failed', 'gave_up', 'skipped')
)
ENGINE = {{ engine("MergeTree") }}
PARTITION BY toYYYYMM(ts)
ORDER BY (report_id, target, ts)
TTL toDateTime(ts) + INTERVAL {{ hour_ttl_days }} DAY
SETTINGS ttl_only_drop_parts = 1, {{ dedup }};

{% for table in ["report_events"] %}
CREATE MATERIALIZED VIEW IF NOT EXISTS {{ name("ingest_batches_" ~ table ~ "_mv") }} {{ on_cluster }}
TO {{ local("ingest_batches") }} AS
WITH
    getSetting('insert_deduplication_token') AS insert_token,
    extractGroups(insert_token, '^(.+)/(\\d+)/(\\d+)-(\\d+)$') AS span
SELECT
    '{{ table }}' AS table,
    span[1] AS topic_uuid,
    toUInt32OrZero(span[2]) AS partition,
    toUInt64OrZero(span[3]) AS first,
    toUInt64OrZero(span[4]) AS last,
    count() AS rows,
    min(src.ts) AS min_ts,
    max(src.ts) AS max_ts,
    now64(3, 'UTC') AS inserted_at,
    insert_token AS token
FROM {{ local(table) }} AS src;
{% endfor %}

{% if cluster %}
{% for table, key in [("report_events", "cityHash64(report_id)")] %}
CREATE TABLE IF NOT EXISTS {{ name(table) }} {{ on_cluster }} AS {{ local(table) }}
{{ distributed(table, key) }};
{% endfor %}
{% endif %}
