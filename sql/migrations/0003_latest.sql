-- The latest of everything: one row a GPU, a host, a source and a process tree once parts have merged, so that "now" is
-- read without looking through the raw rows. Not partitioned: a key's rows must meet. `latest` is one tuple, so that
-- its values are of one instant.

{% set dedup = "non_replicated_deduplication_window = 100000, replicated_deduplication_window = 100000, "
             ~ "replicated_deduplication_window_seconds = 604800" %}

{% set gpu_latest = [
  ("model", "LowCardinality(String)"), ("job_ids", "Array(LowCardinality(String))"), ("period_ms", "UInt32"),
  ("gpu_instance", "Nullable(UInt8)"),
  ("gpu_util_permille", "Nullable(UInt16)"), ("sm_active_permille", "Nullable(UInt16)"),
  ("tensor_active_permille", "Nullable(UInt16)"), ("dram_active_permille", "Nullable(UInt16)"),
  ("fb_used_mebibytes", "Nullable(UInt32)"), ("fb_total_mebibytes", "Nullable(UInt32)"),
  ("power_deciwatts", "Nullable(UInt16)"), ("power_limit_deciwatts", "Nullable(UInt16)"),
  ("temperature_celsius", "Nullable(UInt8)"), ("throttle_reasons", "Nullable(UInt64)"),
  ("ecc_uncorrected_errors", "Nullable(UInt64)"), ("processes", "Nullable(UInt16)"),
] %}
{% set host_latest = [
  ("agent_version", "LowCardinality(String)"), ("kernel", "LowCardinality(String)"), ("period_ms", "UInt32"),
  ("uptime_s", "Nullable(UInt32)"), ("cores", "Nullable(UInt16)"), ("cpu_util_permille", "Nullable(UInt16)"),
  ("load1_centi", "Nullable(UInt32)"), ("mem_total_mebibytes", "Nullable(UInt32)"),
  ("mem_available_mebibytes", "Nullable(UInt32)"), ("swap_used_mebibytes", "Nullable(UInt32)"),
  ("psi_cpu_some_permille", "Nullable(UInt16)"), ("psi_memory_full_permille", "Nullable(UInt16)"),
  ("psi_io_full_permille", "Nullable(UInt16)"),
] %}
{% set health_latest = [
  ("state", "LowCardinality(String)"), ("why", "String"), ("seconds", "Nullable(Float64)"), ("count", "Nullable(UInt64)"),
  ("period_ms", "UInt32"),
] %}
{% set usage_latest = [
  ("period_ms", "UInt32"), ("processes", "Nullable(UInt32)"), ("cpu_cores_milli", "Nullable(UInt32)"),
  ("rss_mebibytes", "Nullable(UInt32)"), ("gpu_memory_mebibytes", "Nullable(UInt32)"), ("gpus", "Array(UInt8)"),
  ("gpu_uuids", "Array(LowCardinality(String))"),
] %}

