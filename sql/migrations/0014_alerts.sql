-- Alerts: what each reached and when (alerts), and what people say of them (alert_words). The views `alerts_now` and
-- `silences` say how each stands (sql/views/75_alerts.sql).

{% set dedup = "non_replicated_deduplication_window = 100000, replicated_deduplication_window = 100000, "
             ~ "replicated_deduplication_window_seconds = 604800" %}

{% macro checks(times, given) %}
{% for time in times %}
    CONSTRAINT {{ time }}_2020_to_2100 CHECK ifNull({{ time }} >= toDateTime64('2020-01-01 00:00:00', 3, 'UTC') AND {{ time }} < toDateTime64('2100-01-01 00:00:00', 3, 'UTC'), 1),
{% endfor %}
    CONSTRAINT {{ given }}_given CHECK {{ given }} != ''
{%- endmacro %}

CREATE TABLE IF NOT EXISTS {{ local("alerts") }} {{ on_cluster }}
(
    `alert_id` String COMMENT 'rule, fingerprint and begin of the episode' CODEC(ZSTD(1)),
    `ts` DateTime64(3, 'UTC') COMMENT 'when it was evaluated' CODEC(Delta, ZSTD(1)),
    `rule` LowCardinality(String) CODEC(ZSTD(1)),
    `severity` LowCardinality(String) COMMENT 'info, warning, critical' CODEC(ZSTD(1)),
    `state` LowCardinality(String) COMMENT 'pending, firing, resolved; dropped: pending, and never fired' CODEC(ZSTD(1)),
    `fingerprint` String COMMENT 'of rule and labels: the same in each episode' CODEC(ZSTD(1)),
    `labels` Map(LowCardinality(String), String) COMMENT 'what it is about: host, gpu, uuid, job_id, …, and those of the rule' CODEC(ZSTD(1)),
    `summary` String COMMENT 'what is the matter' CODEC(ZSTD(1)),
    `description` String COMMENT 'what to do' CODEC(ZSTD(1)),
    `value` Nullable(Float64) COMMENT 'what the rule measured, in `unit`' CODEC(ZSTD(1)),
    `unit` LowCardinality(String) CODEC(ZSTD(1)),
    `started_at` DateTime64(3, 'UTC') COMMENT 'the condition was first seen' CODEC(ZSTD(1)),
    `fired_at` Nullable(DateTime64(3, 'UTC')) CODEC(ZSTD(1)),
    `resolved_at` Nullable(DateTime64(3, 'UTC')) CODEC(ZSTD(1)),
    `flapping` Bool COMMENT 'it came and went so often that it is held' CODEC(ZSTD(1)),
    `silenced_by` String COMMENT 'the silence that keeps receivers from hearing of it' CODEC(ZSTD(1)),
    `acknowledged_by` String COMMENT 'who takes care of it' CODEC(ZSTD(1)),
    `capture_id` String COMMENT 'what a trigger asked for' CODEC(ZSTD(1)),
    `findings` Array(String) COMMENT 'what the analysis of that capture found' CODEC(ZSTD(1)),
{{ checks(["ts", "started_at", "fired_at", "resolved_at"], "alert_id") }},
    CONSTRAINT known_state CHECK state IN ('pending', 'firing', 'resolved', 'dropped')
)
ENGINE = {{ engine("MergeTree") }}
PARTITION BY toYYYYMM(ts)
ORDER BY (alert_id, ts)
TTL toDateTime(ts) + INTERVAL {{ hour_ttl_days }} DAY
SETTINGS ttl_only_drop_parts = 1, {{ dedup }};

CREATE TABLE IF NOT EXISTS {{ local("alert_words") }} {{ on_cluster }}
(
    `subject` String COMMENT 'the id of the silence, or of the alert' CODEC(ZSTD(1)),
    `ts` DateTime64(3, 'UTC') COMMENT 'when it was said' CODEC(Delta, ZSTD(1)),
    `action` LowCardinality(String) COMMENT 'silence, unsilence, acknowledge, unacknowledge' CODEC(ZSTD(1)),
    `said_by` String COMMENT 'user@host, or an API user' CODEC(ZSTD(1)),
    `matchers` Map(LowCardinality(String), String) COMMENT 'of a silence: rule, severity or a label, and its value; ~ before an expression' CODEC(ZSTD(1)),
    `starts_at` Nullable(DateTime64(3, 'UTC')) COMMENT 'of a silence' CODEC(ZSTD(1)),
    `ends_at` Nullable(DateTime64(3, 'UTC')) COMMENT 'of a silence' CODEC(ZSTD(1)),
    `comment` String CODEC(ZSTD(1)),
{{ checks(["ts", "starts_at", "ends_at"], "subject") }},
    CONSTRAINT known_action CHECK action IN ('silence', 'unsilence', 'acknowledge', 'unacknowledge')
)
ENGINE = {{ engine("MergeTree") }}
PARTITION BY toYYYYMM(ts)
ORDER BY (subject, ts)
TTL toDateTime(ts) + INTERVAL {{ hour_ttl_days }} DAY
SETTINGS ttl_only_drop_parts = 1, {{ dedup }};

{% for table in ["alerts", "alert_words"] %}
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
{% for table, key in [("alerts", "cityHash64(alert_id)"), ("alert_words", "cityHash64(subject)")] %}
CREATE TABLE IF NOT EXISTS {{ name(table) }} {{ on_cluster }} AS {{ local(table) }}
{{ distributed(table, key) }};
{% endfor %}
{% endif %}
