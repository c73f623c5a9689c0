-- What is loaded of analysed traces: of every rank of a capture the latest load that is whole, and nothing of others.
{% set join = ("GLOBAL " if cluster else "") ~ "INNER JOIN" %}
{% set tables = {
  "trace_ranks": ["span_ns", "busy_ns", "idle_ns", "compute_ns", "comm_ns", "mem_ns", "comm_compute_overlap_ns", "exposed_comm_ns",
                  "exposed_mem_ns", "launch_delay_p50_ns", "launch_delay_max_ns", "step_p50_ns", "step_min_ns", "step_max_ns"],
  "trace_kernels": ["total_ns", "min_ns", "max_ns", "p50_ns", "p95_ns"],
  "trace_ops": ["cpu_total_ns", "cpu_self_ns", "gpu_total_ns", "gpu_self_ns"],
  "trace_steps": ["start_ns", "duration_ns", "busy_ns", "idle_ns", "compute_ns", "comm_ns", "mem_ns", "comm_compute_overlap_ns", "exposed_comm_ns"],
  "trace_streams": ["busy_ns", "idle_ns", "host_wait_ns", "kernel_wait_ns", "other_ns"],
  "trace_collectives": ["start_ns", "duration_ns"],
  "trace_memory": ["at_ns"],
  "trace_timeline": ["start_ns", "duration_ns"],
} %}
{% set shares = {
  "trace_ranks": [("busy", "busy_ns", "span_ns"), ("exposed_comm", "exposed_comm_ns", "span_ns")],
  "trace_steps": [("busy", "busy_ns", "duration_ns"), ("exposed_comm", "exposed_comm_ns", "duration_ns")],
  "trace_kernels": [("mean_ns", "total_ns", "count")],
} %}

CREATE OR REPLACE VIEW {{ name("trace_loads") }} {{ on_cluster }} AS
SELECT capture, process, max(whole.load) AS load
FROM {{ name("trace_ranks_loads") }} AS whole
GROUP BY capture, process;

{% for table, durations in tables.items() %}
CREATE OR REPLACE VIEW {{ name(table) }} {{ on_cluster }} AS
SELECT
    stored.*
{%- for column in durations %},
    stored.{{ column }} / 1e9 AS {{ column.removesuffix("_ns") }}_seconds
{%- endfor %}
{%- for column, part, whole in shares.get(table, []) %},
    stored.{{ part }} / nullIf(stored.{{ whole }}, 0) AS {{ column }}
{%- endfor %}

FROM {{ name(table ~ "_loads") }} AS stored
{{ join }} {{ name("trace_loads") }} AS latest
    ON latest.capture = stored.capture AND latest.process = stored.process AND latest.load = stored.load;

{% endfor %}
