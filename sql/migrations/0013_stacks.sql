-- Sampled stacks: where the CPU time of hosts and jobs goes.
--
-- A row names its stack by a hash; the frames come with it only now and then, and are kept once in `stack_frames`. So
-- what repeats costs eight bytes, and a query adds up hashes first and looks at frames last. They are kept by job (of what
-- is of no job, by host), so that those of one flame graph lie together: by hash alone each is somewhere else.

{% set dedup = "non_replicated_deduplication_window = 100000, replicated_deduplication_window = 100000, "
             ~ "replicated_deduplication_window_seconds = 604800" %}

CREATE TABLE IF NOT EXISTS {{ local("stack_samples") }} {{ on_cluster }}
(
    `host` LowCardinality(String) CODEC(ZSTD(1)),
    `ts` DateTime64(3, 'UTC') COMMENT 'when the turn of sampling began' CODEC(Delta, ZSTD(1)),
    `period_ms` UInt32 COMMENT 'what the turn stands for: until the next one' CODEC(T64, ZSTD(1)),
    `sampled_ms` UInt32 COMMENT 'how long was sampled of it' CODEC(T64, ZSTD(1)),
    `source` LowCardinality(String) COMMENT 'py-spy, perf; import: of another profiler' CODEC(ZSTD(1)),
    `job_id` LowCardinality(String) COMMENT 'empty when it is of no job' CODEC(ZSTD(1)),
    `rank` Nullable(UInt32) CODEC(ZSTD(1)),
    `pid` UInt32 COMMENT 'in the host\'s pid namespace' CODEC(T64, ZSTD(1)),
    `process` LowCardinality(String) COMMENT 'its name' CODEC(ZSTD(1)),
    `tid` UInt32 COMMENT '0: threads are not told apart' CODEC(T64, ZSTD(1)),
    `thread` LowCardinality(String) COMMENT 'its name' CODEC(ZSTD(1)),
    `stack` UInt64 COMMENT 'of stack_frames' CODEC(ZSTD(1)),
    `frames` Array(String) COMMENT 'empty where they were told lately: stack_frames has them' CODEC(ZSTD(1)),
    `samples` UInt32 CODEC(T64, ZSTD(1)),
    `weight` UInt64 COMMENT 'in `unit`; of time: samples times the interval between them' CODEC(T64, ZSTD(1)),
    `unit` LowCardinality(String) COMMENT 'microseconds; imported also: bytes, count' CODEC(ZSTD(1)),
    `estimate` Float64 ALIAS weight * if(sampled_ms = 0, 1., period_ms / sampled_ms) COMMENT 'of the whole period',
    CONSTRAINT host_given CHECK host != '',
    CONSTRAINT time_2020_to_2100 CHECK ts >= toDateTime64('2020-01-01 00:00:00', 3, 'UTC') AND ts < toDateTime64('2100-01-01 00:00:00', 3, 'UTC'),
    CONSTRAINT source_given CHECK source != '',
    CONSTRAINT known_unit CHECK unit IN ('microseconds', 'bytes', 'count'),
    CONSTRAINT sampled_in_period CHECK sampled_ms <= period_ms
)
ENGINE = {{ engine("MergeTree") }}
PARTITION BY toDate(ts)
ORDER BY (toStartOfHour(ts), host, job_id, stack)
TTL toDateTime(ts) + INTERVAL {{ raw_ttl_days }} DAY
SETTINGS ttl_only_drop_parts = 1, {{ dedup }};

CREATE MATERIALIZED VIEW IF NOT EXISTS {{ name("ingest_batches_stack_samples_mv") }} {{ on_cluster }}
TO {{ local("ingest_batches") }} AS
WITH
    getSetting('insert_deduplication_token') AS insert_token,
    extractGroups(insert_token, '^(.+)/(\\d+)/(\\d+)-(\\d+)$') AS span
SELECT
    'stack_samples' AS table,
    span[1] AS topic_uuid,
    toUInt32OrZero(span[2]) AS partition,
    toUInt64OrZero(span[3]) AS first,
    toUInt64OrZero(span[4]) AS last,
    count() AS rows,
    min(src.ts) AS min_ts,
    max(src.ts) AS max_ts,
    now64(3, 'UTC') AS inserted_at,
    insert_token AS token
