-- What stands out between the ranks of a capture, as its load found it: with every rank that was loaded together with
-- others, so that it is replaced with them.

{% macro added() %}
    ADD COLUMN IF NOT EXISTS `job_findings` Array(Tuple(id LowCardinality(String), text String, value Float64, unit LowCardinality(String), cost_ns Int64)) COMMENT 'what stands out between the ranks of its load, as findings' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `job_advice` Array(String) COMMENT 'what to do about each of them, in their order' CODEC(ZSTD(1))
{%- endmacro %}

ALTER TABLE {{ local("trace_ranks_loads") }} {{ on_cluster }}
{{ added() }};
{% if cluster %}
ALTER TABLE {{ name("trace_ranks_loads") }} {{ on_cluster }}
{{ added() }};
{% endif %}
