-- Rollups: windows of a minute and of an hour, kept current by materialized views; the hour is made from the minutes'
-- blocks, not from the raw rows again. A query must still aggregate (sum of sums, max of maxima): rows of one window
-- are joined only when parts merge.
--
-- `<metric>_sum / <metric>_count` is the mean over what is known; `_min` and `_max` are NULL when nothing is.
-- `covered_ms` is the time that the samples stand for, `idle_ms` the part of it in which the GPU was known to be below
-- 5 % (by gpu_util, or by sm_active where gpu_util is not known).

{% set dedup = "non_replicated_deduplication_window = 100000, replicated_deduplication_window = 100000, "
             ~ "replicated_deduplication_window_seconds = 604800" %}

{% set gpu_metrics = [
  ("gpu_util_permille", "UInt16"), ("mem_copy_util_permille", "UInt16"), ("sm_active_permille", "UInt16"),
  ("sm_occupancy_permille", "UInt16"), ("tensor_active_permille", "UInt16"), ("dram_active_permille", "UInt16"),
  ("fp16_active_permille", "UInt16"), ("fp32_active_permille", "UInt16"), ("fp64_active_permille", "UInt16"),
  ("encoder_util_permille", "UInt16"), ("decoder_util_permille", "UInt16"),
  ("fb_used_mebibytes", "UInt32"), ("fb_total_mebibytes", "UInt32"), ("fb_reserved_mebibytes", "UInt32"),
  ("power_deciwatts", "UInt16"), ("power_limit_deciwatts", "UInt16"), ("energy_joules", "UInt64"),
  ("temperature_celsius", "UInt8"), ("mem_temperature_celsius", "UInt8"), ("fan_permille", "UInt16"),
  ("sm_clock_megahertz", "UInt16"), ("mem_clock_megahertz", "UInt16"), ("throttle_reasons", "UInt64"),
  ("performance_state", "UInt8"),
  ("pcie_tx_megabytes_per_s", "UInt32"), ("pcie_rx_megabytes_per_s", "UInt32"),
  ("nvlink_tx_megabytes_per_s", "UInt32"), ("nvlink_rx_megabytes_per_s", "UInt32"),
  ("pcie_link_generation", "UInt8"), ("pcie_link_width", "UInt8"), ("pcie_replays", "UInt64"),
  ("ecc_corrected_errors", "UInt64"), ("ecc_uncorrected_errors", "UInt64"),
  ("remapped_rows_corrected", "UInt32"), ("remapped_rows_uncorrected", "UInt32"), ("processes", "UInt16"),
] %}

{% set host_metrics = [
  ("uptime_s", "UInt32"), ("cores", "UInt16"), ("cpu_util_permille", "UInt16"), ("cpu_user_permille", "UInt16"),
  ("cpu_nice_permille", "UInt16"), ("cpu_system_permille", "UInt16"), ("cpu_iowait_permille", "UInt16"),
  ("cpu_irq_permille", "UInt16"), ("cpu_softirq_permille", "UInt16"), ("cpu_steal_permille", "UInt16"),
  ("cpu_idle_permille", "UInt16"), ("core_busy_min_permille", "UInt16"), ("core_busy_p50_permille", "UInt16"),
  ("core_busy_p90_permille", "UInt16"), ("core_busy_max_permille", "UInt16"), ("load1_centi", "UInt32"),
  ("load5_centi", "UInt32"), ("load15_centi", "UInt32"), ("procs_running", "UInt32"), ("procs_blocked", "UInt32"),
  ("processes", "UInt32"), ("context_switches_per_s", "UInt32"), ("interrupts_per_s", "UInt32"),
  ("forks_per_s", "UInt32"), ("mem_total_mebibytes", "UInt32"), ("mem_available_mebibytes", "UInt32"),
  ("mem_free_mebibytes", "UInt32"), ("mem_cached_mebibytes", "UInt32"), ("mem_buffers_mebibytes", "UInt32"),
  ("mem_dirty_mebibytes", "UInt32"), ("mem_shared_mebibytes", "UInt32"), ("swap_total_mebibytes", "UInt32"),
  ("swap_used_mebibytes", "UInt32"), ("swap_in_kilobytes_per_s", "UInt32"), ("swap_out_kilobytes_per_s", "UInt32"),
  ("major_faults_per_s", "UInt32"), ("psi_cpu_some_permille", "UInt16"), ("psi_cpu_full_permille", "UInt16"),
  ("psi_memory_some_permille", "UInt16"), ("psi_memory_full_permille", "UInt16"),
  ("psi_io_some_permille", "UInt16"), ("psi_io_full_permille", "UInt16"),
] %}

