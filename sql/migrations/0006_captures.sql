-- Captures: who asked for what (capture_requests), what each host was told (capture_commands), and what came of it
-- (capture_events). The view `captures` says how each stands (sql/views/60_captures.sql).

{% set dedup = "non_replicated_deduplication_window = 100000, replicated_deduplication_window = 100000, "
             ~ "replicated_deduplication_window_seconds = 604800" %}

{% macro checks(times) %}
{% for time in ["ts"] + times %}
    CONSTRAINT {{ time }}_2020_to_2100 CHECK ifNull({{ time }} >= toDateTime64('2020-01-01 00:00:00', 3, 'UTC') AND {{ time }} < toDateTime64('2100-01-01 00:00:00', 3, 'UTC'), 1),
{% endfor %}
    CONSTRAINT capture_given CHECK capture_id != ''
{%- endmacro %}

{# What each process traces, as requests and commands say it. #}
{% macro tracing() %}
    `duration_ms` UInt32 COMMENT 'how long each process traces; 0: iterations' CODEC(ZSTD(1)),
    `iterations` UInt32 COMMENT 'steps of the optimizer; 0: a duration' CODEC(ZSTD(1)),
    `iteration_roundup` UInt32 COMMENT 'begin at a multiple of it' CODEC(ZSTD(1)),
    `warmup_s` UInt32 CODEC(ZSTD(1)),
    `warmup_iterations` UInt32 CODEC(ZSTD(1)),
    `shapes` Bool COMMENT 'of the inputs of operators' CODEC(ZSTD(1)),
    `memory` Bool COMMENT 'allocations' CODEC(ZSTD(1)),
    `stacks` Bool COMMENT 'Python calls' CODEC(ZSTD(1)),
    `flops` Bool CODEC(ZSTD(1)),
    `modules` Bool COMMENT 'nn.Module calls' CODEC(ZSTD(1)),
    `activities` Array(LowCardinality(String)) COMMENT 'kinds of events of Kineto; empty: its default' CODEC(ZSTD(1)),
{%- endmacro %}

CREATE TABLE IF NOT EXISTS {{ local("capture_requests") }} {{ on_cluster }}
(
    `capture_id` String CODEC(ZSTD(1)),
    `ts` DateTime64(3, 'UTC') COMMENT 'when it was asked for' CODEC(Delta, ZSTD(1)),
    `action` LowCardinality(String) COMMENT 'start, cancel, detach' CODEC(ZSTD(1)),
    `requested_by` String COMMENT 'user@host, an API user, schedule:<name>, rule:<name>' CODEC(ZSTD(1)),
    `name` String COMMENT 'what it is called' CODEC(ZSTD(1)),
    `job_id` String CODEC(ZSTD(1)),
    `hosts` Array(LowCardinality(String)) CODEC(ZSTD(1)),
    `pids` Array(UInt32) CODEC(ZSTD(1)),
    `where` String COMMENT 'condition on the view jobs' CODEC(ZSTD(1)),
    `process_limit` UInt32 COMMENT '0: none' CODEC(ZSTD(1)),
{{ tracing() }}
    `mode` LowCardinality(String) COMMENT 'trace, continuous' CODEC(ZSTD(1)),
    `count` UInt32 COMMENT 'of mode trace: how often' CODEC(ZSTD(1)),
    `interval_s` UInt32 CODEC(ZSTD(1)),
    `max_count` UInt32 COMMENT 'ceilings of a continuous one; 0: none' CODEC(ZSTD(1)),
    `max_bytes` UInt64 CODEC(ZSTD(1)),
    `max_seconds` UInt32 CODEC(ZSTD(1)),
    `max_slowdown_permille` UInt32 COMMENT 'steps a second lost by capturing' CODEC(ZSTD(1)),
{{ checks([]) }},
    CONSTRAINT known_action CHECK action IN ('start', 'cancel', 'detach')
)
ENGINE = {{ engine("MergeTree") }}
PARTITION BY toYYYYMM(ts)
ORDER BY (capture_id, ts)
TTL toDateTime(ts) + INTERVAL {{ hour_ttl_days }} DAY
SETTINGS ttl_only_drop_parts = 1, {{ dedup }};

CREATE TABLE IF NOT EXISTS {{ local("capture_commands") }} {{ on_cluster }}
(
    `host` LowCardinality(String) CODEC(ZSTD(1)),
    `ts` DateTime64(3, 'UTC') COMMENT 'when it was sent' CODEC(Delta, ZSTD(1)),
    `capture_id` String CODEC(ZSTD(1)),
    `sequence` UInt32 COMMENT 'which one of a repeated capture, from 1' CODEC(ZSTD(1)),
    `action` LowCardinality(String) COMMENT 'look, start, cancel' CODEC(ZSTD(1)),
    `expires_at` DateTime64(3, 'UTC') COMMENT 'an agent that reads it later does nothing' CODEC(ZSTD(1)),
    `deadline_at` DateTime64(3, 'UTC') COMMENT 'by then every process has its final state' CODEC(ZSTD(1)),
    `job_id` String CODEC(ZSTD(1)),
    `pids` Array(UInt32) CODEC(ZSTD(1)),
    `process_limit` UInt32 COMMENT '0: none' CODEC(ZSTD(1)),
    `start_at` Nullable(DateTime64(3, 'UTC')) COMMENT 'NULL with iterations' CODEC(ZSTD(1)),
{{ tracing() }}
    `max_file_bytes` UInt64 COMMENT 'a larger trace is refused; 0: the limit of the agent' CODEC(ZSTD(1)),
{{ checks(["expires_at", "deadline_at", "start_at"]) }},
    CONSTRAINT host_given CHECK host != '',
    CONSTRAINT known_action CHECK action IN ('look', 'start', 'cancel')
)
ENGINE = {{ engine("MergeTree") }}
PARTITION BY toYYYYMM(ts)
ORDER BY (capture_id, host, sequence, ts)
TTL toDateTime(ts) + INTERVAL {{ minute_ttl_days }} DAY
SETTINGS ttl_only_drop_parts = 1, {{ dedup }};

CREATE TABLE IF NOT EXISTS {{ local("capture_events") }} {{ on_cluster }}
(
    `capture_id` String CODEC(ZSTD(1)),
    `ts` DateTime64(3, 'UTC') COMMENT 'by the clock of who says it' CODEC(Delta, ZSTD(1)),
    `sequence` UInt32 COMMENT 'which one of a repeated capture, from 1; 0: the capture as a whole' CODEC(ZSTD(1)),
    `state` LowCardinality(String) COMMENT 'requested, seen, accepted, started, captured, analysed, failed, cancelled, ended' CODEC(ZSTD(1)),
    `reason` LowCardinality(String) COMMENT 'of failed and cancelled: a word (docs/profiling.md)' CODEC(ZSTD(1)),
    `why` String COMMENT 'what happened and what to do' CODEC(ZSTD(1)),
    `by` LowCardinality(String) COMMENT 'scheduler, agent, analysis' CODEC(ZSTD(1)),
    `host` LowCardinality(String) COMMENT 'empty: of the capture as a whole' CODEC(ZSTD(1)),
    `pid` Nullable(UInt32) COMMENT 'on its host; NULL: of the whole host' CODEC(ZSTD(1)),
    `rank` Nullable(UInt32) CODEC(ZSTD(1)),
    `job_id` String CODEC(ZSTD(1)),
    `start_at` Nullable(DateTime64(3, 'UTC')) COMMENT 'when the trace is to start' CODEC(ZSTD(1)),
    `traced_from` Nullable(DateTime64(3, 'UTC')) COMMENT 'what the trace covers, by the clock of the host' CODEC(ZSTD(1)),
    `traced_until` Nullable(DateTime64(3, 'UTC')) CODEC(ZSTD(1)),
    `url` String COMMENT 'of the trace in the trace store' CODEC(ZSTD(1)),
    `bytes` Nullable(UInt64) COMMENT 'there' CODEC(ZSTD(1)),
    `raw_bytes` Nullable(UInt64) COMMENT 'as Kineto wrote it' CODEC(ZSTD(1)),
    `sha256` String COMMENT 'of what is in the store' CODEC(ZSTD(1)),
    `clock_skew_ms` Nullable(Int32) COMMENT 'of the host against the scheduler' CODEC(ZSTD(1)),
    `slowdown_permille` Nullable(UInt32) COMMENT 'steps a second lost while capturing' CODEC(ZSTD(1)),
{{ checks(["start_at", "traced_from", "traced_until"]) }},
    CONSTRAINT state_given CHECK state != ''
)
ENGINE = {{ engine("MergeTree") }}
PARTITION BY toYYYYMM(ts)
ORDER BY (capture_id, sequence, host, ts)
TTL toDateTime(ts) + INTERVAL {{ hour_ttl_days }} DAY
SETTINGS ttl_only_drop_parts = 1, {{ dedup }};

{% for table in ["capture_requests", "capture_commands", "capture_events"] %}
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
{% for table, key in [
  ("capture_requests", "cityHash64(capture_id)"), ("capture_commands", "cityHash64(capture_id)"),
  ("capture_events", "cityHash64(capture_id)"),
] %}
CREATE TABLE IF NOT EXISTS {{ name(table) }} {{ on_cluster }} AS {{ local(table) }}
{{ distributed(table, key) }};
{% endfor %}
{% endif %}
