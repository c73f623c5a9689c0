-- Analysed traces: every rank, kernel, operator, step, stream and collective of every capture as rows, and the events
-- for a viewer.
--
-- A trace is loaded as a whole, and again under another number: its rows stand in these tables once a load, from the
-- first row on, whole or not. What is whole and the latest is said by `trace_ranks_loads` alone, whose row of a load is
-- written last; people read the views without `_loads` (sql/views/50_traces.sql), which show nothing else. A later load
-- takes away what it replaced, and what killed ones left (src/warpmeter/landing.py).
--
-- Durations and times within a trace are whole nanoseconds as analysis gives them; NULL is "not known", never 0. The
-- SI forms are in the views. Every row says when it was loaded, by which all tables are partitioned and aged: a trace
-- of years ago can be loaded today.

{% set dedup = "non_replicated_deduplication_window = 100000, replicated_deduplication_window = 100000, "
             ~ "replicated_deduplication_window_seconds = 604800" %}

{% set tables = {
  "trace_ranks": [
    ("file", "String", "ZSTD(1)", "what was analysed"),
    ("schema_version", "UInt16", "ZSTD(1)", "of the analysis (docs/analysis.md)"),
    ("workload", "LowCardinality(String)", "ZSTD(1)", "what was trained or served: as the trace's metadata name it, else the job's name"),
    ("gpu_model", "LowCardinality(String)", "ZSTD(1)", "of its first device"),
    ("devices", "UInt16", "ZSTD(1)", "devices that worked"),
    ("backend", "LowCardinality(String)", "ZSTD(1)", "of its collectives"),
    ("world_size", "Nullable(UInt32)", "ZSTD(1)", "ranks of the job; NULL where the trace does not say"),
    ("events", "UInt64", "ZSTD(1)", "events of the trace"),
    ("gpu_events", "UInt64", "ZSTD(1)", "kernels, copies and sets"),
    ("span_ns", "Nullable(Int64)", "ZSTD(1)", "from the first GPU event's start to the last one's end"),
    ("busy_ns", "Nullable(Int64)", "ZSTD(1)", "in which any GPU event ran"),
    ("idle_ns", "Nullable(Int64)", "ZSTD(1)", "span without busy"),
    ("compute_ns", "Nullable(Int64)", "ZSTD(1)", "in which a kernel ran that is no communication"),
    ("comm_ns", "Nullable(Int64)", "ZSTD(1)", "in which a communication kernel ran"),
    ("mem_ns", "Nullable(Int64)", "ZSTD(1)", "in which a copy or set ran"),
    ("comm_compute_overlap_ns", "Nullable(Int64)", "ZSTD(1)", "in which both communication and computation ran"),
    ("exposed_comm_ns", "Nullable(Int64)", "ZSTD(1)", "communication without computation beside it"),
    ("exposed_mem_ns", "Nullable(Int64)", "ZSTD(1)", "copies and sets without computation or communication beside them"),
    ("launch_delay_p50_ns", "Nullable(Int64)", "ZSTD(1)", "from a launching call's end to its kernel's start, median"),
    ("launch_delay_max_ns", "Nullable(Int64)", "ZSTD(1)", "the same, longest"),
    ("queue_depth", "Nullable(Float64)", "ZSTD(1)", "launched and not yet begun, mean over time"),
    ("steps", "UInt32", "ZSTD(1)", "steps that were found"),
    ("step_p50_ns", "Nullable(Int64)", "ZSTD(1)", "duration of a step, median"),
    ("step_min_ns", "Nullable(Int64)", "ZSTD(1)", "the shortest"),
    ("step_max_ns", "Nullable(Int64)", "ZSTD(1)", "the longest"),
    ("flops", "Nullable(UInt64)", "ZSTD(1)", "floating-point operations of products, convolutions and attention whose shapes are known"),
    ("mfu", "Nullable(Float64)", "ZSTD(1)", "flops over what the device could have done in its span, 0-1"),
    ("memory_peak_bytes", "Nullable(UInt64)", "ZSTD(1)", "most that tensors held on a device at once"),
    ("findings", "Array(Tuple(id String, text String, value Nullable(Float64), unit String))", "ZSTD(1)", "in words, the weightiest first"),
    ("notes", "Array(String)", "ZSTD(1)", "what was wrong with the file"),
    ("row_counts", "Map(LowCardinality(String), UInt64)", "ZSTD(1)", "of this load in the other tables"),
  ],
  "trace_kernels": [
    ("name", "LowCardinality(String)", "ZSTD(1)", "as the trace has it"),
    ("short_name", "LowCardinality(String)", "ZSTD(1)", "readable"),
    ("kind", "LowCardinality(String)", "ZSTD(1)", "compute, comm, memcpy, memset"),
    ("count", "UInt64", "ZSTD(1)", "how often it ran"),
    ("total_ns", "Int64", "ZSTD(1)", "sum of its durations"),
    ("min_ns", "Int64", "ZSTD(1)", "shortest"),
    ("max_ns", "Int64", "ZSTD(1)", "longest"),
    ("p50_ns", "Nullable(Float64)", "ZSTD(1)", "median"),
    ("p95_ns", "Nullable(Float64)", "ZSTD(1)", "that 95 % stay below"),
    ("share", "Nullable(Float64)", "ZSTD(1)", "of the durations of all GPU events of the rank, 0-1"),
    ("streams", "Array(Int64)", "ZSTD(1)", "on which it ran"),
    ("operator", "LowCardinality(String)", "ZSTD(1)", "that launched most of it; empty where none is known"),
    ("gpu_model", "LowCardinality(String)", "ZSTD(1)", "of the rank's first device"),
    ("workload", "LowCardinality(String)", "ZSTD(1)", "as in trace_ranks"),
  ],
  "trace_ops": [
    ("name", "LowCardinality(String)", "ZSTD(1)", "of the operator"),
    ("dims", "String", "ZSTD(1)", "sizes of its inputs, as JSON; empty in the row over all shapes"),
    ("types", "String", "ZSTD(1)", "of its inputs, as JSON; empty in the row over all shapes"),
    ("by_shape", "Bool", "ZSTD(1)", "false: the operator as a whole; true: its calls with these inputs"),
    ("count", "UInt64", "ZSTD(1)", "calls"),
    ("cpu_total_ns", "Int64", "ZSTD(1)", "within it"),
    ("cpu_self_ns", "Int64", "ZSTD(1)", "within it and none of the operators that it called"),
    ("gpu_total_ns", "Int64", "ZSTD(1)", "GPU events that it or an operator below it launched"),
    ("gpu_self_ns", "Int64", "ZSTD(1)", "GPU events that it launched itself"),
    ("gpu_events", "UInt64", "ZSTD(1)", "that it launched itself"),
  ],
  "trace_steps": [
    ("step", "UInt32", "ZSTD(1)", "its place among the steps of the trace, from 0"),
    ("number", "Nullable(Int64)", "ZSTD(1)", "the program\'s own, where it has one"),
    ("name", "String", "ZSTD(1)", "e.g. ProfilerStep#12"),
    ("start_ns", "Int64", "Delta, ZSTD(1)", "on the host, from captured_at"),
    ("duration_ns", "Int64", "ZSTD(1)", "from its start to the next one\'s"),
    ("busy_ns", "Nullable(Int64)", "ZSTD(1)", "as in trace_ranks, within the step"),
    ("idle_ns", "Nullable(Int64)", "ZSTD(1)", ""),
    ("compute_ns", "Nullable(Int64)", "ZSTD(1)", ""),
    ("comm_ns", "Nullable(Int64)", "ZSTD(1)", ""),
    ("mem_ns", "Nullable(Int64)", "ZSTD(1)", ""),
    ("comm_compute_overlap_ns", "Nullable(Int64)", "ZSTD(1)", ""),
    ("exposed_comm_ns", "Nullable(Int64)", "ZSTD(1)", ""),
    ("gpu_events", "UInt64", "ZSTD(1)", ""),
    ("flops", "Nullable(UInt64)", "ZSTD(1)", ""),
    ("mfu", "Nullable(Float64)", "ZSTD(1)", ""),
  ],
  "trace_streams": [
    ("device", "Int32", "ZSTD(1)", ""),
    ("stream", "Int64", "ZSTD(1)", ""),
    ("gpu_events", "UInt64", "ZSTD(1)", "that ran on it"),
    ("busy_ns", "Int64", "ZSTD(1)", "in which one of them ran"),
    ("idle_ns", "Int64", "ZSTD(1)", "gaps between its kernels"),
    ("host_wait_ns", "Int64", "ZSTD(1)", "gaps whose next kernel was launched after they had begun"),
    ("kernel_wait_ns", "Int64", "ZSTD(1)", "other gaps that are short"),
    ("other_ns", "Int64", "ZSTD(1)", "the rest"),
  ],
  "trace_collectives": [
    ("group", "LowCardinality(String)", "ZSTD(1)", "process group"),
    ("seq", "UInt32", "Delta, ZSTD(1)", "its place among the collectives of the group on this rank, from 0"),
    ("name", "LowCardinality(String)", "ZSTD(1)", "of the collective"),
    ("kernel", "LowCardinality(String)", "ZSTD(1)", "that ran it"),
    ("dtype", "LowCardinality(String)", "ZSTD(1)", ""),
    ("group_size", "Nullable(UInt32)", "ZSTD(1)", "ranks of the group"),
    ("bytes", "Nullable(UInt64)", "ZSTD(1)", "of its message on this rank"),
    ("start_ns", "Int64", "Delta, ZSTD(1)", "on this rank\'s own clock, from captured_at"),
    ("duration_ns", "Int64", "ZSTD(1)", "of its kernel: waiting for others and transfer"),
  ],
  "trace_memory": [
    ("device_type", "LowCardinality(String)", "ZSTD(1)", "cpu or gpu"),
    ("device", "Int32", "ZSTD(1)", ""),
    ("at_ns", "Int64", "Delta, ZSTD(1)", "from captured_at"),
    ("allocated_bytes", "Int64", "Delta, ZSTD(1)", "that tensors hold; of each stretch of time the point with most"),
    ("reserved_bytes", "Nullable(Int64)", "Delta, ZSTD(1)", "that the allocator keeps"),
    ("peak", "Bool", "ZSTD(1)", "the point with most of all"),
    ("holders", "Array(Tuple(operator String, module String, blocks UInt64, bytes Int64))", "ZSTD(1)", "who held it, at the peak alone"),
  ],
  "trace_timeline": [
    ("kind", "LowCardinality(String)", "ZSTD(1)", "kernel, memcpy, memset, call, operator, annotation, step, wait"),
    ("track", "LowCardinality(String)", "ZSTD(1)", "gpu 0 stream 7, thread 4711"),
    ("start_ns", "Int64", "Delta, ZSTD(1)", "from captured_at"),
    ("duration_ns", "Int64", "T64, ZSTD(1)", ""),
    ("name", "LowCardinality(String)", "ZSTD(1)", ""),
    ("correlation", "Nullable(Int64)", "ZSTD(1)", "the same of a call and of what it launched"),
  ],
} %}
{% set orders = {
  "trace_ranks": "", "trace_kernels": ", name", "trace_ops": ", by_shape, name", "trace_steps": ", step",
  "trace_streams": ", device, stream", "trace_collectives": ", group, seq", "trace_memory": ", device_type, device, at_ns",
  "trace_timeline": ", start_ns",
} %}