{% macro window_columns(metrics) %}
{% for column, type in metrics %}
    `{{ column }}_count` SimpleAggregateFunction(sum, UInt64) CODEC(T64, LZ4),
    `{{ column }}_sum` SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)),
    `{{ column }}_min` SimpleAggregateFunction(min, Nullable({{ type }})) CODEC(ZSTD(1)),
    `{{ column }}_max` SimpleAggregateFunction(max, Nullable({{ type }})) CODEC(ZSTD(1)){{ "," if not loop.last }}
{% endfor %}
{% endmacro %}

{% macro from_raw(metrics) %}
{% for column, type in metrics %}
    count(`{{ column }}`) AS `{{ column }}_count`,
    sum(ifNull(`{{ column }}`, 0)) AS `{{ column }}_sum`,
    min(`{{ column }}`) AS `{{ column }}_min`,
    max(`{{ column }}`) AS `{{ column }}_max`{{ "," if not loop.last }}
{% endfor %}
{% endmacro %}

{% macro from_minutes(metrics) %}
{% for column, type in metrics %}
    sum(`{{ column }}_count`) AS `{{ column }}_count`,
    sum(`{{ column }}_sum`) AS `{{ column }}_sum`,
    min(`{{ column }}_min`) AS `{{ column }}_min`,
    max(`{{ column }}_max`) AS `{{ column }}_max`{{ "," if not loop.last }}
{% endfor %}
{% endmacro %}

{# Timing saturates at 30,000, so it is for permille alone; DD is within 1 % of the value, in 127 bytes. #}
{% set timing = "quantilesTiming(0.5, 0.95)" %}
{% set dd = "quantilesDD(0.01, 0.5, 0.95)" %}
{% set gpu_quantiles = [
  ("gpu_util_permille", timing, "UInt16"), ("sm_active_permille", timing, "UInt16"),
  ("tensor_active_permille", timing, "UInt16"), ("power_deciwatts", dd, "UInt16"),
] %}
{% set host_quantiles = [("cpu_util_permille", timing, "UInt16")] %}
{% set fleet_metrics = [
  ("gpu_util_permille", "UInt16"), ("sm_active_permille", "UInt16"), ("tensor_active_permille", "UInt16"),
  ("dram_active_permille", "UInt16"), ("fb_used_mebibytes", "UInt32"), ("fb_total_mebibytes", "UInt32"),
  ("power_deciwatts", "UInt16"), ("temperature_celsius", "UInt8"),
] %}
{% set fleet_quantiles = [
  ("gpu_util_permille", timing, "UInt16"), ("sm_active_permille", timing, "UInt16"),
  ("tensor_active_permille", timing, "UInt16"), ("dram_active_permille", timing, "UInt16"),
  ("power_deciwatts", dd, "UInt16"), ("temperature_celsius", dd, "UInt8"),
] %}

{# name, raw table, key columns with their types, metrics, quantiles, whether it tells idle time #}
{% set rollups = [
  ("gpu_heatmap", "gpu_samples", [("host", "LowCardinality(String)"), ("gpu", "UInt8"), ("uuid", "LowCardinality(String)")], gpu_metrics, gpu_quantiles),
  ("host_windows", "host_samples", [("host", "LowCardinality(String)")], host_metrics, host_quantiles),
  ("fleet_windows", "gpu_samples", [], fleet_metrics, fleet_quantiles),
] %}

{% macro names(keys) %}{% for key, type in keys %}{{ key }}, {% endfor %}{% endmacro %}

{% macro target(step, order_by) %}
ENGINE = {{ engine("AggregatingMergeTree") }}
PARTITION BY {{ "toDate(window)" if step == "1m" else "toYYYYMM(window)" }}
ORDER BY ({{ order_by }})
TTL toDateTime(window) + INTERVAL {{ minute_ttl_days if step == "1m" else hour_ttl_days }} DAY
SETTINGS ttl_only_drop_parts = 1, {{ dedup }};
{% endmacro %}

{% for rollup, source, keys, metrics, quantiles in rollups %}
{% set idle = source == "gpu_samples" %}
{% for step in ["1m", "1h"] %}
CREATE TABLE IF NOT EXISTS {{ local(rollup ~ "_" ~ step) }} {{ on_cluster }}
(
{% for key, type in keys %}
    `{{ key }}` {{ type }} CODEC(LZ4),
{% endfor %}
    `window` DateTime('UTC') COMMENT 'start of the window' CODEC(Delta, LZ4),
    `samples` SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)),
    `covered_ms` SimpleAggregateFunction(sum, UInt64) COMMENT 'time that the samples stand for' CODEC(T64, ZSTD(1)),
{% if idle %}
    `idle_ms` SimpleAggregateFunction(sum, UInt64) COMMENT 'of it, known to be below 5 %' CODEC(T64, ZSTD(1)),
{% endif %}
{% for column, function, type in quantiles %}
    `{{ column }}_quantiles` AggregateFunction({{ function }}, Nullable({{ type }})) CODEC(ZSTD(1)),
{% endfor %}
{{ window_columns(metrics) }}
)
{{ target(step, names(keys) ~ "window") }}
{% endfor %}

