-- How far a process that is asked for a capture is, and how fast: what one start of all ranks at the same step needs.

{% macro added() %}
    ADD COLUMN IF NOT EXISTS `step_count` Nullable(UInt64) COMMENT 'optimizer steps so far, where they are counted; of seen' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `step_us` Nullable(UInt32) COMMENT 'what one of them takes, in microseconds' CODEC(ZSTD(1))
{%- endmacro %}

ALTER TABLE {{ local("capture_events") }} {{ on_cluster }}
{{ added() }};
{% if cluster %}
ALTER TABLE {{ name("capture_events") }} {{ on_cluster }}
{{ added() }};
{% endif %}
