-- Every metric that the field looks at: columns for GPUs, hosts and devices, processes on GPUs, events of GPUs, and
-- jobs' shares of a GPU.
--
-- On a database with data: old rows read NULL (or empty) in the new columns, and nothing is written anew. The queries of
-- views that land are changed in place (MODIFY QUERY), so a view keeps its identity: no row misses a rollup between two
-- views, and the replay of a span that landed before is still recognised by all of them.
--
-- Raw only, so that an insert stays cheap, are all new columns but: graphics_active and nvlink_crc_errors of a
-- GPU, oom_kills and tcp_retransmits of a host, and of devices what the panels of a host show (`device_rolled`).
-- Processes on GPUs are raw only too. Events are few, and kept as long as the hours.

{% set dedup = "non_replicated_deduplication_window = 100000, replicated_deduplication_window = 100000, "
             ~ "replicated_deduplication_window_seconds = 604800" %}
{% set noisy = "Delta, T64('bit'), ZSTD(1)" %}

{% set gpu_metrics = [
  ("graphics_active_permille",        "UInt16", noisy,            "graphics_active",                 0.001,    "share of time in which the graphics or compute engine was active"),
  ("power_limit_default_deciwatts",   "UInt16", "ZSTD(1)",        "power_limit_default_watts",       0.1,      "power limit as the board came"),
  ("power_limit_min_deciwatts",       "UInt16", "ZSTD(1)",        "power_limit_min_watts",           0.1,      "lowest power limit that can be set"),
  ("power_limit_max_deciwatts",       "UInt16", "ZSTD(1)",        "power_limit_max_watts",           0.1,      "highest power limit that can be set"),
  ("temperature_slowdown_celsius",    "UInt8",  "ZSTD(1)",        "",                                1,        "temperature at which the GPU slows itself down"),
  ("temperature_shutdown_celsius",    "UInt8",  "ZSTD(1)",        "",                                1,        "temperature at which the GPU shuts itself down"),
  ("graphics_clock_megahertz",        "UInt16", "ZSTD(1)",        "graphics_clock_hertz",            1000000,  "clock of the graphics engine"),
  ("video_clock_megahertz",           "UInt16", "ZSTD(1)",        "video_clock_hertz",               1000000,  "clock of the video encoder and decoder"),
  ("sm_clock_max_megahertz",          "UInt16", "ZSTD(1)",        "sm_clock_max_hertz",              1000000,  "highest clock of the multiprocessors"),
  ("mem_clock_max_megahertz",         "UInt16", "ZSTD(1)",        "mem_clock_max_hertz",             1000000,  "highest clock of the device memory"),
  ("bar1_used_mebibytes",             "UInt32", "Delta, ZSTD(1)", "bar1_used_bytes",                 1048576,  "device memory mapped for the host and other devices (BAR1) in use"),
  ("bar1_total_mebibytes",            "UInt32", "ZSTD(1)",        "bar1_total_bytes",                1048576,  "device memory that can be mapped for the host and other devices (BAR1)"),
  ("nvlink_crc_errors",               "UInt64", "Delta, ZSTD(1)", "",                                1,        "packets in error over all NVLinks, since the driver was loaded"),
  ("nvlink_replay_errors",            "UInt64", "Delta, ZSTD(1)", "",                                1,        "packets sent again over all NVLinks, since the driver was loaded"),
  ("nvlink_recovery_errors",          "UInt64", "Delta, ZSTD(1)", "",                                1,        "times that an NVLink had to be trained again, since the driver was loaded"),
  ("nvlink_links_up",                 "UInt8",  "ZSTD(1)",        "",                                1,        "NVLinks that are active"),
  ("ecc_enabled",                     "Bool",   "ZSTD(1)",        "",                                1,        "1 when ECC is on"),
  ("ecc_corrected_dram_errors",       "UInt64", "Delta, ZSTD(1)", "",                                1,        "errors of device memory that ECC mended, since the driver was loaded"),
  ("ecc_uncorrected_dram_errors",     "UInt64", "Delta, ZSTD(1)", "",                                1,        "errors of device memory that ECC could not mend, since the driver was loaded"),
  ("ecc_corrected_sram_errors",       "UInt64", "Delta, ZSTD(1)", "",                                1,        "errors of caches and registers that ECC mended, since the driver was loaded"),
  ("ecc_uncorrected_sram_errors",     "UInt64", "Delta, ZSTD(1)", "",                                1,        "errors of caches and registers that ECC could not mend, since the driver was loaded"),
  ("ecc_corrected_lifetime_errors",   "UInt64", "Delta, ZSTD(1)", "",                                1,        "errors that ECC mended in the life of the board"),
  ("ecc_uncorrected_lifetime_errors", "UInt64", "Delta, ZSTD(1)", "",                                1,        "errors that ECC could not mend in the life of the board"),
  ("retired_pages_corrected",         "UInt32", "Delta, ZSTD(1)", "",                                1,        "memory pages retired after corrected errors"),
  ("retired_pages_uncorrected",       "UInt32", "Delta, ZSTD(1)", "",                                1,        "memory pages retired after uncorrected errors"),
  ("remap_pending",                   "Bool",   "ZSTD(1)",        "",                                1,        "1 when rows are remapped only at the next reset"),
  ("remap_failed",                    "Bool",   "ZSTD(1)",        "",                                1,        "1 when a row could not be remapped: the board is to be replaced"),
  ("persistence_mode",                "Bool",   "ZSTD(1)",        "",                                1,        "1 when the driver stays loaded without a client"),
  ("compute_mode",                    "UInt8",  "ZSTD(1)",        "",                                1,        "who may compute: 0 all, 2 nobody, 3 one process (nvmlComputeMode_t)"),
  ("pcie_link_generation_max",        "UInt8",  "ZSTD(1)",        "",                                1,        "highest PCIe generation of GPU and slot"),
  ("pcie_link_width_max",             "UInt8",  "ZSTD(1)",        "",                                1,        "most PCIe lanes of GPU and slot"),
  ("minor_number",                    "UInt16", "ZSTD(1)",        "",                                1,        "number of its device file, /dev/nvidia<minor>"),
] %}