CREATE MATERIALIZED VIEW IF NOT EXISTS {{ name(rollup ~ "_1m_mv") }} {{ on_cluster }}
TO {{ local(rollup ~ "_1m") }} AS
SELECT
    {{ names(keys) }}toDateTime(toStartOfMinute(ts), 'UTC') AS window,
    count() AS samples,
    sum(period_ms) AS covered_ms,
{% if idle %}
    sumIf(period_ms, coalesce(gpu_util_permille, sm_active_permille) < 50) AS idle_ms,
{% endif %}
{% for column, function, type in quantiles %}
    {{ function | replace("(", "State(", 1) }}(`{{ column }}`) AS `{{ column }}_quantiles`,
{% endfor %}
{{ from_raw(metrics) }}
FROM {{ local(source) }}
GROUP BY {{ names(keys) }}window;

CREATE MATERIALIZED VIEW IF NOT EXISTS {{ name(rollup ~ "_1h_mv") }} {{ on_cluster }}
TO {{ local(rollup ~ "_1h") }} AS
SELECT
    {{ names(keys) }}toDateTime(toStartOfHour(minutes.window), 'UTC') AS window,
    sum(samples) AS samples,
    sum(covered_ms) AS covered_ms,
{% if idle %}
    sum(idle_ms) AS idle_ms,
{% endif %}
{% for column, function, type in quantiles %}
    {{ function | replace("(", "MergeState(", 1) }}(`{{ column }}_quantiles`) AS `{{ column }}_quantiles`,
{% endfor %}
{{ from_minutes(metrics) }}
FROM {{ local(rollup ~ "_1m") }} AS minutes
GROUP BY {{ names(keys) }}window;
{% endfor %}

-- A job's share of a GPU: several jobs on one GPU share its time evenly. `<ratio>_seconds / <ratio>_known_seconds` is
-- the mean ratio; `energy_joules` is power times time.
{% set job_ratios = ["gpu_util", "sm_active", "tensor_active", "dram_active"] %}
{% for step in ["1m", "1h"] %}
CREATE TABLE IF NOT EXISTS {{ local("job_windows_" ~ step) }} {{ on_cluster }}
(
    `job_id` String CODEC(ZSTD(1)),
    `host` LowCardinality(String) CODEC(ZSTD(1)),
    `window` DateTime('UTC') COMMENT 'start of the window' CODEC(Delta, ZSTD(1)),
    `gpu_seconds` SimpleAggregateFunction(sum, Float64) COMMENT 'GPU time held' CODEC(ZSTD(1)),
    `idle_seconds` SimpleAggregateFunction(sum, Float64) COMMENT 'of it, known to be below 5 %' CODEC(ZSTD(1)),
{% for ratio in job_ratios %}
    `{{ ratio }}_seconds` SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)),
    `{{ ratio }}_known_seconds` SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)),
{% endfor %}
    `energy_joules` SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)),
    `power_known_seconds` SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)),
    `fb_used_bytes_max` SimpleAggregateFunction(max, UInt64) COMMENT 'most on one GPU' CODEC(T64, ZSTD(1)),
    `cpu_core_seconds` SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)),
    `cpu_known_seconds` SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)),
    `rss_bytes_max` SimpleAggregateFunction(max, UInt64) COMMENT 'most of one process tree' CODEC(T64, ZSTD(1)),
    `read_bytes` SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)),
    `written_bytes` SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)),
    `processes_max` SimpleAggregateFunction(max, UInt64) COMMENT 'most of one process tree' CODEC(T64, ZSTD(1))
)
{{ target(step, "job_id, host, window") }}
{% endfor %}

