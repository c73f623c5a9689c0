-- Raw tables: one a topic, columns named as the fields of the topic's row message.
--
-- `optional` fields are Nullable: absent means "not known" and reads as NULL, never as 0. A stored column carries its
-- scale in its name; the ALIAS beside it is the SI form that people read. Codecs were chosen by measurement on the
-- generated fleet (benchmarks/fleet.py): differences cut to the bits that move for what is noisy (0.75 bytes a value of
-- sm_active, where T64 takes 0.80 and ZSTD 0.95), Delta for memory and times (as small as DoubleDelta, read three times as
-- fast), DoubleDelta for energy, LZ4HC for the utilisation (whole per cents: 0.37 bytes, ZSTD 0.33, read twice as fast),
-- plain ZSTD for what rarely changes. Nullable costs 0.001 bytes a value.
--
-- Constraints are deterministic (a landed span that is replayed must pass again, so no now()) and NULL-safe.
-- Every insert of ingest carries a token; the windows below are how long a replay is recognised.

{% set dedup = "non_replicated_deduplication_window = 100000, replicated_deduplication_window = 100000, "
             ~ "replicated_deduplication_window_seconds = 604800" %}

{# Noise around a level: the differences, bit by bit, so that only the bits that move are kept. #}
{% set noisy = "Delta, T64('bit'), ZSTD(1)" %}
{% set gpu_metrics = [
  ("gpu_util_permille",            "UInt16", "LZ4HC(9)",       "gpu_util",                0.001,   "share of time in which a kernel ran"),
  ("mem_copy_util_permille",       "UInt16", noisy, "mem_copy_util",           0.001,   "share of time in which device memory was read or written"),
  ("sm_active_permille",           "UInt16", noisy, "sm_active",               0.001,   "share of multiprocessors with a warp resident"),
  ("sm_occupancy_permille",        "UInt16", noisy, "sm_occupancy",            0.001,   "resident warps over the most that fit"),
  ("tensor_active_permille",       "UInt16", noisy, "tensor_active",           0.001,   "share of cycles in which the tensor pipe was active"),
  ("dram_active_permille",         "UInt16", noisy, "dram_active",             0.001,   "device memory bandwidth over its peak"),
  ("fp16_active_permille",         "UInt16", noisy, "fp16_active",             0.001,   "share of cycles in which the FP16 pipe was active"),
  ("fp32_active_permille",         "UInt16", noisy, "fp32_active",             0.001,   "share of cycles in which the FP32 pipe was active"),
  ("fp64_active_permille",         "UInt16", noisy, "fp64_active",             0.001,   "share of cycles in which the FP64 pipe was active"),
  ("encoder_util_permille",        "UInt16", noisy, "encoder_util",            0.001,   "video encoder utilisation"),
  ("decoder_util_permille",        "UInt16", noisy, "decoder_util",            0.001,   "video decoder utilisation"),
  ("fb_used_mebibytes",            "UInt32", "Delta, ZSTD(1)", "fb_used_bytes",           1048576, "device memory in use"),
  ("fb_total_mebibytes",           "UInt32", "ZSTD(1)",        "fb_total_bytes",          1048576, "device memory"),
  ("fb_reserved_mebibytes",        "UInt32", "ZSTD(1)",        "fb_reserved_bytes",       1048576, "device memory that the driver keeps"),
  ("power_deciwatts",              "UInt16", noisy, "power_watts",             0.1,     "power drawn"),
  ("power_limit_deciwatts",        "UInt16", "ZSTD(1)",        "power_limit_watts",       0.1,     "enforced power limit"),
  ("energy_joules",                "UInt64", "DoubleDelta, ZSTD(1)", "",                        1,       "energy used since the driver was loaded"),
  ("temperature_celsius",          "UInt8",  "Delta, ZSTD(1)", "",                        1,       "temperature of the GPU"),
  ("mem_temperature_celsius",      "UInt8",  "Delta, ZSTD(1)", "",                        1,       "temperature of the device memory"),
  ("fan_permille",                 "UInt16", "T64, ZSTD(1)",   "fan",                     0.001,   "fan speed over its maximum"),
  ("sm_clock_megahertz",           "UInt16", "ZSTD(1)",        "sm_clock_hertz",          1000000, "clock of the multiprocessors"),
  ("mem_clock_megahertz",          "UInt16", "ZSTD(1)",        "mem_clock_hertz",         1000000, "clock of the device memory"),
  ("throttle_reasons",             "UInt64", "T64, ZSTD(1)",   "",                        1,       "bits that say why clocks are held down"),
  ("performance_state",            "UInt8",  "ZSTD(1)",        "",                        1,       "P-state, 0 the fastest"),
  ("pcie_tx_megabytes_per_s",      "UInt32", noisy, "pcie_tx_bytes_per_s",     1000000, "sent by the GPU over PCIe"),
  ("pcie_rx_megabytes_per_s",      "UInt32", noisy, "pcie_rx_bytes_per_s",     1000000, "received by the GPU over PCIe"),
  ("nvlink_tx_megabytes_per_s",    "UInt32", noisy, "nvlink_tx_bytes_per_s",   1000000, "sent by the GPU over all NVLinks"),
  ("nvlink_rx_megabytes_per_s",    "UInt32", noisy, "nvlink_rx_bytes_per_s",   1000000, "received by the GPU over all NVLinks"),
  ("pcie_link_generation",         "UInt8",  "ZSTD(1)",        "",                        1,       "current PCIe generation"),
  ("pcie_link_width",              "UInt8",  "ZSTD(1)",        "",                        1,       "current PCIe lanes"),
  ("pcie_replays",                 "UInt64", "Delta, ZSTD(1)", "",                        1,       "PCIe packets sent again"),
  ("ecc_corrected_errors",         "UInt64", "Delta, ZSTD(1)", "",                        1,       "memory errors that ECC mended"),
  ("ecc_uncorrected_errors",       "UInt64", "Delta, ZSTD(1)", "",                        1,       "memory errors that ECC could not mend"),
  ("remapped_rows_corrected",      "UInt32", "Delta, ZSTD(1)", "",                        1,       "memory rows remapped after corrected errors"),
  ("remapped_rows_uncorrected",    "UInt32", "Delta, ZSTD(1)", "",                        1,       "memory rows remapped after uncorrected errors"),
  ("processes",                    "UInt16", "ZSTD(1)",        "",                        1,       "compute processes on the GPU"),
] %}

{% set host_metrics = [
  ("uptime_s",                     "UInt32", "Delta, ZSTD(1)", "",                        1,       "time since the host was booted"),
  ("cores",                        "UInt16", "ZSTD(1)",        "",                        1,       "logical CPUs online"),
  ("cpu_util_permille",            "UInt16", "T64, ZSTD(1)",   "cpu_util",                0.001,   "share of CPU time neither idle nor waiting for I/O"),
  ("cpu_user_permille",            "UInt16", "T64, ZSTD(1)",   "cpu_user",                0.001,   "share of CPU time in user mode"),
  ("cpu_nice_permille",            "UInt16", "T64, ZSTD(1)",   "cpu_nice",                0.001,   "share of CPU time in user mode at lowered priority"),
  ("cpu_system_permille",          "UInt16", "T64, ZSTD(1)",   "cpu_system",              0.001,   "share of CPU time in the kernel"),
  ("cpu_iowait_permille",          "UInt16", "T64, ZSTD(1)",   "cpu_iowait",              0.001,   "share of CPU time idle while I/O was outstanding"),
  ("cpu_irq_permille",             "UInt16", "T64, ZSTD(1)",   "cpu_irq",                 0.001,   "share of CPU time in hardware interrupts"),
  ("cpu_softirq_permille",         "UInt16", "T64, ZSTD(1)",   "cpu_softirq",             0.001,   "share of CPU time in software interrupts"),
  ("cpu_steal_permille",           "UInt16", "T64, ZSTD(1)",   "cpu_steal",               0.001,   "share of CPU time that the hypervisor gave to others"),
  ("cpu_idle_permille",            "UInt16", "T64, ZSTD(1)",   "cpu_idle",                0.001,   "share of CPU time idle"),
  ("core_busy_min_permille",       "UInt16", "T64, ZSTD(1)",   "core_busy_min",           0.001,   "busy share of the least busy core"),
  ("core_busy_p50_permille",       "UInt16", "T64, ZSTD(1)",   "core_busy_p50",           0.001,   "busy share of the median core"),
  ("core_busy_p90_permille",       "UInt16", "T64, ZSTD(1)",   "core_busy_p90",           0.001,   "busy share that 90 % of the cores stay below"),
  ("core_busy_max_permille",       "UInt16", "T64, ZSTD(1)",   "core_busy_max",           0.001,   "busy share of the busiest core"),
  ("load1_centi",                  "UInt32", "Delta, ZSTD(1)", "load1",                   0.01,    "tasks running or uninterruptible, mean over 1 minute"),
  ("load5_centi",                  "UInt32", "Delta, ZSTD(1)", "load5",                   0.01,    "the same over 5 minutes"),
  ("load15_centi",                 "UInt32", "Delta, ZSTD(1)", "load15",                  0.01,    "the same over 15 minutes"),
  ("procs_running",                "UInt32", "T64, ZSTD(1)",   "",                        1,       "tasks runnable"),
  ("procs_blocked",                "UInt32", "T64, ZSTD(1)",   "",                        1,       "tasks waiting for I/O"),
  ("processes",                    "UInt32", "T64, ZSTD(1)",   "",                        1,       "processes that exist"),
  ("context_switches_per_s",       "UInt32", "T64, ZSTD(1)",   "",                        1,       "context switches"),
  ("interrupts_per_s",             "UInt32", "T64, ZSTD(1)",   "",                        1,       "interrupts served"),
  ("forks_per_s",                  "UInt32", "T64, ZSTD(1)",   "",                        1,       "processes and threads made"),
  ("mem_total_mebibytes",          "UInt32", "ZSTD(1)",        "mem_total_bytes",         1048576, "memory"),
  ("mem_available_mebibytes",      "UInt32", "Delta, ZSTD(1)", "mem_available_bytes",     1048576, "memory that programs can still have"),
  ("mem_free_mebibytes",           "UInt32", "Delta, ZSTD(1)", "mem_free_bytes",          1048576, "memory unused"),
  ("mem_cached_mebibytes",         "UInt32", "Delta, ZSTD(1)", "mem_cached_bytes",        1048576, "page cache"),
  ("mem_buffers_mebibytes",        "UInt32", "Delta, ZSTD(1)", "mem_buffers_bytes",       1048576, "block device buffers"),
  ("mem_dirty_mebibytes",          "UInt32", "T64, ZSTD(1)",   "mem_dirty_bytes",         1048576, "memory waiting to be written to disk"),
  ("mem_shared_mebibytes",         "UInt32", "Delta, ZSTD(1)", "mem_shared_bytes",        1048576, "shared memory and tmpfs"),
  ("swap_total_mebibytes",         "UInt32", "ZSTD(1)",        "swap_total_bytes",        1048576, "swap space"),
  ("swap_used_mebibytes",          "UInt32", "Delta, ZSTD(1)", "swap_used_bytes",         1048576, "swap space in use"),
  ("swap_in_kilobytes_per_s",      "UInt32", "T64, ZSTD(1)",   "swap_in_bytes_per_s",     1000,    "read from swap"),
  ("swap_out_kilobytes_per_s",     "UInt32", "T64, ZSTD(1)",   "swap_out_bytes_per_s",    1000,    "written to swap"),
  ("major_faults_per_s",           "UInt32", "T64, ZSTD(1)",   "",                        1,       "page faults that had to read storage"),
  ("psi_cpu_some_permille",        "UInt16", "T64, ZSTD(1)",   "psi_cpu_some",            0.001,   "share of time in which some task was stalled on cpu"),
  ("psi_cpu_full_permille",        "UInt16", "T64, ZSTD(1)",   "psi_cpu_full",            0.001,   "share of time in which all tasks were stalled on cpu"),
  ("psi_memory_some_permille",     "UInt16", "T64, ZSTD(1)",   "psi_memory_some",         0.001,   "share of time in which some task was stalled on memory"),
  ("psi_memory_full_permille",     "UInt16", "T64, ZSTD(1)",   "psi_memory_full",         0.001,   "share of time in which all tasks were stalled on memory"),
  ("psi_io_some_permille",         "UInt16", "T64, ZSTD(1)",   "psi_io_some",             0.001,   "share of time in which some task was stalled on io"),
  ("psi_io_full_permille",         "UInt16", "T64, ZSTD(1)",   "psi_io_full",             0.001,   "share of time in which all tasks were stalled on io"),
] %}

{% set device_metrics = [
  ("rx_kilobytes_per_s",           "UInt32", "T64, ZSTD(1)",   "rx_bytes_per_s",          1000,    "bytes received"),
  ("tx_kilobytes_per_s",           "UInt32", "T64, ZSTD(1)",   "tx_bytes_per_s",          1000,    "bytes sent"),
  ("rx_packets_per_s",             "UInt32", "T64, ZSTD(1)",   "",                        1,       "packets received"),
  ("tx_packets_per_s",             "UInt32", "T64, ZSTD(1)",   "",                        1,       "packets sent"),
  ("rx_errors_milli_per_s",        "UInt32", "T64, ZSTD(1)",   "rx_errors_per_s",         0.001,   "packets in error when received"),
  ("tx_errors_milli_per_s",        "UInt32", "T64, ZSTD(1)",   "tx_errors_per_s",         0.001,   "packets in error when sent"),
  ("rx_drops_milli_per_s",         "UInt32", "T64, ZSTD(1)",   "rx_drops_per_s",          0.001,   "packets dropped when received"),
  ("tx_drops_milli_per_s",         "UInt32", "T64, ZSTD(1)",   "tx_drops_per_s",          0.001,   "packets dropped when sent"),
  ("link_megabits_per_s",          "UInt32", "ZSTD(1)",        "link_bits_per_s",         1000000, "negotiated speed of the link"),
  ("link_up",                      "Bool",   "ZSTD(1)",        "",                        1,       "true when the link is up"),
  ("read_kilobytes_per_s",         "UInt32", "T64, ZSTD(1)",   "read_bytes_per_s",        1000,    "bytes read"),
  ("write_kilobytes_per_s",        "UInt32", "T64, ZSTD(1)",   "write_bytes_per_s",       1000,    "bytes written"),
  ("reads_milli_per_s",            "UInt32", "T64, ZSTD(1)",   "reads_per_s",             0.001,   "read operations"),
  ("writes_milli_per_s",           "UInt32", "T64, ZSTD(1)",   "writes_per_s",            0.001,   "write operations"),
  ("busy_permille",                "UInt16", "T64, ZSTD(1)",   "busy",                    0.001,   "share of time with a request in flight"),
  ("queue_centi",                  "UInt32", "T64, ZSTD(1)",   "queue",                   0.01,    "requests in flight, mean over the interval"),
  ("read_latency_microseconds",    "UInt32", "T64, ZSTD(1)",   "read_latency_seconds",    0.000001, "mean time of a read"),
  ("write_latency_microseconds",   "UInt32", "T64, ZSTD(1)",   "write_latency_seconds",   0.000001, "mean time of a write"),
] %}

{% set job_metrics = [
  ("processes",                    "UInt32", "T64, ZSTD(1)",   "",                        1,       "processes in the tree"),
  ("cpu_cores_milli",              "UInt32", "T64, ZSTD(1)",   "cpu_cores",               0.001,   "cores used, mean over the interval"),
  ("rss_mebibytes",                "UInt32", "Delta, ZSTD(1)", "rss_bytes",               1048576, "resident memory of the tree"),
  ("read_bytes",                   "UInt64", "T64, ZSTD(1)",   "",                        1,       "bytes read from storage in the interval"),
  ("written_bytes",                "UInt64", "T64, ZSTD(1)",   "",                        1,       "bytes written to storage in the interval"),
  ("gpu_memory_mebibytes",         "UInt32", "Delta, ZSTD(1)", "gpu_memory_bytes",        1048576, "device memory of the tree over all its GPUs"),
] %}

{# Factors below 1 are divided by their inverse: 421 permille reads 0.421, not 0.42100000000000004. #}
{% set inverse = {0.1: 10, 0.01: 100, 0.001: 1000, 0.000001: 1000000} %}

{% macro stored(metrics) %}
{% for column, type, codec, si, factor, meaning in metrics %}
    `{{ column }}` Nullable({{ type }}) COMMENT {{ meaning | literal }} CODEC({{ codec }}),
{% endfor %}
{% endmacro %}

{% macro si_forms(metrics) %}
{% for column, type, codec, si, factor, meaning in metrics if si %}
    `{{ si }}` ALIAS {{ column ~ " / " ~ inverse[factor] if factor < 1 else "toUInt64(" ~ column ~ ") * " ~ factor }} COMMENT {{ meaning | literal }},
{% endfor %}
{% endmacro %}

{% macro checks(metrics) %}
    CONSTRAINT host_given CHECK host != '',
    CONSTRAINT time_2020_to_2100 CHECK ts >= toDateTime64('2020-01-01 00:00:00', 3, 'UTC') AND ts < toDateTime64('2100-01-01 00:00:00', 3, 'UTC')
    {%- for column, type, codec, si, factor, meaning in metrics if column.endswith("_permille") %}
    {%- if loop.first %},
    CONSTRAINT ratios_to_1000_permille CHECK {% else %} AND {% endif %}ifNull(`{{ column }}` <= 1000, 1)
    {%- endfor %}

{% endmacro %}

{# Every query reads these, and they hardly differ from row to row: LZ4, which is read fastest. #}
{% macro stamp() %}
    `host` LowCardinality(String) CODEC(LZ4),
    `ts` DateTime64(3, 'UTC') COMMENT 'when it was measured' CODEC(Delta, LZ4),
    `period_ms` UInt32 COMMENT 'the interval that this row stands for' CODEC(LZ4),
{% endmacro %}

{% macro raw(order_by) %}
ENGINE = {{ engine("MergeTree") }}
PARTITION BY toDate(ts)
ORDER BY ({{ order_by }})
TTL toDateTime(ts) + INTERVAL {{ raw_ttl_days }} DAY
SETTINGS ttl_only_drop_parts = 1, {{ dedup }};
{% endmacro %}

CREATE TABLE IF NOT EXISTS {{ local("gpu_samples") }} {{ on_cluster }}
(
{{ stamp() }}
    `gpu` UInt8 COMMENT 'NVML index of the GPU on its host' CODEC(LZ4),
    `uuid` LowCardinality(String) COMMENT 'of the GPU, or of the MIG instance' CODEC(LZ4),
    `model` LowCardinality(String) CODEC(ZSTD(1)),
    `gpu_instance` Nullable(UInt8) COMMENT 'MIG' CODEC(ZSTD(1)),
    `compute_instance` Nullable(UInt8) COMMENT 'MIG' CODEC(ZSTD(1)),
    `job_ids` Array(LowCardinality(String)) COMMENT 'jobs with a process on it at this instant' CODEC(ZSTD(1)),
{{ stored(gpu_metrics) }}
{{ si_forms(gpu_metrics) }}
{{ checks(gpu_metrics) }}
)
{{ raw("host, gpu, uuid, ts") }}

CREATE TABLE IF NOT EXISTS {{ local("host_samples") }} {{ on_cluster }}
(
{{ stamp() }}
    `agent_version` LowCardinality(String) CODEC(ZSTD(1)),
    `kernel` LowCardinality(String) CODEC(ZSTD(1)),
{{ stored(host_metrics) }}
{{ si_forms(host_metrics) }}
{{ checks(host_metrics) }}
)
{{ raw("host, ts") }}

CREATE TABLE IF NOT EXISTS {{ local("device_samples") }} {{ on_cluster }}
(
{{ stamp() }}
    `kind` LowCardinality(String) COMMENT 'nic, disk' CODEC(ZSTD(1)),
    `device` LowCardinality(String) COMMENT 'eth0, nvme0n1' CODEC(ZSTD(1)),
{{ stored(device_metrics) }}
{{ si_forms(device_metrics) }}
{{ checks(device_metrics) }}
)
{{ raw("host, kind, device, ts") }}

CREATE TABLE IF NOT EXISTS {{ local("metric_samples") }} {{ on_cluster }}
(
{{ stamp() }}
    `source` LowCardinality(String) COMMENT 'name of the scraped endpoint' CODEC(ZSTD(1)),
    `name` LowCardinality(String) COMMENT 'metric name, as exposed' CODEC(ZSTD(1)),
    `labels` Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    `value` Float64 CODEC(Delta, ZSTD(1)),
    `series` UInt64 MATERIALIZED cityHash64(host, source, name, mapSort(labels)) COMMENT 'one value a series' CODEC(ZSTD(1)),
    CONSTRAINT name_given CHECK name != '',
{{ checks([]) }}
)
{{ raw("name, host, source, series, ts") }}

CREATE TABLE IF NOT EXISTS {{ local("job_events") }} {{ on_cluster }}
(
{{ stamp() }}
    `job_id` String COMMENT 'joins hosts and ranks' CODEC(ZSTD(1)),
    `event` LowCardinality(String) COMMENT 'started, running, ended' CODEC(ZSTD(1)),
    `name` LowCardinality(String) CODEC(ZSTD(1)),
    `command` String CODEC(ZSTD(1)),
    `user` LowCardinality(String) CODEC(ZSTD(1)),
    `scheduler` LowCardinality(String) COMMENT 'slurm, kubernetes, torchrun, none' CODEC(ZSTD(1)),
    `pid` UInt32 COMMENT 'topmost process of the tree' CODEC(ZSTD(1)),
    `started_at` DateTime64(3, 'UTC') COMMENT 'of that process' CODEC(ZSTD(1)),
    `rank` Nullable(UInt32) CODEC(ZSTD(1)),
    `world_size` Nullable(UInt32) CODEC(ZSTD(1)),
    `tree_id` LowCardinality(String) COMMENT 'comm of all ancestors, oldest first' CODEC(ZSTD(1)),
    `labels` Map(LowCardinality(String), String) COMMENT 'account, partition, queue' CODEC(ZSTD(1)),
{{ stored(job_metrics) }}
    `gpus` Array(UInt8) COMMENT 'NVML indices held' CODEC(ZSTD(1)),
    `gpu_uuids` Array(LowCardinality(String)) CODEC(ZSTD(1)),
{{ si_forms(job_metrics) }}
    CONSTRAINT job_given CHECK job_id != '',
{{ checks(job_metrics) }}
)
{{ raw("job_id, host, pid, ts") }}

CREATE TABLE IF NOT EXISTS {{ local("source_health") }} {{ on_cluster }}
(
{{ stamp() }}
    `source` LowCardinality(String) COMMENT 'host, devices, gpu, jobs, shipper' CODEC(ZSTD(1)),
    `subject` String COMMENT 'what of it: empty for the source, a GPU\'s uuid, uuid/column' CODEC(ZSTD(1)),
    `state` LowCardinality(String) COMMENT 'ok, unsupported, failed, gone, timeout, denied' CODEC(ZSTD(1)),
    `seconds` Nullable(Float64) COMMENT 'what the read took' CODEC(ZSTD(1)),
    `why` String CODEC(ZSTD(1)),
    `count` Nullable(UInt64) COMMENT 'e.g. dropped messages, late ticks' CODEC(ZSTD(1)),
{{ checks([]) }}
)
{{ raw("host, source, subject, ts") }}

-- Not partitioned by time: a message that is refused twice (its span was replayed) is one row after merges, and
-- one row with FINAL at once.
CREATE TABLE IF NOT EXISTS {{ local("dead_letters") }} {{ on_cluster }}
(
    `topic` LowCardinality(String) CODEC(ZSTD(1)),
    `topic_uuid` LowCardinality(String) COMMENT 'a topic made again has another' CODEC(ZSTD(1)),
    `partition` UInt32 CODEC(ZSTD(1)),
    `offset` UInt64 CODEC(Delta, ZSTD(1)),
    `ts` DateTime64(3, 'UTC') COMMENT 'when it was refused' CODEC(ZSTD(1)),
    `reason` String CODEC(ZSTD(1)),
    `key` String CODEC(ZSTD(1)),
    `value` String COMMENT 'the bytes as they came' CODEC(ZSTD(1)),
    `headers` Map(LowCardinality(String), String) CODEC(ZSTD(1))
)
ENGINE = {{ engine("ReplacingMergeTree") }}
ORDER BY (topic, topic_uuid, partition, offset)
TTL toDateTime(ts) + INTERVAL {{ raw_ttl_days }} DAY
SETTINGS {{ dedup }};

-- One row a span that landed, written by the very insert that landed it: exact over partitions and replays.
-- Partitioned by what is in the rows, not by when they came: replays are recognised within a partition, and one may
-- come after midnight. The token is "<topic UUID>/<partition>/<first>-<last>"; an insert by hand has none, and its row says so.
CREATE TABLE IF NOT EXISTS {{ local("ingest_batches") }} {{ on_cluster }}
(
    `table` LowCardinality(String) CODEC(ZSTD(1)),
    `topic_uuid` LowCardinality(String) CODEC(ZSTD(1)),
    `partition` UInt32 CODEC(ZSTD(1)),
    `first` UInt64 COMMENT 'first offset of the span' CODEC(Delta, ZSTD(1)),
    `last` UInt64 COMMENT 'last offset of the span' CODEC(Delta, ZSTD(1)),
    `rows` UInt64 CODEC(ZSTD(1)),
    `min_ts` DateTime64(3, 'UTC') COMMENT 'of the rows' CODEC(ZSTD(1)),
    `max_ts` DateTime64(3, 'UTC') COMMENT 'of the rows' CODEC(ZSTD(1)),
    `inserted_at` DateTime64(3, 'UTC') COMMENT 'by the store\'s clock' CODEC(ZSTD(1)),
    `token` String COMMENT 'the insert\'s token, as it was' CODEC(ZSTD(1))
)
ENGINE = {{ engine("MergeTree") }}
PARTITION BY toDate(max_ts) -- not inserted_at: a token is known per partition, and a replay may come after midnight
ORDER BY (table, topic_uuid, partition, first)
TTL toDateTime(inserted_at) + INTERVAL {{ minute_ttl_days }} DAY
SETTINGS ttl_only_drop_parts = 1, {{ dedup }};

{% for table in ["gpu_samples", "host_samples", "device_samples", "metric_samples", "job_events", "source_health", "dead_letters"] %}
CREATE MATERIALIZED VIEW IF NOT EXISTS {{ name("ingest_batches_" ~ table ~ "_mv") }} {{ on_cluster }}
TO {{ local("ingest_batches") }} AS
WITH
    getSetting('insert_deduplication_token') AS insert_token,
    extractGroups(insert_token, '^(.+)/(\\d+)/(\\d+)-(\\d+)$') AS span
SELECT
    '{{ table }}' AS table,
    span[1] AS topic_uuid,
    toUInt32OrZero(span[2]) AS partition,
    toUInt64OrZero(span[3]) AS first,
    toUInt64OrZero(span[4]) AS last,
    count() AS rows,
    min(src.ts) AS min_ts,
    max(src.ts) AS max_ts,
    now64(3, 'UTC') AS inserted_at,
    insert_token AS token
FROM {{ local(table) }} AS src;
{% endfor %}

{% if cluster %}
{% for table, key in [
  ("gpu_samples", "cityHash64(host)"), ("host_samples", "cityHash64(host)"), ("device_samples", "cityHash64(host)"),
  ("metric_samples", "cityHash64(host)"), ("job_events", "cityHash64(host)"), ("source_health", "cityHash64(host)"),
  ("dead_letters", "rand()"), ("ingest_batches", "rand()"),
] %}
CREATE TABLE IF NOT EXISTS {{ name(table) }} {{ on_cluster }} AS {{ local(table) }}
{{ distributed(table, key) }};
{% endfor %}
{% endif %}