{% set host_metrics = [
  ("oom_kills",                       "UInt64", "Delta, ZSTD(1)", "",                                1,        "processes killed for want of memory, since the host was booted"),
  ("mem_huge_total_mebibytes",        "UInt32", "ZSTD(1)",        "mem_huge_total_bytes",            1048576,  "memory set aside as huge pages, of all sizes"),
  ("mem_huge_free_mebibytes",         "UInt32", "Delta, ZSTD(1)", "mem_huge_free_bytes",             1048576,  "huge pages not in use"),
  ("mem_anonymous_mebibytes",         "UInt32", "Delta, ZSTD(1)", "mem_anonymous_bytes",             1048576,  "memory of programs that no file backs"),
  ("mem_slab_mebibytes",              "UInt32", "Delta, ZSTD(1)", "mem_slab_bytes",                  1048576,  "memory of the kernel's own objects"),
  ("files_open",                      "UInt32", "Delta, ZSTD(1)", "",                                1,        "file handles in use"),
  ("tcp_established",                 "UInt32", "Delta, ZSTD(1)", "",                                1,        "TCP connections that stand"),
  ("tcp_retransmits_milli_per_s",     "UInt32", "T64, ZSTD(1)",   "tcp_retransmits_per_s",           0.001,    "TCP segments sent again"),
  ("udp_errors_milli_per_s",          "UInt32", "T64, ZSTD(1)",   "udp_errors_per_s",                0.001,    "UDP datagrams received that could not be delivered"),
  ("direct_reclaims_per_s",           "UInt32", "T64, ZSTD(1)",   "",                                1,        "pages that tasks had to scan for free memory themselves"),
  ("compaction_stalls_milli_per_s",   "UInt32", "T64, ZSTD(1)",   "compaction_stalls_per_s",         0.001,    "times that a task waited for memory to be compacted"),
  ("refaults_per_s",                  "UInt32", "T64, ZSTD(1)",   "",                                1,        "pages read back soon after they were dropped: memory is short"),
] %}

