-- The timeline of a trace as it is drawn: the lane and the depth of each event, its arguments, Python calls. Two indexes
-- of what granules hold: where their last event ends, so that a stretch of time is found without all that came before;
-- and which correlations, so that a kernel's launch is. What was loaded before has no lane: load it again to see it.

{% macro added() %}
    ADD COLUMN IF NOT EXISTS `lane` UInt16 DEFAULT 65535 COMMENT 'the track it is drawn on: first streams, then threads; 65535 in what was loaded by a version without' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `depth` UInt16 COMMENT 'how many events of its lane are around it' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `thread_name` LowCardinality(String) COMMENT 'the name of its thread, where the trace tells' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `external` Int64 DEFAULT -1 COMMENT 'the same of an operator and of what it launched; -1 where there is none' CODEC(Delta, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `sequence` Int64 DEFAULT -1 COMMENT 'the same of a forward operator and its backward one; -1 where there is none' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `arguments` LowCardinality(String) COMMENT 'what else is known of it, as JSON; empty: nothing' CODEC(ZSTD(1))
{%- endmacro %}

ALTER TABLE {{ local("trace_timeline_loads") }} {{ on_cluster }}
{{ added() }},
    ADD INDEX IF NOT EXISTS ended start_ns + duration_ns TYPE minmax GRANULARITY 1,
    ADD INDEX IF NOT EXISTS correlated correlation TYPE minmax GRANULARITY 1;

{% if cluster %}
ALTER TABLE {{ name("trace_timeline_loads") }} {{ on_cluster }}
{{ added() }};
{% endif %}