{% macro tuple_type(columns) %}Tuple({% for column, type in columns %}{{ column }} {{ type }}{{ ", " if not loop.last }}{% endfor %}){% endmacro %}
{# A tuple cast by name, so that its elements can be read by name. #}
{% macro tuple_of(columns) %}CAST(tuple({% for column, type in columns %}{{ column }}{{ ", " if not loop.last }}{% endfor %}), '{{ tuple_type(columns) }}'){% endmacro %}

CREATE TABLE IF NOT EXISTS {{ local("gpu_last") }} {{ on_cluster }}
(
    `host` LowCardinality(String),
    `gpu` UInt8,
    `uuid` String,
    `first_at` SimpleAggregateFunction(min, DateTime64(3, 'UTC')),
    `last_at` SimpleAggregateFunction(max, DateTime64(3, 'UTC')),
    `known_at` SimpleAggregateFunction(max, Nullable(DateTime64(3, 'UTC'))) COMMENT 'when its utilisation was last known',
    `busy_at` SimpleAggregateFunction(max, Nullable(DateTime64(3, 'UTC'))) COMMENT 'when it was last at 5 % or more',
    `latest` AggregateFunction(argMax, {{ tuple_type(gpu_latest) }}, DateTime64(3, 'UTC'))
)
ENGINE = {{ engine("AggregatingMergeTree") }}
ORDER BY (host, gpu, uuid)
TTL toDateTime(last_at) + INTERVAL {{ minute_ttl_days }} DAY
SETTINGS {{ dedup }};

CREATE MATERIALIZED VIEW IF NOT EXISTS {{ name("gpu_last_mv") }} {{ on_cluster }} TO {{ local("gpu_last") }} AS
SELECT
    host, gpu, uuid,
    min(ts) AS first_at,
    max(ts) AS last_at,
    maxOrNullIf(ts, isNotNull(coalesce(gpu_util_permille, sm_active_permille))) AS known_at,
    maxOrNullIf(ts, coalesce(gpu_util_permille, sm_active_permille) >= 50) AS busy_at,
    argMaxState({{ tuple_of(gpu_latest) }}, ts) AS latest
FROM {{ local("gpu_samples") }}
GROUP BY host, gpu, uuid;

CREATE TABLE IF NOT EXISTS {{ local("host_last") }} {{ on_cluster }}
(
    `host` LowCardinality(String),
    `first_at` SimpleAggregateFunction(min, DateTime64(3, 'UTC')),
    `last_at` SimpleAggregateFunction(max, DateTime64(3, 'UTC')),
    `latest` AggregateFunction(argMax, {{ tuple_type(host_latest) }}, DateTime64(3, 'UTC'))
)
ENGINE = {{ engine("AggregatingMergeTree") }}
ORDER BY host
TTL toDateTime(last_at) + INTERVAL {{ minute_ttl_days }} DAY
SETTINGS {{ dedup }};

CREATE MATERIALIZED VIEW IF NOT EXISTS {{ name("host_last_mv") }} {{ on_cluster }} TO {{ local("host_last") }} AS
SELECT host, min(ts) AS first_at, max(ts) AS last_at, argMaxState({{ tuple_of(host_latest) }}, ts) AS latest
FROM {{ local("host_samples") }}
GROUP BY host;

CREATE TABLE IF NOT EXISTS {{ local("source_last") }} {{ on_cluster }}
(
    `host` LowCardinality(String),
    `source` LowCardinality(String),
    `subject` String,
    `first_at` SimpleAggregateFunction(min, DateTime64(3, 'UTC')),
    `last_at` SimpleAggregateFunction(max, DateTime64(3, 'UTC')),
    `ok_at` SimpleAggregateFunction(max, Nullable(DateTime64(3, 'UTC'))) COMMENT 'when it last said ok',
    `latest` AggregateFunction(argMax, {{ tuple_type(health_latest) }}, DateTime64(3, 'UTC'))
)
ENGINE = {{ engine("AggregatingMergeTree") }}
ORDER BY (host, source, subject)
TTL toDateTime(last_at) + INTERVAL {{ minute_ttl_days }} DAY
SETTINGS {{ dedup }};

CREATE MATERIALIZED VIEW IF NOT EXISTS {{ name("source_last_mv") }} {{ on_cluster }} TO {{ local("source_last") }} AS
SELECT
    host, source, subject,
    min(ts) AS first_at,
    max(ts) AS last_at,
    maxOrNullIf(ts, state = 'ok') AS ok_at,
    argMaxState({{ tuple_of(health_latest) }}, ts) AS latest
FROM {{ local("source_health") }}
GROUP BY host, source, subject;

-- One row a process tree of a job; kept as long as the hours, long after its events are gone.
CREATE TABLE IF NOT EXISTS {{ local("job_trees") }} {{ on_cluster }}
(
    `job_id` String,
    `host` LowCardinality(String),
    `pid` UInt32,
    `name` SimpleAggregateFunction(anyLast, String),
    `command` SimpleAggregateFunction(anyLast, String),
    `user` SimpleAggregateFunction(anyLast, String),
    `scheduler` SimpleAggregateFunction(anyLast, String),
    `tree_id` SimpleAggregateFunction(anyLast, String),
    `rank` SimpleAggregateFunction(max, Nullable(UInt32)),
    `world_size` SimpleAggregateFunction(max, Nullable(UInt32)),
    `labels` SimpleAggregateFunction(anyLast, Map(String, String)),
    `started_at` SimpleAggregateFunction(min, DateTime64(3, 'UTC')),
    `first_at` SimpleAggregateFunction(min, DateTime64(3, 'UTC')) COMMENT 'its first event',
    `last_at` SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'its last event',
    `ended_at` SimpleAggregateFunction(max, Nullable(DateTime64(3, 'UTC'))),
    `period_ms_max` SimpleAggregateFunction(max, UInt32),
    `rss_mebibytes_max` SimpleAggregateFunction(max, Nullable(UInt32)),
    `gpu_memory_mebibytes_max` SimpleAggregateFunction(max, Nullable(UInt32)),
    `gpu_uuids_held` SimpleAggregateFunction(groupUniqArrayArray, Array(String)) COMMENT 'all it ever held',
    `cpu_core_seconds` SimpleAggregateFunction(sum, Float64),
    `known_seconds` SimpleAggregateFunction(sum, Float64) COMMENT 'time over which CPU use is known',
    `read_bytes` SimpleAggregateFunction(sum, UInt64),
    `written_bytes` SimpleAggregateFunction(sum, UInt64),
    `usage` AggregateFunction(argMax, {{ tuple_type(usage_latest) }}, DateTime64(3, 'UTC')) COMMENT 'latest that is known'
)
ENGINE = {{ engine("AggregatingMergeTree") }}
ORDER BY (job_id, host, pid)
TTL toDateTime(last_at) + INTERVAL {{ hour_ttl_days }} DAY
SETTINGS {{ dedup }};

CREATE MATERIALIZED VIEW IF NOT EXISTS {{ name("job_trees_mv") }} {{ on_cluster }} TO {{ local("job_trees") }} AS
SELECT
    job_id, host, pid,
{% for column in ["name", "command", "user", "scheduler", "tree_id"] %}
    toString(argMax(events.{{ column }}, ts)) AS {{ column }},
{% endfor %}
    max(events.rank) AS rank,
    max(events.world_size) AS world_size,
    CAST(argMax(events.labels, ts), 'Map(String, String)') AS labels,
    min(events.started_at) AS started_at,
    min(ts) AS first_at,
    max(ts) AS last_at,
    maxOrNullIf(ts, event = 'ended') AS ended_at,
    max(period_ms) AS period_ms_max,
    max(rss_mebibytes) AS rss_mebibytes_max,
    max(gpu_memory_mebibytes) AS gpu_memory_mebibytes_max,
    groupUniqArrayArray(CAST(events.gpu_uuids, 'Array(String)')) AS gpu_uuids_held,
    sum(ifNull(cpu_cores_milli, 0) / 1000 * period_ms / 1000) AS cpu_core_seconds,
    sumIf(period_ms / 1000, isNotNull(cpu_cores_milli)) AS known_seconds,
    sum(ifNull(events.read_bytes, 0)) AS read_bytes,
    sum(ifNull(events.written_bytes, 0)) AS written_bytes,
    argMaxStateIf({{ tuple_of(usage_latest) }}, ts, event = 'running') AS usage
FROM {{ local("job_events") }} AS events
GROUP BY job_id, host, pid;

{% if cluster %}
{% for table, key in [("gpu_last", "cityHash64(host)"), ("host_last", "cityHash64(host)"), ("source_last", "cityHash64(host)"), ("job_trees", "cityHash64(host)")] %}
CREATE TABLE IF NOT EXISTS {{ name(table) }} {{ on_cluster }} AS {{ local(table) }}
{{ distributed(table, key) }};
{% endfor %}
{% endif %}
