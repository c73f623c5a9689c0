-- What an optimizer step takes in jobs that count their steps (`warpmeter run`), by minute and hour: the agent's metric
-- samples of source `paces` (producers/paces.py), each the mean of one process over its half minute. A query must still
-- aggregate: `step_seconds_sum / readings` is the mean, and processes that wait for each other all have the same.

{% set dedup = "non_replicated_deduplication_window = 100000, replicated_deduplication_window = 100000, "
             ~ "replicated_deduplication_window_seconds = 604800" %}

{% for step in ["1m", "1h"] %}
CREATE TABLE IF NOT EXISTS {{ local("job_steps_" ~ step) }} {{ on_cluster }}
(
    `job_id` String CODEC(ZSTD(1)),
    `window` DateTime('UTC') COMMENT 'start of the window' CODEC(Delta, ZSTD(1)),
    `readings` SimpleAggregateFunction(sum, UInt64) COMMENT 'of processes, two a minute each' CODEC(T64, ZSTD(1)),
    `step_seconds_sum` SimpleAggregateFunction(sum, Float64) COMMENT 'of what a step took, over the readings' CODEC(ZSTD(1)),
    `step_seconds_min` SimpleAggregateFunction(min, Float64) CODEC(ZSTD(1)),
    `step_seconds_max` SimpleAggregateFunction(max, Float64) CODEC(ZSTD(1))
)
ENGINE = {{ engine("AggregatingMergeTree") }}
PARTITION BY {{ "toDate(window)" if step == "1m" else "toYYYYMM(window)" }}
ORDER BY (job_id, window)
TTL toDateTime(window) + INTERVAL {{ minute_ttl_days if step == "1m" else hour_ttl_days }} DAY
SETTINGS ttl_only_drop_parts = 1, {{ dedup }};

CREATE MATERIALIZED VIEW IF NOT EXISTS {{ name("job_steps_" ~ step ~ "_mv") }} {{ on_cluster }}
TO {{ local("job_steps_" ~ step) }} AS
SELECT
    samples.labels['job_id'] AS job_id,
    toDateTime({{ "toStartOfMinute" if step == "1m" else "toStartOfHour" }}(samples.ts), 'UTC') AS window,
    count() AS readings,
    sum(samples.value) AS step_seconds_sum,
    min(samples.value) AS step_seconds_min,
    max(samples.value) AS step_seconds_max
FROM {{ local("metric_samples") }} AS samples
WHERE samples.source = 'paces' AND samples.name = 'job_step_seconds'
GROUP BY job_id, window;
{% endfor %}

{% if cluster %}
{% for step in ["1m", "1h"] %}
CREATE TABLE IF NOT EXISTS {{ name("job_steps_" ~ step) }} {{ on_cluster }} AS {{ local("job_steps_" ~ step) }}
{{ distributed("job_steps_" ~ step, "cityHash64(job_id)") }};
{% endfor %}
{% endif %}
