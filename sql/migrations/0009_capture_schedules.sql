-- Schedules of captures: what was set and removed, and by whom. The view `schedules` has those that hold.

CREATE TABLE IF NOT EXISTS {{ local("capture_schedules") }} {{ on_cluster }}
(
    `name` String CODEC(ZSTD(1)),
    `ts` DateTime64(3, 'UTC') COMMENT 'when it was set' CODEC(Delta, ZSTD(1)),
    `action` LowCardinality(String) COMMENT 'set, remove' CODEC(ZSTD(1)),
    `set_by` String COMMENT 'an API user; scheduler: it stands in its settings' CODEC(ZSTD(1)),
    `cron` String COMMENT 'minute, hour, day, month, weekday' CODEC(ZSTD(1)),
    `every_s` Float64 CODEC(ZSTD(1)),
    `at` String COMMENT 'once, ISO 8601' CODEC(ZSTD(1)),
    `timezone` String COMMENT 'of cron' CODEC(ZSTD(1)),
    `jitter_s` Float64 COMMENT 'each run is later by up to so much' CODEC(ZSTD(1)),
    `late_s` Float64 COMMENT 'a missed run is made up for within it' CODEC(ZSTD(1)),
    `job_id` String CODEC(ZSTD(1)),
    `hosts` Array(LowCardinality(String)) CODEC(ZSTD(1)),
    `where` String COMMENT 'condition on the view jobs' CODEC(ZSTD(1)),
    `process_limit` UInt32 COMMENT '0: none' CODEC(ZSTD(1)),
    `duration_ms` UInt32 COMMENT 'how long each process traces; 0: iterations' CODEC(ZSTD(1)),
    `iterations` UInt32 COMMENT 'steps of the optimizer; 0: a duration' CODEC(ZSTD(1)),
    `count` UInt32 COMMENT 'traces of a run' CODEC(ZSTD(1)),
    `shapes` Bool COMMENT 'of the inputs of operators' CODEC(ZSTD(1)),
    `memory` Bool COMMENT 'allocations' CODEC(ZSTD(1)),
    `stacks` Bool COMMENT 'Python calls' CODEC(ZSTD(1)),
    `flops` Bool CODEC(ZSTD(1)),
    `modules` Bool COMMENT 'nn.Module calls' CODEC(ZSTD(1)),
    CONSTRAINT ts_2020_to_2100 CHECK ifNull(ts >= toDateTime64('2020-01-01 00:00:00', 3, 'UTC') AND ts < toDateTime64('2100-01-01 00:00:00', 3, 'UTC'), 1),
    CONSTRAINT name_given CHECK name != '',
    CONSTRAINT known_action CHECK action IN ('set', 'remove')
)
ENGINE = {{ engine("MergeTree") }}
PARTITION BY toYYYYMM(ts)
ORDER BY (name, ts)
TTL toDateTime(ts) + INTERVAL {{ hour_ttl_days }} DAY
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 100000, replicated_deduplication_window = 100000, replicated_deduplication_window_seconds = 604800;

CREATE MATERIALIZED VIEW IF NOT EXISTS {{ name("ingest_batches_capture_schedules_mv") }} {{ on_cluster }}
TO {{ local("ingest_batches") }} AS
WITH
    getSetting('insert_deduplication_token') AS insert_token,
    extractGroups(insert_token, '^(.+)/(\\d+)/(\\d+)-(\\d+)$') AS span
SELECT
    'capture_schedules' AS table,
    span[1] AS topic_uuid,
    toUInt32OrZero(span[2]) AS partition,
    toUInt64OrZero(span[3]) AS first,
    toUInt64OrZero(span[4]) AS last,
    count() AS rows,
    min(src.ts) AS min_ts,
    max(src.ts) AS max_ts,
    now64(3, 'UTC') AS inserted_at,
    insert_token AS token
FROM {{ local("capture_schedules") }} AS src;

{% if cluster %}
CREATE TABLE IF NOT EXISTS {{ name("capture_schedules") }} {{ on_cluster }} AS {{ local("capture_schedules") }}
{{ distributed("capture_schedules", "cityHash64(name)") }};
{% endif %}
