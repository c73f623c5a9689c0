-- More of what an analysis finds: how copies and sets overlap with kernels, what idle time waited for and what to do about
-- a finding, by rank; launch delay and bytes, by kernel; what a step's window was made of. NULL in what was loaded before.

{% macro added(columns) %}
{% for column, type, meaning in columns %}
    ADD COLUMN IF NOT EXISTS `{{ column }}` {{ type }} COMMENT {{ meaning | literal }} CODEC(ZSTD(1)){{ "," if not loop.last }}
{% endfor %}
{%- endmacro %}

{% set tables = {
  "trace_ranks": [
    ("mem_compute_overlap_ns", "Nullable(Int64)", "in which a copy or set and computation ran at once"),
    ("mem_comm_overlap_ns", "Nullable(Int64)", "in which a copy or set and communication ran at once"),
    ("idle_input_ns", "Nullable(Int64)", "of the idle time: while the program waited for its next batch"),
    ("idle_sync_ns", "Nullable(Int64)", "after the device had run dry while the host waited for it"),
    ("idle_allocation_ns", "Nullable(Int64)", "while the host took memory or gave it back"),
    ("idle_launching_ns", "Nullable(Int64)", "before a launch that came late for none of these reasons"),
    ("idle_device_ns", "Nullable(Int64)", "before an event that was launched in time"),
    ("idle_unknown_ns", "Nullable(Int64)", "before an event whose launch is not in the trace"),
    ("advice", "Array(String)", "what to do about each of the findings, in their order"),
  ],
  "trace_kernels": [
    ("launched", "Nullable(UInt64)", "how many of them have their launching call in the trace"),
    ("launch_delay_mean_ns", "Nullable(Float64)", "of those: from the end of the call to the start, mean"),
    ("bytes", "Nullable(UInt64)", "that copies or sets of it moved, of those whose size is told"),
    ("sized_ns", "Nullable(Int64)", "sum of the durations of those"),
  ],
  "trace_steps": [
    ("during_compute_ns", "Nullable(Int64)", "of its window: a kernel ran that is no communication, of whichever step"),
    ("during_exposed_comm_ns", "Nullable(Int64)", "of its window: communication without computation beside it"),
    ("during_exposed_mem_ns", "Nullable(Int64)", "of its window: copies and sets without computation or communication"),
  ],
} %}

{% for table, columns in tables.items() %}
ALTER TABLE {{ local(table ~ "_loads") }} {{ on_cluster }}
{{ added(columns) }};
{% if cluster %}
ALTER TABLE {{ name(table ~ "_loads") }} {{ on_cluster }}
{{ added(columns) }};
{% endif %}

{% endfor %}
