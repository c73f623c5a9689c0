-- What is loaded of analysed traces: of every rank of a capture the latest load that is whole, and nothing of others.
{% set join = ("GLOBAL " if cluster else "") ~ "INNER JOIN" %}
{% set parts = ["span_ns", "busy_ns", "idle_ns", "compute_ns", "comm_ns", "mem_ns", "comm_compute_overlap_ns", "exposed_comm_ns", "exposed_mem_ns"] %}
{% set idle = ["idle_input_ns", "idle_sync_ns", "idle_allocation_ns", "idle_launching_ns", "idle_device_ns", "idle_unknown_ns"] %}
{# What reads in seconds, too. #}
{% set tables = {
  "trace_ranks": parts + ["mem_compute_overlap_ns", "mem_comm_overlap_ns"] + idle + ["total_ns", "launch_delay_p50_ns", "launch_delay_p99_ns", "step_p50_ns", "step_min_ns", "step_max_ns"],
  "trace_kernels": ["total_ns", "min_ns", "p50_ns", "p95_ns", "max_ns"],
  "trace_ops": ["cpu_total_ns", "cpu_self_ns", "gpu_total_ns", "gpu_self_ns"],
  "trace_steps": ["start_ns", "duration_ns", "period_ns"] + parts + ["during_busy_ns", "during_compute_ns", "during_exposed_comm_ns", "during_exposed_mem_ns", "lead_ns", "tail_ns", "wait_ns", "input_ns"],
  "trace_streams": ["start_ns", "span_ns", "busy_ns", "total_ns", "compute_ns", "comm_ns", "mem_ns", "idle_ns", "host_wait_ns", "kernel_wait_ns", "other_ns"],
  "trace_collectives": ["start_ns", "duration_ns", "compute_before_ns", "comm_before_ns", "mem_before_ns", "input_before_ns", "host_before_ns", "wait_ns", "transfer_ns", "skew_ns", "late_ns", "cost_ns"],
  "trace_memory": ["at_ns"],
  "trace_timeline": ["start_ns", "duration_ns"],
} %}
{# What follows from others: shares of 0-1, means, bandwidths. The bus bandwidth is nccl-tests' (doc/PERFORMANCE.md). #}
{% set size = "ifNull(nullIf(stored.group_size, 0), stored.met)" %}
{% set follows = {
  "trace_ranks": [("busy_share", "stored.busy_ns / nullIf(stored.span_ns, 0)"), ("exposed_comm_share", "stored.exposed_comm_ns / nullIf(stored.span_ns, 0)"),
                  ("compute_share", "stored.compute_ns / nullIf(stored.span_ns, 0)"), ("comm_share", "stored.comm_ns / nullIf(stored.span_ns, 0)")],
  "trace_kernels": [("mean_ns", "stored.total_ns / nullIf(stored.count, 0)"), ("mean_seconds", "mean_ns / 1e9"),
                    ("launch_delay_mean_seconds", "stored.launch_delay_mean_ns / 1e9"), ("bytes_per_s", "stored.bytes / nullIf(stored.sized_ns, 0) * 1e9")],
  "trace_steps": [("during_busy_share", "stored.during_busy_ns / nullIf(stored.duration_ns, 0)"), ("exposed_comm_share", "stored.exposed_comm_ns / nullIf(stored.duration_ns, 0)")],
  "trace_streams": [("busy_share", "stored.busy_ns / nullIf(stored.span_ns, 0)")],
  "trace_collectives": [
    ("bus_bytes_per_s", "stored.bytes / nullIf(stored.transfer_ns, 0) * 1e9 * multiIf(" ~ size ~ " < 2, NULL, stored.kind = 'all_reduce', 2 * (" ~ size ~ " - 1) / " ~ size
      ~ ", stored.kind IN ('all_gather', 'reduce_scatter', 'all_to_all', 'gather', 'scatter'), (" ~ size ~ " - 1) / " ~ size
      ~ ", stored.kind IN ('broadcast', 'reduce', 'send_recv'), 1, NULL)"),
  ],
} %}

CREATE OR REPLACE VIEW {{ name("trace_loads") }} {{ on_cluster }} AS
SELECT capture_id, process, max(whole.load) AS load
FROM {{ name("trace_ranks_loads") }} AS whole
GROUP BY capture_id, process;

{% for table, durations in tables.items() %}
CREATE OR REPLACE VIEW {{ name(table) }} {{ on_cluster }} AS
SELECT
    stored.*{{ " REPLACE (nullIf(stored.lane, 65535) AS lane, nullIf(stored.correlation, -1) AS correlation, nullIf(stored.external, -1) AS external, nullIf(stored.sequence, -1) AS sequence)" if table == "trace_timeline" }}
{%- for column in durations %},
    stored.{{ column }} / 1e9 AS {{ column.removesuffix("_ns") }}_seconds
{%- endfor %}
{%- for column, expression in follows.get(table, []) %},
    {{ expression }} AS {{ column }}
{%- endfor %}

FROM {{ name(table ~ "_loads") }} AS stored
{{ join }} {{ name("trace_loads") }} AS latest
    ON latest.capture_id = stored.capture_id AND latest.process = stored.process AND latest.load = stored.load;

{% endfor %}