{% set device_metrics = [
  ("carrier_changes",                 "UInt64", "Delta, ZSTD(1)", "",                                1,        "times that the link went up or down"),
  ("rx_pauses_milli_per_s",           "UInt32", "T64, ZSTD(1)",   "rx_pauses_per_s",                 0.001,    "pause frames received: the other side asked to wait"),
  ("tx_pauses_milli_per_s",           "UInt32", "T64, ZSTD(1)",   "tx_pauses_per_s",                 0.001,    "pause frames sent: this side asked to wait"),
  ("rx_prio_pauses_milli_per_s",      "UInt32", "T64, ZSTD(1)",   "rx_prio_pauses_per_s",            0.001,    "priority pause frames received, over all priorities"),
  ("tx_prio_pauses_milli_per_s",      "UInt32", "T64, ZSTD(1)",   "tx_prio_pauses_per_s",            0.001,    "priority pause frames sent, over all priorities"),
  ("pause_storm_warnings",            "UInt64", "Delta, ZSTD(1)", "",                                1,        "times that pausing lasted suspiciously long"),
  ("pause_storm_errors",              "UInt64", "Delta, ZSTD(1)", "",                                1,        "times that pausing was cut off because it lasted too long"),
  ("rx_nic_drops_milli_per_s",        "UInt32", "T64, ZSTD(1)",   "rx_nic_drops_per_s",              0.001,    "packets that the adapter dropped when received, for want of buffers and the like"),
  ("tx_nic_drops_milli_per_s",        "UInt32", "T64, ZSTD(1)",   "tx_nic_drops_per_s",              0.001,    "packets that the adapter dropped when sent"),
  ("cnp_sent_milli_per_s",            "UInt32", "T64, ZSTD(1)",   "cnp_sent_per_s",                  0.001,    "congestion notifications sent"),
  ("cnp_handled_milli_per_s",         "UInt32", "T64, ZSTD(1)",   "cnp_handled_per_s",               0.001,    "congestion notifications received and obeyed"),
  ("ecn_marked_milli_per_s",          "UInt32", "T64, ZSTD(1)",   "ecn_marked_per_s",                0.001,    "RoCE packets received that a switch marked as congested"),
  ("rdma_reads_per_s",                "UInt32", "T64, ZSTD(1)",   "",                                1,        "RDMA read requests received"),
  ("rdma_writes_per_s",               "UInt32", "T64, ZSTD(1)",   "",                                1,        "RDMA write requests received"),
  ("rdma_atomics_per_s",              "UInt32", "T64, ZSTD(1)",   "",                                1,        "RDMA atomic requests received"),
  ("tx_waits_per_s",                  "UInt32", "T64, ZSTD(1)",   "",                                1,        "ticks in which the port had data and no credit to send it"),
  ("symbol_errors_milli_per_s",       "UInt32", "T64, ZSTD(1)",   "symbol_errors_per_s",             0.001,    "errors on the wire"),
  ("sequence_errors_milli_per_s",     "UInt32", "T64, ZSTD(1)",   "sequence_errors_per_s",           0.001,    "packets lost or out of order, as sender or receiver"),
  ("ack_timeouts_milli_per_s",        "UInt32", "T64, ZSTD(1)",   "ack_timeouts_per_s",              0.001,    "acknowledgements that did not come in time"),
  ("link_downs",                      "UInt64", "Delta, ZSTD(1)", "",                                1,        "times that the port went down"),
  ("link_recoveries",                 "UInt64", "Delta, ZSTD(1)", "",                                1,        "times that the port recovered from errors by itself"),
  ("fs_total_mebibytes",              "UInt64", "ZSTD(1)",        "fs_total_bytes",                  1048576,  "size of the file system"),
  ("fs_used_mebibytes",               "UInt64", "Delta, ZSTD(1)", "fs_used_bytes",                   1048576,  "of it in use"),
  ("fs_available_mebibytes",          "UInt64", "Delta, ZSTD(1)", "fs_available_bytes",              1048576,  "of it free for ordinary users"),
  ("inodes_total",                    "UInt64", "Delta, ZSTD(1)", "",                                1,        "files that the file system can hold"),
  ("inodes_used",                     "UInt64", "Delta, ZSTD(1)", "",                                1,        "files that it holds"),
  ("read_only",                       "Bool",   "ZSTD(1)",        "",                                1,        "1 when it is mounted read-only"),
  ("ops_milli_per_s",                 "UInt32", "T64, ZSTD(1)",   "ops_per_s",                       0.001,    "NFS operations of all kinds"),
  ("op_latency_microseconds",         "UInt32", "T64, ZSTD(1)",   "op_latency_seconds",              0.000001, "mean time of an NFS operation, of all kinds"),
  ("retransmits_milli_per_s",         "UInt32", "T64, ZSTD(1)",   "retransmits_per_s",               0.001,    "NFS requests sent again"),
  ("mem_total_mebibytes",             "UInt32", "ZSTD(1)",        "mem_total_bytes",                 1048576,  "memory of the NUMA node"),
  ("mem_used_mebibytes",              "UInt32", "Delta, ZSTD(1)", "mem_used_bytes",                  1048576,  "of it in use"),
  ("mem_free_mebibytes",              "UInt32", "Delta, ZSTD(1)", "mem_free_bytes",                  1048576,  "of it unused"),
  ("numa_hits_per_s",                 "UInt32", "T64, ZSTD(1)",   "",                                1,        "pages had on the node that was meant"),
  ("numa_misses_per_s",               "UInt32", "T64, ZSTD(1)",   "",                                1,        "pages had here although another node was meant"),
  ("numa_foreign_per_s",              "UInt32", "T64, ZSTD(1)",   "",                                1,        "pages meant for here and had elsewhere"),
  ("cpu_util_permille",               "UInt16", "T64, ZSTD(1)",   "cpu_util",                        0.001,    "share of the node's CPU time neither idle nor waiting for I/O"),
  ("cpu_user_permille",               "UInt16", "T64, ZSTD(1)",   "cpu_user",                        0.001,    "share of the node's CPU time in user mode"),
  ("cpu_system_permille",             "UInt16", "T64, ZSTD(1)",   "cpu_system",                      0.001,    "share of the node's CPU time in the kernel"),
  ("cpu_idle_permille",               "UInt16", "T64, ZSTD(1)",   "cpu_idle",                        0.001,    "share of the node's CPU time idle"),
  ("instructions_mega_per_s",         "UInt32", "T64, ZSTD(1)",   "instructions_per_s",              1000000,  "instructions retired"),
  ("cycles_mega_per_s",               "UInt32", "T64, ZSTD(1)",   "cycles_per_s",                    1000000,  "cycles in which a core was not halted"),
  ("l2_loads_kilo_per_s",             "UInt32", "T64, ZSTD(1)",   "l2_loads_per_s",                  1000,     "loads that looked in the second-level cache"),
  ("l2_misses_kilo_per_s",            "UInt32", "T64, ZSTD(1)",   "l2_misses_per_s",                 1000,     "of them not found there"),
  ("l3_loads_kilo_per_s",             "UInt32", "T64, ZSTD(1)",   "l3_loads_per_s",                  1000,     "loads that looked in the last-level cache"),
  ("l3_misses_kilo_per_s",            "UInt32", "T64, ZSTD(1)",   "l3_misses_per_s",                 1000,     "of them not found there"),
  ("l2_hit_ratio_permille",           "UInt16", "T64, ZSTD(1)",   "l2_hit_ratio",                    0.001,    "share of loads that the second-level cache had"),
  ("l3_hit_ratio_permille",           "UInt16", "T64, ZSTD(1)",   "l3_hit_ratio",                    0.001,    "share of loads that the last-level cache had"),
  ("memory_stall_permille",           "UInt16", "T64, ZSTD(1)",   "memory_stall",                    0.001,    "share of cycles in which a core waited for memory"),
  ("mem_read_megabytes_per_s",        "UInt32", "T64, ZSTD(1)",   "mem_read_bytes_per_s",            1000000,  "read from memory"),
  ("mem_write_megabytes_per_s",       "UInt32", "T64, ZSTD(1)",   "mem_write_bytes_per_s",           1000000,  "written to memory"),
] %}

{% set process_metrics = [
  ("mem_mebibytes",                   "UInt32", "Delta, ZSTD(1)", "mem_bytes",                       1048576,  "device memory of the process on this GPU"),
  ("sm_util_permille",                "UInt16", noisy,            "sm_util",                         0.001,    "share of time in which a kernel of the process ran"),
  ("mem_util_permille",               "UInt16", noisy,            "mem_util",                        0.001,    "share of time in which the process read or wrote device memory"),
  ("encoder_util_permille",           "UInt16", "T64, ZSTD(1)",   "encoder_util",                    0.001,    "video encoder utilisation by the process"),
  ("decoder_util_permille",           "UInt16", "T64, ZSTD(1)",   "decoder_util",                    0.001,    "video decoder utilisation by the process"),
] %}

{% set inverse = {0.1: 10, 0.01: 100, 0.001: 1000, 0.000001: 1000000} %}