CREATE MATERIALIZED VIEW IF NOT EXISTS {{ name("job_windows_1m_gpu_mv") }} {{ on_cluster }}
TO {{ local("job_windows_1m") }} AS
WITH period_ms / 1000 / length(job_ids) AS share
SELECT
    job_id, host, toDateTime(toStartOfMinute(ts), 'UTC') AS window,
    sum(share) AS gpu_seconds,
    sumIf(share, coalesce(gpu_util_permille, sm_active_permille) < 50) AS idle_seconds,
{% for ratio in job_ratios %}
    sum(ifNull({{ ratio }}_permille, 0) / 1000 * share) AS {{ ratio }}_seconds,
    sumIf(share, isNotNull({{ ratio }}_permille)) AS {{ ratio }}_known_seconds,
{% endfor %}
    sum(ifNull(power_deciwatts, 0) / 10 * share) AS energy_joules,
    sumIf(share, isNotNull(power_deciwatts)) AS power_known_seconds,
    max(toUInt64(ifNull(fb_used_mebibytes, 0)) * 1048576) AS fb_used_bytes_max
FROM {{ local("gpu_samples") }}
ARRAY JOIN job_ids AS job_id
GROUP BY job_id, host, window;

CREATE MATERIALIZED VIEW IF NOT EXISTS {{ name("job_windows_1m_events_mv") }} {{ on_cluster }}
TO {{ local("job_windows_1m") }} AS
SELECT
    job_id, host, toDateTime(toStartOfMinute(ts), 'UTC') AS window,
    sum(ifNull(cpu_cores_milli, 0) / 1000 * period_ms / 1000) AS cpu_core_seconds,
    sumIf(period_ms / 1000, isNotNull(cpu_cores_milli)) AS cpu_known_seconds,
    max(toUInt64(ifNull(rss_mebibytes, 0)) * 1048576) AS rss_bytes_max,
    sum(ifNull(events.read_bytes, 0)) AS read_bytes,
    sum(ifNull(events.written_bytes, 0)) AS written_bytes,
    max(toUInt64(ifNull(processes, 0))) AS processes_max
FROM {{ local("job_events") }} AS events
GROUP BY job_id, host, window;

{% set job_columns = ["gpu_seconds", "idle_seconds", "energy_joules", "power_known_seconds", "cpu_core_seconds",
  "cpu_known_seconds", "read_bytes", "written_bytes"] %}
CREATE MATERIALIZED VIEW IF NOT EXISTS {{ name("job_windows_1h_mv") }} {{ on_cluster }}
TO {{ local("job_windows_1h") }} AS
SELECT
    job_id, host, toDateTime(toStartOfHour(minutes.window), 'UTC') AS window,
{% for column in job_columns %}
    sum(minutes.{{ column }}) AS {{ column }},
{% endfor %}
{% for ratio in job_ratios %}
    sum(minutes.{{ ratio }}_seconds) AS {{ ratio }}_seconds,
    sum(minutes.{{ ratio }}_known_seconds) AS {{ ratio }}_known_seconds,
{% endfor %}
    max(minutes.fb_used_bytes_max) AS fb_used_bytes_max,
    max(minutes.rss_bytes_max) AS rss_bytes_max,
    max(minutes.processes_max) AS processes_max
FROM {{ local("job_windows_1m") }} AS minutes
GROUP BY job_id, host, window;

{% if cluster %}
{% for table in ["gpu_heatmap", "host_windows", "fleet_windows", "job_windows"] %}
{% for step in ["1m", "1h"] %}
CREATE TABLE IF NOT EXISTS {{ name(table ~ "_" ~ step) }} {{ on_cluster }} AS {{ local(table ~ "_" ~ step) }}
{{ distributed(table ~ "_" ~ step, "rand()") }};
{% endfor %}
{% endfor %}
{% endif %}