{% for table, columns in tables.items() %}
CREATE TABLE IF NOT EXISTS {{ local(table ~ "_loads") }} {{ on_cluster }}
(
    `capture` LowCardinality(String) COMMENT 'what was recorded together' CODEC(ZSTD(1)),
    `job_id` LowCardinality(String) COMMENT 'as in jobs; empty where not told' CODEC(ZSTD(1)),
    `host` LowCardinality(String) COMMENT 'on which it was recorded; empty where not told' CODEC(ZSTD(1)),
    `rank` UInt32 CODEC(ZSTD(1)),
    `process` LowCardinality(String) COMMENT 'what a load replaces: the rank where the trace tells it, else host/rank' CODEC(ZSTD(1)),
    `captured_at` DateTime64(9, 'UTC') COMMENT 'the first event of the trace' CODEC(ZSTD(1)),
    `load` LowCardinality(String) COMMENT 'a UUID of version 7: later ones are greater' CODEC(ZSTD(1)),
    `loaded_at` DateTime64(3, 'UTC') COMMENT 'when that load began, by the store\'s clock' CODEC(ZSTD(1)),
{% for column, type, codec, meaning in columns %}
    `{{ column }}` {{ type }} COMMENT {{ meaning | literal }} CODEC({{ codec }}),
{% endfor %}
    CONSTRAINT capture_given CHECK capture != '',
    CONSTRAINT load_given CHECK load != ''
)
ENGINE = {{ engine("MergeTree") }}
PARTITION BY {{ "toDate(loaded_at)" if table == "trace_timeline" else "toStartOfMonth(loaded_at)" }}
ORDER BY (capture, process, load{{ orders[table] }})
TTL toDateTime(loaded_at) + INTERVAL {{ raw_ttl_days if table == "trace_timeline" else hour_ttl_days }} DAY
SETTINGS ttl_only_drop_parts = 1, {{ dedup }};

{% endfor %}

{% if cluster %}
{% for table in tables %}
CREATE TABLE IF NOT EXISTS {{ name(table ~ "_loads") }} {{ on_cluster }} AS {{ local(table ~ "_loads") }}
{{ distributed(table ~ "_loads", "cityHash64(capture)") }};
{% endfor %}
{% endif %}
