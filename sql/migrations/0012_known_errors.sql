-- Memory errors of a GPU as they were last known: they are read more seldom than the rest of a sample, and NULL in between,
-- so that the latest sample mostly does not tell whether a GPU has some.
--
-- On a database with data: a GPU's are not known until its next sample that has them, seconds later. The query of the view
-- is changed in place (MODIFY QUERY), so it keeps its identity.

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

{% macro tuple_type(columns) %}Tuple({% for column, type in columns %}{{ column }} {{ type }}{{ ", " if not loop.last }}{% endfor %}){% endmacro %}
{% macro tuple_of(columns) %}CAST(tuple({% for column, type in columns %}{{ column }}{{ ", " if not loop.last }}{% endfor %}), '{{ tuple_type(columns) }}'){% endmacro %}

{% macro added() %}
    ADD COLUMN IF NOT EXISTS `ecc_uncorrected` AggregateFunction(argMax, Nullable(UInt64), DateTime64(3, 'UTC')) COMMENT 'memory errors that ECC could not mend, latest that is known'
{%- endmacro %}

ALTER TABLE {{ local("gpu_last") }} {{ on_cluster }}
{{ added() }};
{% if cluster %}
ALTER TABLE {{ name("gpu_last") }} {{ on_cluster }}
{{ added() }};
{% endif %}

ALTER TABLE {{ name("gpu_last_mv") }} {{ on_cluster }} MODIFY QUERY
SELECT
    host, gpu, uuid,
    min(ts) AS first_at,
    max(ts) AS last_at,
    maxOrNullIf(ts, isNotNull(coalesce(gpu_util_permille, sm_active_permille))) AS known_at,
    maxOrNullIf(ts, coalesce(gpu_util_permille, sm_active_permille) >= 50) AS busy_at,
    argMaxState({{ tuple_of(gpu_latest) }}, ts) AS latest,
    argMaxState(ecc_uncorrected_errors, ts) AS ecc_uncorrected
FROM {{ local("gpu_samples") }}
GROUP BY host, gpu, uuid;