{% macro si_form(column, type, factor) %}
{{ column ~ " / " ~ inverse[factor] if factor < 1 else "toUInt64(" ~ column ~ ") * " ~ factor }}
{%- endmacro %}

{# A table and, on a cluster, the one that is spread over it. #}
{% macro alter(table, changes) %}
ALTER TABLE {{ local(table) }} {{ on_cluster }}
{{ changes }};
{% if cluster %}
ALTER TABLE {{ name(table) }} {{ on_cluster }}
{{ changes }};
{% endif %}
{% endmacro %}

{% macro added(metrics) %}
{% for column, type, codec, si, factor, meaning in metrics %}
    ADD COLUMN IF NOT EXISTS `{{ column }}` Nullable({{ type }}) COMMENT {{ meaning | literal }} CODEC({{ codec }}),
{% endfor %}
{% for column, type, codec, si, factor, meaning in metrics if si %}
    ADD COLUMN IF NOT EXISTS `{{ si }}` Nullable({{ "Float64" if factor < 1 else "UInt64" }}) ALIAS {{ si_form(column, type, factor) }} COMMENT {{ meaning | literal }}{{ "," if not loop.last }}
{% endfor %}
{% endmacro %}

{# One argument a lambda: a table with one of two in an ALIAS could never be altered again ("Recursive lambda"). #}
{% macro throttled(bits) %}arrayMap(bit -> transform(bit, [0, 1, 2, 3, 4, 5, 6, 7, 8], ['gpu_idle', 'applications_clocks_setting', 'sw_power_cap', 'hw_slowdown', 'sync_boost', 'sw_thermal_slowdown', 'hw_thermal_slowdown', 'hw_power_brake_slowdown', 'display_clock_setting'], concat('bit_', toString(bit))), bitPositionsToArray(ifNull({{ bits }}, 0))){% endmacro %}

{% macro ratios(metrics) %}
{% for column, type, codec, si, factor, meaning in metrics if column.endswith("_permille") %}
ifNull(`{{ column }}` <= 1000, 1){{ " AND " if not loop.last }}
{%- endfor %}
{% endmacro %}

-- --- Columns -----------------------------------------------------------------------------------------------------

{{ alter("gpu_samples", added(gpu_metrics) ~ ",
    ADD COLUMN IF NOT EXISTS `job_share_permille` Array(UInt16) COMMENT 'of the GPU by each of job_ids, in their order; empty when not known' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `throttled_by` Array(String) ALIAS " ~ throttled("throttle_reasons") ~ " COMMENT 'the reasons that hold the clocks down, as NVML calls them',
    ADD COLUMN IF NOT EXISTS `job_share` Array(Float64) ALIAS arrayMap(share -> share / 1000, job_share_permille) COMMENT 'of the GPU by each of job_ids',
    ADD COLUMN IF NOT EXISTS `column_sources` Map(LowCardinality(String), String) COMMENT 'column to nvml, gpm, dcgm; at the start, at a change and every 10 minutes' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `driver_version` LowCardinality(String) COMMENT 'sent with column_sources' CODEC(ZSTD(1))") }}

ALTER TABLE {{ local("gpu_samples") }} {{ on_cluster }}
    ADD CONSTRAINT IF NOT EXISTS more_ratios_to_1000_permille CHECK {{ ratios(gpu_metrics) }},
    ADD CONSTRAINT IF NOT EXISTS one_share_a_job CHECK length(job_share_permille) IN (0, length(job_ids));

{{ alter("host_samples", added(host_metrics)) }}

{{ alter("device_samples", "    ADD COLUMN IF NOT EXISTS `fs_type` LowCardinality(String) COMMENT 'of a mount: ext4, nfs4, lustre' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `fs_source` LowCardinality(String) COMMENT 'of a mount: its device, or server and export' CODEC(ZSTD(1)),
" ~ added(device_metrics)) }}

ALTER TABLE {{ local("device_samples") }} {{ on_cluster }}
    COMMENT COLUMN `kind` 'nic, rdma, disk, mount, numa, socket',
    COMMENT COLUMN `device` 'eth0, mlx5_0/1, nvme0n1, /home, node0, socket0',
    ADD CONSTRAINT IF NOT EXISTS more_ratios_to_1000_permille CHECK {{ ratios(device_metrics) }};

{{ alter("metric_samples", "    ADD COLUMN IF NOT EXISTS `kind` LowCardinality(String) COMMENT 'counter, gauge, histogram, summary, info, untyped' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `unit` LowCardinality(String) COMMENT 'where the exporter tells it' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `rate_per_s` Nullable(Float64) COMMENT 'of a counter, since the value before' CODEC(Delta, ZSTD(1))") }}

{{ alter("job_events", "    ADD COLUMN IF NOT EXISTS `ranks` Array(UInt32) COMMENT 'ranks with a process in the tree' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `local_ranks` Array(UInt32) COMMENT 'of each of ranks' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `rank_pids` Array(UInt32) COMMENT 'of each of ranks' CODEC(ZSTD(1))") }}

-- --- New topics --------------------------------------------------------------------------------------------------

{% macro stamp() %}
    `host` LowCardinality(String) CODEC(LZ4),
    `ts` DateTime64(3, 'UTC') COMMENT 'when it was measured' CODEC(Delta, LZ4),
{% endmacro %}

{% macro checks() %}
    CONSTRAINT host_given CHECK host != '',
    CONSTRAINT time_2020_to_2100 CHECK ts >= toDateTime64('2020-01-01 00:00:00', 3, 'UTC') AND ts < toDateTime64('2100-01-01 00:00:00', 3, 'UTC')
{%- endmacro %}

CREATE TABLE IF NOT EXISTS {{ local("gpu_processes") }} {{ on_cluster }}
(
{{ stamp() }}
    `period_ms` UInt32 COMMENT 'the interval that this row stands for' CODEC(LZ4),
    `gpu` UInt8 COMMENT 'NVML index of the GPU on its host' CODEC(LZ4),
    `uuid` LowCardinality(String) COMMENT 'of the GPU, or of the MIG instance' CODEC(LZ4),
    `pid` UInt32 CODEC(T64, LZ4),
    `job_id` String COMMENT 'empty when it is of no job' CODEC(ZSTD(1)),
    `name` LowCardinality(String) CODEC(ZSTD(1)),
    `user` LowCardinality(String) CODEC(ZSTD(1)),
{% for column, type, codec, si, factor, meaning in process_metrics %}
    `{{ column }}` Nullable({{ type }}) COMMENT {{ meaning | literal }} CODEC({{ codec }}),
    `{{ si }}` ALIAS {{ si_form(column, type, factor) }} COMMENT {{ meaning | literal }},
{% endfor %}
{{ checks() }},
    CONSTRAINT ratios_to_1000_permille CHECK {{ ratios(process_metrics) }}
)
ENGINE = {{ engine("MergeTree") }}
PARTITION BY toDate(ts)
ORDER BY (host, gpu, uuid, pid, ts)
TTL toDateTime(ts) + INTERVAL {{ raw_ttl_days }} DAY
SETTINGS ttl_only_drop_parts = 1, {{ dedup }};

CREATE TABLE IF NOT EXISTS {{ local("gpu_events") }} {{ on_cluster }}
(
{{ stamp() }}
    `gpu` UInt8 COMMENT 'NVML index of the GPU on its host' CODEC(LZ4),
    `uuid` LowCardinality(String) CODEC(LZ4),
    `kind` LowCardinality(String) COMMENT 'xid' CODEC(ZSTD(1)),
    `code` UInt32 COMMENT 'of an XID: its number' CODEC(ZSTD(1)),
    `what` String COMMENT 'in words' CODEC(ZSTD(1)),
    `state` LowCardinality(String) COMMENT 'raised, cleared' CODEC(ZSTD(1)),
    `pid` Nullable(UInt32) COMMENT 'of the process at fault' CODEC(ZSTD(1)),
    `job_ids` Array(LowCardinality(String)) COMMENT 'jobs on it at that instant' CODEC(ZSTD(1)),
    `why` String COMMENT 'of cleared: a reset, a driver reload' CODEC(ZSTD(1)),
{{ checks() }},
    CONSTRAINT kind_given CHECK kind != '',
    CONSTRAINT raised_or_cleared CHECK state IN ('raised', 'cleared')
)
ENGINE = {{ engine("MergeTree") }}
PARTITION BY toYYYYMM(ts)
ORDER BY (host, gpu, uuid, ts)
TTL toDateTime(ts) + INTERVAL {{ hour_ttl_days }} DAY
SETTINGS ttl_only_drop_parts = 1, {{ dedup }};

{% for table in ["gpu_processes", "gpu_events"] %}
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

-- --- Rollups -----------------------------------------------------------------------------------------------------

{# As in 0002, with what is new at the end. #}
{% set gpu_rolled = [
  ("gpu_util_permille", "UInt16"), ("mem_copy_util_permille", "UInt16"), ("sm_active_permille", "UInt16"),
  ("sm_occupancy_permille", "UInt16"), ("tensor_active_permille", "UInt16"), ("dram_active_permille", "UInt16"),
  ("fp16_active_permille", "UInt16"), ("fp32_active_permille", "UInt16"), ("fp64_active_permille", "UInt16"),
  ("encoder_util_permille", "UInt16"), ("decoder_util_permille", "UInt16"),
  ("fb_used_mebibytes", "UInt32"), ("fb_total_mebibytes", "UInt32"), ("fb_reserved_mebibytes", "UInt32"),
  ("power_deciwatts", "UInt16"), ("power_limit_deciwatts", "UInt16"), ("energy_joules", "UInt64"),
  ("temperature_celsius", "UInt8"), ("mem_temperature_celsius", "UInt8"), ("fan_permille", "UInt16"),
  ("sm_clock_megahertz", "UInt16"), ("mem_clock_megahertz", "UInt16"), ("throttle_reasons", "UInt64"),
  ("performance_state", "UInt8"),
  ("pcie_tx_megabytes_per_s", "UInt32"), ("pcie_rx_megabytes_per_s", "UInt32"),
  ("nvlink_tx_megabytes_per_s", "UInt32"), ("nvlink_rx_megabytes_per_s", "UInt32"),
  ("pcie_link_generation", "UInt8"), ("pcie_link_width", "UInt8"), ("pcie_replays", "UInt64"),
  ("ecc_corrected_errors", "UInt64"), ("ecc_uncorrected_errors", "UInt64"),
  ("remapped_rows_corrected", "UInt32"), ("remapped_rows_uncorrected", "UInt32"), ("processes", "UInt16"),
  ("graphics_active_permille", "UInt16"), ("nvlink_crc_errors", "UInt64"),
] %}
{% set host_rolled = [
  ("uptime_s", "UInt32"), ("cores", "UInt16"), ("cpu_util_permille", "UInt16"), ("cpu_user_permille", "UInt16"),
  ("cpu_nice_permille", "UInt16"), ("cpu_system_permille", "UInt16"), ("cpu_iowait_permille", "UInt16"),
  ("cpu_irq_permille", "UInt16"), ("cpu_softirq_permille", "UInt16"), ("cpu_steal_permille", "UInt16"),
  ("cpu_idle_permille", "UInt16"), ("core_busy_min_permille", "UInt16"), ("core_busy_p50_permille", "UInt16"),
  ("core_busy_p90_permille", "UInt16"), ("core_busy_max_permille", "UInt16"), ("load1_centi", "UInt32"),
  ("load5_centi", "UInt32"), ("load15_centi", "UInt32"), ("procs_running", "UInt32"), ("procs_blocked", "UInt32"),
  ("processes", "UInt32"), ("context_switches_per_s", "UInt32"), ("interrupts_per_s", "UInt32"),
  ("forks_per_s", "UInt32"), ("mem_total_mebibytes", "UInt32"), ("mem_available_mebibytes", "UInt32"),
  ("mem_free_mebibytes", "UInt32"), ("mem_cached_mebibytes", "UInt32"), ("mem_buffers_mebibytes", "UInt32"),
  ("mem_dirty_mebibytes", "UInt32"), ("mem_shared_mebibytes", "UInt32"), ("swap_total_mebibytes", "UInt32"),
  ("swap_used_mebibytes", "UInt32"), ("swap_in_kilobytes_per_s", "UInt32"), ("swap_out_kilobytes_per_s", "UInt32"),
  ("major_faults_per_s", "UInt32"), ("psi_cpu_some_permille", "UInt16"), ("psi_cpu_full_permille", "UInt16"),
  ("psi_memory_some_permille", "UInt16"), ("psi_memory_full_permille", "UInt16"),
  ("psi_io_some_permille", "UInt16"), ("psi_io_full_permille", "UInt16"),
  ("oom_kills", "UInt64"), ("tcp_retransmits_milli_per_s", "UInt32"),
] %}
{% set device_rolled = [
  ("rx_kilobytes_per_s", "UInt32"), ("tx_kilobytes_per_s", "UInt32"), ("read_kilobytes_per_s", "UInt32"),
  ("write_kilobytes_per_s", "UInt32"), ("l2_hit_ratio_permille", "UInt16"), ("l3_hit_ratio_permille", "UInt16"),
  ("mem_read_megabytes_per_s", "UInt32"), ("mem_write_megabytes_per_s", "UInt32"),
] %}
{% set timing = "quantilesTiming(0.5, 0.95)" %}
{% set gpu_quantiles = [
  ("gpu_util_permille", timing), ("sm_active_permille", timing), ("tensor_active_permille", timing),
  ("power_deciwatts", "quantilesDD(0.01, 0.5, 0.95)"),
] %}
{% set host_quantiles = [("cpu_util_permille", timing)] %}

{% macro window_columns(metrics) %}
{% for column, type in metrics %}
    `{{ column }}_count` SimpleAggregateFunction(sum, UInt64) CODEC(T64, LZ4),
    `{{ column }}_sum` SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)),
    `{{ column }}_min` SimpleAggregateFunction(min, Nullable({{ type }})) CODEC(ZSTD(1)),
    `{{ column }}_max` SimpleAggregateFunction(max, Nullable({{ type }})) CODEC(ZSTD(1)){{ "," if not loop.last }}
{% endfor %}
{% endmacro %}

{% macro from_raw(metrics) %}
{% for column, type in metrics %}
    count(`{{ column }}`) AS `{{ column }}_count`,
    sum(ifNull(`{{ column }}`, 0)) AS `{{ column }}_sum`,
    min(`{{ column }}`) AS `{{ column }}_min`,
    max(`{{ column }}`) AS `{{ column }}_max`{{ "," if not loop.last }}
{% endfor %}
{% endmacro %}

{% macro from_minutes(metrics) %}
{% for column, type in metrics %}
    sum(`{{ column }}_count`) AS `{{ column }}_count`,
    sum(`{{ column }}_sum`) AS `{{ column }}_sum`,
    min(`{{ column }}_min`) AS `{{ column }}_min`,
    max(`{{ column }}_max`) AS `{{ column }}_max`{{ "," if not loop.last }}
{% endfor %}
{% endmacro %}

{% macro minutes(source, keys, metrics, quantiles) %}
SELECT
    {{ keys }}, toDateTime(toStartOfMinute(ts), 'UTC') AS window,
    count() AS samples,
    sum(period_ms) AS covered_ms,
{% if source == "gpu_samples" %}
    sumIf(period_ms, coalesce(gpu_util_permille, sm_active_permille) < 50) AS idle_ms,
{% endif %}
{% for column, function in quantiles %}
    {{ function | replace("(", "State(", 1) }}(`{{ column }}`) AS `{{ column }}_quantiles`,
{% endfor %}
{{ from_raw(metrics) }}
FROM {{ local(source) }}
GROUP BY {{ keys }}, window
{% endmacro %}

{% macro hours(rollup, keys, metrics, quantiles) %}
SELECT
    {{ keys }}, toDateTime(toStartOfHour(minutes.window), 'UTC') AS window,
    sum(samples) AS samples,
    sum(covered_ms) AS covered_ms,
{% if rollup == "gpu_heatmap" %}
    sum(idle_ms) AS idle_ms,
{% endif %}
{% for column, function in quantiles %}
    {{ function | replace("(", "MergeState(", 1) }}(`{{ column }}_quantiles`) AS `{{ column }}_quantiles`,
{% endfor %}
{{ from_minutes(metrics) }}
FROM {{ local(rollup ~ "_1m") }} AS minutes
GROUP BY {{ keys }}, window
{% endmacro %}

{% for rollup, source, keys, metrics, quantiles in [
  ("gpu_heatmap", "gpu_samples", "host, gpu, uuid", gpu_rolled, gpu_quantiles),
  ("host_windows", "host_samples", "host", host_rolled, host_quantiles),
] %}
{% for step in ["1m", "1h"] %}
{{ alter(rollup ~ "_" ~ step, window_columns(metrics[-2:]) | replace("    `", "    ADD COLUMN IF NOT EXISTS `")) }}
{% endfor %}

ALTER TABLE {{ name(rollup ~ "_1h_mv") }} {{ on_cluster }} MODIFY QUERY
{{ hours(rollup, keys, metrics, quantiles) }};

ALTER TABLE {{ name(rollup ~ "_1m_mv") }} {{ on_cluster }} MODIFY QUERY
{{ minutes(source, keys, metrics, quantiles) }};
{% endfor %}

-- Devices: what the panels of a host show, by device. Hours alone, made from the raw rows: days are read from the raw
-- rows, and minutes of every device would be most of the store.
CREATE TABLE IF NOT EXISTS {{ local("device_windows_1h") }} {{ on_cluster }}
(
    `host` LowCardinality(String) CODEC(LZ4),
    `kind` LowCardinality(String) CODEC(LZ4),
    `device` LowCardinality(String) CODEC(LZ4),
    `window` DateTime('UTC') COMMENT 'start of the window' CODEC(Delta, LZ4),
    `samples` SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1)),
    `covered_ms` SimpleAggregateFunction(sum, UInt64) COMMENT 'time that the samples stand for' CODEC(T64, ZSTD(1)),
{{ window_columns(device_rolled) }}
)
ENGINE = {{ engine("AggregatingMergeTree") }}
PARTITION BY toYYYYMM(window)
ORDER BY (host, kind, device, window)
TTL toDateTime(window) + INTERVAL {{ hour_ttl_days }} DAY
SETTINGS ttl_only_drop_parts = 1, {{ dedup }};

CREATE MATERIALIZED VIEW IF NOT EXISTS {{ name("device_windows_1h_mv") }} {{ on_cluster }}
TO {{ local("device_windows_1h") }} AS
SELECT
    host, kind, device, toDateTime(toStartOfHour(ts), 'UTC') AS window,
    count() AS samples,
    sum(period_ms) AS covered_ms,
{{ from_raw(device_rolled) }}
FROM {{ local("device_samples") }}
WHERE isNotNull(coalesce({% for column, type in device_rolled %}{{ column }}{{ ", " if not loop.last }}{% endfor %}))
GROUP BY host, kind, device, window;

-- --- Jobs' shares ------------------------------------------------------------------------------------------------

-- Several jobs on a GPU: each gets the share that its processes had, where that is known, else an even part. Shares are
-- taken relative to their sum, so that the jobs' GPU time is the GPU's whatever was rounded.
{% set job_ratios = ["gpu_util", "sm_active", "tensor_active", "dram_active"] %}
ALTER TABLE {{ name("job_windows_1m_gpu_mv") }} {{ on_cluster }} MODIFY QUERY
WITH period_ms / 1000 * part AS share
SELECT
    job_id, host, toDateTime(toStartOfMinute(ts), 'UTC') AS window,
    sum(share) AS gpu_seconds,
    sumIf(share, coalesce(gpu_util_permille, sm_active_permille) < 50) AS idle_seconds,
{% for ratio in job_ratios %}
    sum(ifNull({{ ratio }}_permille, 0) / 1000 * share) AS {{ ratio }}_seconds,
    sumIf(share, isNotNull({{ ratio }}_permille)) AS {{ ratio }}_known_seconds,
{% endfor %}
    sum(ifNull(power_deciwatts, 0) / 10 * share) AS energy_joules,
    sumIf(share, isNotNull(power_deciwatts)) AS power_known_seconds,
    max(toUInt64(ifNull(fb_used_mebibytes, 0)) * 1048576) AS fb_used_bytes_max
FROM {{ local("gpu_samples") }}
ARRAY JOIN
    job_ids AS job_id,
    if(
        arraySum(job_share_permille) > 0,
        arrayMap(permille -> permille / arraySum(job_share_permille), job_share_permille),
        arrayWithConstant(length(job_ids), 1 / length(job_ids))
    ) AS part
GROUP BY job_id, host, window;

-- --- The latest --------------------------------------------------------------------------------------------------

{% set usage_latest = [
  ("period_ms", "UInt32"), ("processes", "Nullable(UInt32)"), ("cpu_cores_milli", "Nullable(UInt32)"),
  ("rss_mebibytes", "Nullable(UInt32)"), ("gpu_memory_mebibytes", "Nullable(UInt32)"), ("gpus", "Array(UInt8)"),
  ("gpu_uuids", "Array(LowCardinality(String))"),
] %}
{# What of a kind of devices is kept together: each part has its own time, as sources of their own may send them. #}
{% set period = ("period_ms", "UInt32") %}
{% set kind_latest = {
  "io": [period, ("rx_kilobytes_per_s", "Nullable(UInt64)"), ("tx_kilobytes_per_s", "Nullable(UInt64)"),
         ("read_kilobytes_per_s", "Nullable(UInt64)"), ("write_kilobytes_per_s", "Nullable(UInt64)")],
  "cache": [period, ("l2_hit_ratio_permille", "Nullable(Float64)"), ("l3_hit_ratio_permille", "Nullable(Float64)")],
  "memory": [period, ("mem_read_megabytes_per_s", "Nullable(UInt64)"), ("mem_write_megabytes_per_s", "Nullable(UInt64)")],
} %}
{% set about_latest = [
  ("driver_version", "String"), ("minor_number", "Nullable(UInt16)"), ("column_sources", "Map(String, String)"),
] %}

{% macro tuple_type(columns) %}Tuple({% for column, type in columns %}{{ column }} {{ type }}{{ ", " if not loop.last }}{% endfor %}){% endmacro %}
{% macro tuple_of(columns) %}CAST(tuple({% for column, type in columns %}{{ column }}{{ ", " if not loop.last }}{% endfor %}), '{{ tuple_type(columns) }}'){% endmacro %}

{% macro known(columns) %}isNotNull(coalesce({% for column, type in columns[1:] %}{{ column }}{{ ", " if not loop.last }}{% endfor %})){% endmacro %}

-- A host's devices of one kind at the latest tick that knows: sums over them, and means of their ratios. A source sends
-- a tick's devices in one message, so they are always in one insert.
CREATE TABLE IF NOT EXISTS {{ local("device_kind_last") }} {{ on_cluster }}
(
    `host` LowCardinality(String),
    `kind` LowCardinality(String),
    `last_at` SimpleAggregateFunction(max, DateTime64(3, 'UTC')),
{% for part, columns in kind_latest.items() %}
    `{{ part }}_at` SimpleAggregateFunction(max, Nullable(DateTime64(3, 'UTC'))),
    `{{ part }}` AggregateFunction(argMax, {{ tuple_type(columns) }}, DateTime64(3, 'UTC')){{ "," if not loop.last }}
{% endfor %}
)
ENGINE = {{ engine("AggregatingMergeTree") }}
ORDER BY (host, kind)
TTL toDateTime(last_at) + INTERVAL {{ minute_ttl_days }} DAY
SETTINGS {{ dedup }};

CREATE MATERIALIZED VIEW IF NOT EXISTS {{ name("device_kind_last_mv") }} {{ on_cluster }} TO {{ local("device_kind_last") }} AS
SELECT
    host, kind,
    max(at) AS last_at,
{% for part, columns in kind_latest.items() %}
    maxOrNullIf(at, {{ known(columns) }}) AS {{ part }}_at,
    argMaxStateIf({{ tuple_of(columns) }}, at, {{ known(columns) }}) AS {{ part }}{{ "," if not loop.last }}
{% endfor %}
FROM
(
    SELECT
        host, kind, ts AS at,
        max(raw.period_ms) AS period_ms,
{% for column in ["rx_kilobytes_per_s", "tx_kilobytes_per_s", "read_kilobytes_per_s", "write_kilobytes_per_s", "mem_read_megabytes_per_s", "mem_write_megabytes_per_s"] %}
        sum(raw.{{ column }}) AS {{ column }},
{% endfor %}
        avg(raw.l2_hit_ratio_permille) AS l2_hit_ratio_permille,
        avg(raw.l3_hit_ratio_permille) AS l3_hit_ratio_permille
    FROM {{ local("device_samples") }} AS raw
    GROUP BY host, kind, at
)
GROUP BY host, kind;

-- What a GPU says of itself now and then: its driver, and which source gives which column.
CREATE TABLE IF NOT EXISTS {{ local("gpu_about_last") }} {{ on_cluster }}
(
    `host` LowCardinality(String),
    `gpu` UInt8,
    `uuid` String,
    `last_at` SimpleAggregateFunction(max, DateTime64(3, 'UTC')),
    `latest` AggregateFunction(argMax, {{ tuple_type(about_latest) }}, DateTime64(3, 'UTC'))
)
ENGINE = {{ engine("AggregatingMergeTree") }}
ORDER BY (host, gpu, uuid)
TTL toDateTime(last_at) + INTERVAL {{ minute_ttl_days }} DAY
SETTINGS {{ dedup }};

CREATE MATERIALIZED VIEW IF NOT EXISTS {{ name("gpu_about_last_mv") }} {{ on_cluster }} TO {{ local("gpu_about_last") }} AS
SELECT host, gpu, uuid, max(ts) AS last_at, argMaxState({{ tuple_of(about_latest) }}, ts) AS latest
FROM {{ local("gpu_samples") }}
WHERE notEmpty(column_sources)
GROUP BY host, gpu, uuid;

{{ alter("job_trees", "    ADD COLUMN IF NOT EXISTS `ranks_held` SimpleAggregateFunction(groupUniqArrayArray, Array(UInt32)) COMMENT 'all ranks that ever ran in it'") }}

ALTER TABLE {{ name("job_trees_mv") }} {{ on_cluster }} MODIFY QUERY
SELECT
    job_id, host, pid,
{% for column in ["name", "command", "user", "scheduler", "tree_id"] %}
    toString(argMax(events.{{ column }}, ts)) AS {{ column }},
{% endfor %}
    max(events.rank) AS rank,
    max(events.world_size) AS world_size,
    CAST(argMax(events.labels, ts), 'Map(String, String)') AS labels,
    min(events.started_at) AS started_at,
    min(ts) AS first_at,
    max(ts) AS last_at,
    maxOrNullIf(ts, event = 'ended') AS ended_at,
    max(period_ms) AS period_ms_max,
    max(rss_mebibytes) AS rss_mebibytes_max,
    max(gpu_memory_mebibytes) AS gpu_memory_mebibytes_max,
    groupUniqArrayArray(CAST(events.gpu_uuids, 'Array(String)')) AS gpu_uuids_held,
    sum(ifNull(cpu_cores_milli, 0) / 1000 * period_ms / 1000) AS cpu_core_seconds,
    sumIf(period_ms / 1000, isNotNull(cpu_cores_milli)) AS known_seconds,
    sum(ifNull(events.read_bytes, 0)) AS read_bytes,
    sum(ifNull(events.written_bytes, 0)) AS written_bytes,
    argMaxStateIf({{ tuple_of(usage_latest) }}, ts, event = 'running') AS usage,
    groupUniqArrayArray(if(isNull(events.rank), events.ranks, arrayPushBack(events.ranks, assumeNotNull(events.rank)))) AS ranks_held
FROM {{ local("job_events") }} AS events
GROUP BY job_id, host, pid;

{% if cluster %}
{% for table, key in [
  ("gpu_processes", "cityHash64(host)"), ("gpu_events", "cityHash64(host)"), ("device_kind_last", "cityHash64(host)"),
  ("gpu_about_last", "cityHash64(host)"), ("device_windows_1h", "rand()"),
] %}
CREATE TABLE IF NOT EXISTS {{ name(table) }} {{ on_cluster }} AS {{ local(table) }}
{{ distributed(table, key) }};
{% endfor %}
{% endif %}