FROM {{ local("stack_samples") }} AS src;

CREATE TABLE IF NOT EXISTS {{ local("stack_frames") }} {{ on_cluster }}
(
    `owner` LowCardinality(String) COMMENT 'the job; of what is of no job, the host' CODEC(ZSTD(1)),
    `stack` UInt64 CODEC(ZSTD(1)),
    `frames` SimpleAggregateFunction(anyLast, Array(String)) COMMENT 'outermost first: function (file:line)' CODEC(ZSTD(3)),
    `last_at` SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'when they were last told' CODEC(ZSTD(1))
)
ENGINE = {{ engine("AggregatingMergeTree") }}
ORDER BY (owner, stack)
TTL toDateTime(last_at) + INTERVAL {{ hour_ttl_days }} DAY
SETTINGS index_granularity = 512, {{ dedup }};

CREATE MATERIALIZED VIEW IF NOT EXISTS {{ name("stack_frames_mv") }} {{ on_cluster }}
TO {{ local("stack_frames") }} AS
SELECT if(job_id = '', host, job_id) AS owner, stack, anyLast(src.frames) AS frames, max(src.ts) AS last_at
FROM {{ local("stack_samples") }} AS src
WHERE notEmpty(src.frames)
GROUP BY owner, stack;

CREATE TABLE IF NOT EXISTS {{ local("stack_windows_1h") }} {{ on_cluster }}
(
    `window` DateTime('UTC') COMMENT 'its begin' CODEC(Delta, ZSTD(1)),
    `host` LowCardinality(String) CODEC(ZSTD(1)),
    `job_id` LowCardinality(String) CODEC(ZSTD(1)),
    `stack` UInt64 CODEC(ZSTD(1)),
    `source` LowCardinality(String) CODEC(ZSTD(1)),
    `unit` LowCardinality(String) CODEC(ZSTD(1)),
    `process` LowCardinality(String) CODEC(ZSTD(1)),
    `rank` Nullable(UInt32) CODEC(ZSTD(1)),
    `samples` SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)),
    `weight` SimpleAggregateFunction(sum, UInt64) COMMENT 'as sampled, in `unit`' CODEC(T64, ZSTD(1)),
    `estimate` SimpleAggregateFunction(sum, Float64) COMMENT 'of the whole hour, in `unit`' CODEC(ZSTD(1))
)
ENGINE = {{ engine("AggregatingMergeTree") }}
PARTITION BY toYYYYMM(window)
ORDER BY (window, host, job_id, stack, source, unit, process, rank)
TTL toDateTime(window) + INTERVAL {{ hour_ttl_days }} DAY
SETTINGS ttl_only_drop_parts = 1, allow_nullable_key = 1, {{ dedup }};

CREATE MATERIALIZED VIEW IF NOT EXISTS {{ name("stack_windows_1h_mv") }} {{ on_cluster }}
TO {{ local("stack_windows_1h") }} AS
SELECT
    toStartOfHour(toDateTime(src.ts, 'UTC')) AS window, host, job_id, stack, source, unit, process, rank,
    sum(src.samples) AS samples,
    sum(src.weight) AS weight,
    sum(src.weight * if(src.sampled_ms = 0, 1., src.period_ms / src.sampled_ms)) AS estimate
FROM {{ local("stack_samples") }} AS src
GROUP BY window, host, job_id, stack, source, unit, process, rank;

{% if cluster %}
{% for table, key in [("stack_samples", "cityHash64(host)"), ("stack_frames", "stack"), ("stack_windows_1h", "cityHash64(host)")] %}
CREATE TABLE IF NOT EXISTS {{ name(table) }} {{ on_cluster }} AS {{ local(table) }}
{{ distributed(table, key) }};
{% endfor %}
{% endif %}

{% for table in [local("source_health")] + ([name("source_health")] if cluster else []) %}
ALTER TABLE {{ table }} {{ on_cluster }}
    COMMENT COLUMN IF EXISTS `source` 'host, devices, gpu, jobs, stacks, shipper, … (docs/sources.md)',
    COMMENT COLUMN IF EXISTS `state` 'ok, unsupported, failed, gone, timeout, denied; paused: it rests, asked to or for its cost';
{% endfor %}
