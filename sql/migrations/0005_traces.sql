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

{# The breakdown of a stretch of time; of a trace, or of what a step launched. #}
{% set parts = [
  ("gpu_events", "UInt64", "kernels, copies and sets"),
  ("span_ns", "Nullable(Int64)", "from the first GPU event's start to the last one's end"),
  ("busy_ns", "Nullable(Int64)", "in which any GPU event ran"),
  ("idle_ns", "Nullable(Int64)", "span without busy"),
  ("compute_ns", "Nullable(Int64)", "in which a kernel ran that is no communication"),
  ("comm_ns", "Nullable(Int64)", "in which a communication kernel ran"),
  ("mem_ns", "Nullable(Int64)", "in which a copy or set ran"),
  ("comm_compute_overlap_ns", "Nullable(Int64)", "in which communication and computation ran at once"),
  ("exposed_comm_ns", "Nullable(Int64)", "communication without computation beside it"),
  ("exposed_mem_ns", "Nullable(Int64)", "copies and sets without computation or communication beside them"),
] %}
{% set about = [
  ("workload", "LowCardinality(String)", "what was trained or served: as the trace names it, else the job's name"),
  ("gpu_model", "LowCardinality(String)", "of the device that it ran on; empty where the trace does not tell"),
] %}

{% set tables = {
  "trace_ranks": [
    ("file", "String", "what was analysed"),
    ("schema_version", "UInt16", "of the analysis (docs/analysis.md)"),
  ] + about + [
    ("devices", "Array(Int32)", "on which something ran"),
    ("backend", "LowCardinality(String)", "of its collectives"),
    ("world_size", "Nullable(UInt32)", "ranks of the job; NULL where the trace does not say"),
    ("events", "UInt64", "events of the trace"),
  ] + parts + [
    ("total_ns", "Nullable(Int64)", "sum of the durations of all GPU events"),
    ("launch_matched", "Nullable(UInt64)", "GPU events whose launching call is there"),
    ("launch_delay_p50_ns", "Nullable(Int64)", "from a launching call's end to its event's start, median"),
    ("launch_delay_p99_ns", "Nullable(Int64)", "that 99 % stay below"),
    ("queue_depth", "Nullable(Float64)", "GPU events launched and not begun, mean over time"),
    ("steps", "UInt32", "that were found"),
    ("step_source", "LowCardinality(String)", "how"),
    ("step_p50_ns", "Nullable(Int64)", "duration of a step, median"),
    ("step_min_ns", "Nullable(Int64)", "the shortest"),
    ("step_max_ns", "Nullable(Int64)", "the longest"),
    ("flops", "Nullable(UInt64)", "floating-point operations of what shapes tell; NULL where none is told"),
    ("flops_per_s", "Nullable(Float64)", "over the time of the kernels that did them"),
    ("mfu", "Nullable(Float64)", "time that the flops take at the device's peak, by the time that passed: 0-1"),
    ("memory_peak_bytes", "Nullable(Int64)", "most that tensors held on one device"),
    ("memory_reserved_bytes", "Nullable(Int64)", "most that the allocator had of one device"),
    ("findings", "Array(Tuple(id String, text String, value Float64, unit String, cost_ns Int64))", "in words, the costliest first"),
    ("notes", "Array(String)", "what was wrong with the file and what was left out"),
    ("row_counts", "Map(LowCardinality(String), UInt64)", "of this load in the other tables"),
  ],
  "trace_kernels": about + [
    ("name", "LowCardinality(String)", "as the trace has it"),
    ("short_name", "LowCardinality(String)", "readable"),
    ("sort", "LowCardinality(String)", "compute, comm, memcpy or memset"),
    ("count", "UInt64", "how often it ran"),
    ("total_ns", "Int64", "sum of its durations"),
    ("min_ns", "Int64", "the shortest"),
    ("p50_ns", "Int64", "the median"),
    ("p95_ns", "Int64", "that 95 % stay below"),
    ("max_ns", "Int64", "the longest"),
    ("share", "Nullable(Float64)", "of the sum of all durations on the rank, 0-1"),
    ("streams", "Array(LowCardinality(String))", "as device/stream"),
    ("operator", "LowCardinality(String)", "that launched most of it; empty where none is known"),
    ("operators", "Array(Tuple(name String, count UInt64, total_ns Int64))", "all that launched it"),
    ("occupancy", "Nullable(Float64)", "the profiler's estimate, mean over its time: 0-1"),
    ("matrix_units", "Nullable(Bool)", "whether its name says tensor cores; NULL where it does not say"),
  ],
  "trace_ops": [
    ("by_shape", "Bool", "false: all calls of the operator; true: those with these inputs"),
    ("name", "LowCardinality(String)", "of the operator"),
    ("dims", "String", "sizes of its inputs, as JSON; empty over all calls"),
    ("types", "String", "types of its inputs, as JSON; empty over all calls"),
    ("count", "UInt64", "calls"),
    ("cpu_total_ns", "Int64", "within it"),
    ("cpu_self_ns", "Int64", "within it and none of the operators that it called"),
    ("gpu_total_ns", "Int64", "of GPU events that it or an operator below it launched"),
    ("gpu_self_ns", "Int64", "of those that it launched itself"),
    ("gpu_events", "UInt64", "that it launched itself"),
    ("flops", "Nullable(UInt64)", "of all its calls, where its shapes tell"),
    ("bytes", "Nullable(UInt64)", "that they must move at the least"),
    ("flops_per_s", "Nullable(Float64)", "over the time of its kernels"),
    ("peak_share", "Nullable(Float64)", "that by the device's peak for the type, 0-1"),
    ("roof_share", "Nullable(Float64)", "that by what the roofline allows, 0-1"),
    ("bound", "LowCardinality(String)", "compute or memory, by the roofline"),
  ],
  "trace_steps": [
    ("step", "UInt32", "its place among the steps of the trace, from 0"),
    ("number", "Nullable(Int64)", "the program's own, where it has one"),
    ("name", "String", "e.g. ProfilerStep#12"),
    ("start_ns", "Int64", "on the host, from captured_at"),
    ("duration_ns", "Int64", "on the host"),
    ("period_ns", "Nullable(Int64)", "from its start to the next one's"),
  ] + parts + [
    ("during_busy_ns", "Nullable(Int64)", "in which the GPU ran anything while the step lasted, of whichever step"),
    ("lead_ns", "Nullable(Int64)", "from its start to that of its first GPU event"),
    ("tail_ns", "Nullable(Int64)", "from its end to that of its last GPU event"),
    ("wait_ns", "Nullable(Int64)", "in which the host waited for the device"),
    ("input_ns", "Nullable(Int64)", "in which the program waited for its next batch"),
    ("operators", "UInt64", "begun in it"),
    ("launches", "UInt64", "begun in it"),
    ("flops", "Nullable(UInt64)", "launched in it"),
    ("mfu", "Nullable(Float64)", "as in trace_ranks, over the step: 0-1"),
    ("memory_peak_bytes", "Nullable(Int64)", "most that tensors held on one device while it lasted"),
  ],
  "trace_streams": [
    ("device", "Int32", ""),
    ("stream", "Int64", ""),
    ("gpu_events", "UInt64", "that ran on it"),
    ("start_ns", "Int64", "of the first, from captured_at"),
    ("span_ns", "Int64", "to the end of the last"),
    ("busy_ns", "Int64", "in which one of them ran"),
    ("total_ns", "Int64", "sum of their durations"),
    ("compute_ns", "Int64", "in which a kernel ran that is no communication"),
    ("comm_ns", "Int64", "in which a communication kernel ran"),
    ("mem_ns", "Int64", "in which a copy or set ran"),
    ("idle_ns", "Int64", "gaps between its events"),
    ("host_wait_ns", "Int64", "gaps in which the next event was not launched yet when the one before ended"),
    ("kernel_wait_ns", "Int64", "other gaps that are short"),
    ("other_ns", "Int64", "the other gaps"),
  ],
  "trace_collectives": [
    ("seq", "UInt32", "its place among the collectives of the rank, from 0"),
    ("group", "LowCardinality(String)", "process group"),
    ("group_ranks", "Array(UInt32)", "its members; empty where the trace does not tell"),
    ("group_size", "Nullable(UInt32)", ""),
    ("kind", "LowCardinality(String)", "all_reduce, all_gather, …"),
    ("dtype", "LowCardinality(String)", "of its elements"),
    ("bytes", "Nullable(UInt64)", "of this rank's message, as nccl-tests count it"),
    ("source", "Nullable(UInt32)", "the sender, of a point-to-point transfer"),
    ("target", "Nullable(UInt32)", "the receiver"),
    ("start_ns", "Int64", "by this rank's clock, from captured_at"),
    ("duration_ns", "Int64", "waiting for others, and the transfer"),
    ("compute_before_ns", "Nullable(Int64)", "of the time since the last collective of the group: kernels that compute"),
    ("comm_before_ns", "Nullable(Int64)", "other collectives"),
    ("mem_before_ns", "Nullable(Int64)", "copies and sets"),
    ("input_before_ns", "Nullable(Int64)", "nothing on the GPU while the program waited for its next batch"),
    ("host_before_ns", "Nullable(Int64)", "nothing on the GPU"),
    ("meeting", "Nullable(UInt32)", "the same on all ranks of one collective (of a load); NULL where no other was found"),
    ("met", "UInt32", "ranks that were found in it"),
    ("wait_ns", "Nullable(Int64)", "that this rank waited for the others"),
    ("transfer_ns", "Nullable(Int64)", "that it took when all were there"),
    ("skew_ns", "Nullable(Int64)", "from the first arrival to the last; NULL where the clocks may be wrong by more"),
    ("last", "Bool", "this rank surely came last"),
    ("late_ns", "Nullable(Int64)", "then: how much later than the median of the others"),
    ("cost_ns", "Nullable(Int64)", "then: how much later than the last but one"),
    ("late_by", "Map(LowCardinality(String), Int64)", "then: what it did longer than the median of the others since they last met"),
  ],
  "trace_memory": [
    ("device_type", "LowCardinality(String)", "gpu or cpu"),
    ("device", "Int32", ""),
    ("at_ns", "Int64", "from captured_at"),
    ("allocated_bytes", "Int64", "that tensors hold: of each stretch of time the point with most"),
    ("reserved_bytes", "Nullable(Int64)", "that the allocator has of the device"),
    ("absolute", "Bool", "false: against the beginning of the trace, for the allocator's totals are not told"),
    ("peak", "Bool", "the point with most of all"),
    ("holders", "Array(Tuple(operator String, module String, step String, blocks UInt64, bytes Int64))", "who held it, at the peak alone"),
  ],
  "trace_timeline": [
    ("kind", "LowCardinality(String)", "kernel, memcpy, memset, call, operator, annotation, wait"),
    ("device", "Nullable(Int32)", "of what ran on one"),
    ("stream", "Nullable(Int64)", "of what ran on a device"),
    ("thread", "LowCardinality(String)", "pid/tid of what ran on the host"),
    ("start_ns", "Int64", "from captured_at"),
    ("duration_ns", "Int64", ""),
    ("name", "LowCardinality(String)", ""),
    ("correlation", "Int64", "the same of a call and of what it launched; -1 where there is none"),
  ],
} %}
{% set orders = {
  "trace_ranks": "", "trace_kernels": ", name", "trace_ops": ", by_shape, name", "trace_steps": ", step",
  "trace_streams": ", device, stream", "trace_collectives": ", seq", "trace_memory": ", device_type, device, at_ns",
  "trace_timeline": ", start_ns",
} %}
{# Times that grow from row to row as differences; the rest as it is. #}
{% set codecs = {"start_ns": "Delta, ZSTD(1)", "at_ns": "Delta, ZSTD(1)", "seq": "Delta, ZSTD(1)", "correlation": "Delta, ZSTD(1)"} %}

{% for table, columns in tables.items() %}
CREATE TABLE IF NOT EXISTS {{ local(table ~ "_loads") }} {{ on_cluster }}
(
    `capture_id` LowCardinality(String) COMMENT 'what was recorded together' CODEC(ZSTD(1)),
    `job_id` LowCardinality(String) COMMENT 'as in jobs; empty where not told' CODEC(ZSTD(1)),
    `host` LowCardinality(String) COMMENT 'on which it was recorded; empty where not told' CODEC(ZSTD(1)),
    `rank` UInt32 CODEC(ZSTD(1)),
    `process` LowCardinality(String) COMMENT 'what a load replaces: the rank where the trace tells it, else host/rank' CODEC(ZSTD(1)),
    `captured_at` DateTime64(9, 'UTC') COMMENT 'the first event of the trace' CODEC(ZSTD(1)),
    `load` LowCardinality(String) COMMENT 'a UUID of version 7: later ones are greater' CODEC(ZSTD(1)),
    `loaded_at` DateTime64(3, 'UTC') COMMENT 'when that load began, by the store\'s clock' CODEC(ZSTD(1)),
{% for column, type, meaning in columns %}
    `{{ column }}` {{ type }} COMMENT {{ meaning | literal }} CODEC({{ codecs.get(column, "ZSTD(1)") }}),
{% endfor %}
    CONSTRAINT capture_given CHECK capture_id != '',
    CONSTRAINT load_given CHECK load != ''
)
ENGINE = {{ engine("MergeTree") }}
PARTITION BY {{ "toDate(loaded_at)" if table == "trace_timeline" else "toStartOfMonth(loaded_at)" }}
ORDER BY (capture_id, process, load{{ orders[table] }})
TTL toDateTime(loaded_at) + INTERVAL {{ raw_ttl_days if table == "trace_timeline" else hour_ttl_days }} DAY
SETTINGS ttl_only_drop_parts = 1, {{ dedup }};

{% endfor %}

{% if cluster %}
{% for table in tables %}
CREATE TABLE IF NOT EXISTS {{ name(table ~ "_loads") }} {{ on_cluster }} AS {{ local(table ~ "_loads") }}
{{ distributed(table ~ "_loads", "cityHash64(capture_id)") }};
{% endfor %}
{% endif %}
