-- What is there now: sources, hosts, GPUs. Who has said nothing for a minute, or for six of its periods where these are
-- longer than ten seconds, is silent; so is who was heard of last more than an hour from now, by a clock that was ahead.

{% macro ahead(at) %}{{ at }} > now64(3) + INTERVAL 1 HOUR{% endmacro %}
{% macro silent(last, period_ms) %}({{ last }} < now64(3) - INTERVAL greatest(60, intDiv(6 * toInt64({{ period_ms }}), 1000)) SECOND OR {{ ahead(last) }}){% endmacro %}

{# One argument a lambda: a table with one of two in an ALIAS could never be altered again ("Recursive lambda"). #}
{% macro throttled(bits) %}arrayMap(bit -> transform(bit, [0, 1, 2, 3, 4, 5, 6, 7, 8], ['gpu_idle', 'applications_clocks_setting', 'sw_power_cap', 'hw_slowdown', 'sync_boost', 'sw_thermal_slowdown', 'hw_thermal_slowdown', 'hw_power_brake_slowdown', 'display_clock_setting'], concat('bit_', toString(bit))), bitPositionsToArray(ifNull({{ bits }}, 0))){% endmacro %}

-- source_health_now: one row a source and subject (empty: the source itself). `state` is its last word: ok, unsupported,
-- failed, gone, timeout, denied, paused; an agent repeats what is not ok (each 10 s, unsupported subjects each 10 min, which is
-- the period of such a row), so a subject it no longer names is ok again. `paused` is what rests: it was asked to, or
-- cost too much. `silent` tells that the last word is old, because its host or agent is gone, or one that began since does
-- not say it any more.
CREATE OR REPLACE VIEW {{ name("source_health_now") }} {{ on_cluster }} AS
SELECT
    host, source, subject,
    last.state AS state,
    last.why AS why,
    last.seconds AS seconds,
    last.count AS count,
    ok_at,
    first_at,
    last_at AS last_seen_at,
    {{ silent("last_at", "last.period_ms") }} AS silent
FROM
(
    SELECT
        host, source, subject,
        min(source_last.first_at) AS first_at,
        max(source_last.last_at) AS last_at,
        max(source_last.ok_at) AS ok_at,
        argMaxMerge(latest) AS last
    FROM {{ name("source_last") }} AS source_last
    GROUP BY host, source, subject
);

-- gpus: one row a GPU or MIG instance. `state`: gone (its host says that it fell off the bus or left the driver's list),
-- silent (nobody says anything), ok. `idle_since` is set while it is idle: known to be below 5 %, and when it last was
-- not; a GPU never seen busy is idle since it was first seen. `throttled_by`: the reasons that hold its clocks down, by
-- NVML's names (nvmlClocksEventReasons). `ecc_uncorrected_errors`: since the driver was loaded, when last known.
CREATE OR REPLACE VIEW {{ name("gpus") }} {{ on_cluster }} AS
SELECT
    seen.host AS host,
    seen.gpu AS gpu,
    seen.uuid AS uuid,
    last.model AS model,
    multiIf(
        gone.since > toDateTime64(0, 3, 'UTC'), 'gone',
        {{ silent("last_at", "last.period_ms") }}, 'silent',
        'ok'
    ) AS state,
    gone.why AS why,
    first_at AS first_seen_at,
    last_at AS last_seen_at,
    last.period_ms AS period_ms,
    CAST(last.job_ids, 'Array(String)') AS job_ids,
    last.gpu_util_permille / 1000 AS gpu_util,
    last.sm_active_permille / 1000 AS sm_active,
    last.tensor_active_permille / 1000 AS tensor_active,
    last.dram_active_permille / 1000 AS dram_active,
    toUInt64(last.fb_used_mebibytes) * 1048576 AS fb_used_bytes,
    toUInt64(last.fb_total_mebibytes) * 1048576 AS fb_total_bytes,
    last.power_deciwatts / 10 AS power_watts,
    last.power_limit_deciwatts / 10 AS power_limit_watts,
    last.temperature_celsius AS temperature_celsius,
    last.throttle_reasons AS throttle_reasons,
    {{ throttled("last.throttle_reasons") }} AS throttled_by,
    ecc AS ecc_uncorrected_errors,
    last.processes AS processes,
    if(known_at = last_at AND ifNull(busy_at < known_at, 1), coalesce(busy_at, first_at), NULL) AS idle_since
FROM
(
    SELECT
        host, gpu, uuid,
        min(gpu_last.first_at) AS first_at,
        max(gpu_last.last_at) AS last_at,
        max(gpu_last.known_at) AS known_at,
        max(gpu_last.busy_at) AS busy_at,
        argMaxMerge(latest) AS last,
        argMaxMerge(ecc_uncorrected) AS ecc
    FROM {{ name("gpu_last") }} AS gpu_last
    GROUP BY host, gpu, uuid
) AS seen
LEFT JOIN
(
    SELECT host, subject AS uuid, last_seen_at AS since, why FROM {{ name("source_health_now") }} WHERE state = 'gone' AND subject != ''
) AS gone ON gone.host = seen.host AND gone.uuid = seen.uuid AND gone.since >= seen.last_at;

-- gpu_sources: one row a GPU and column: which source gives it (nvml, gpm, dcgm, …), and the GPU's driver.
CREATE OR REPLACE VIEW {{ name("gpu_sources") }} {{ on_cluster }} AS
SELECT
    host, gpu, uuid,
    told.1 AS column,
    told.2 AS source,
    about.driver_version AS driver_version,
    about.minor_number AS minor_number,
    at AS told_at
FROM
(
    SELECT host, gpu, uuid, max(last_at) AS at, argMaxMerge(latest) AS about
    FROM {{ name("gpu_about_last") }}
    GROUP BY host, gpu, uuid
)
ARRAY JOIN CAST(about.column_sources, 'Array(Tuple(String, String))') AS told;

-- gpu_xids: one row a time that a GPU reported an XID, from the first report to its end. It stands, with `cleared_at`
-- NULL, until the agent says that it is over (a reset, a driver reload, the GPU answers again); until then the same XID
-- again is counted and makes no row.
CREATE OR REPLACE VIEW {{ name("gpu_xids") }} {{ on_cluster }} AS
SELECT
    host, gpu, uuid, code,
    argMax(events.what, ts) AS what,
    min(ts) AS raised_at,
    max(ts) AS last_raised_at,
    cleared_at,
    any(cleared_why) AS why,
    count() AS count,
    arraySort(groupUniqArrayArray(CAST(events.job_ids, 'Array(String)'))) AS job_ids,
    arraySort(groupUniqArrayIf(assumeNotNull(events.pid), isNotNull(events.pid))) AS pids
FROM
(
    SELECT
        host, gpu, uuid, code, what, ts, state, pid, job_ids,
        minOrNullIf(ts, state = 'cleared') OVER following AS cleared_at,
        argMinIf(why, ts, state = 'cleared') OVER following AS cleared_why
    FROM {{ name("gpu_events") }}
    WHERE kind = 'xid'
    WINDOW following AS (
        PARTITION BY host, gpu, uuid, code ORDER BY ts, state DESC ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
    )
) AS events
WHERE state = 'raised'
GROUP BY host, gpu, uuid, code, cleared_at;

-- gpu_statuses: the view gpus, and of each GPU `xids`, those that stand, `problems`, what somebody must look at, and
-- `status`, one word for all of it: gone (from its host, or nobody says anything), failing (it has problems), idle (below
-- 5 %), busy. Problems are XIDs that stand, memory errors that ECC could not mend (until the driver is loaded anew, as a
-- reset does), and heat (0x60), a power brake (0x80) or the hardware (0x08) that hold its clocks down now; a power limit is
-- none.
CREATE OR REPLACE VIEW {{ name("gpu_statuses") }} {{ on_cluster }} AS
SELECT
    gpus.*,
    standing.xids AS xids,
    arrayConcat(
        arrayMap(code -> concat('XID ', toString(code)), xids),
        if(gpus.ecc_uncorrected_errors > 0, [concat(toString(assumeNotNull(gpus.ecc_uncorrected_errors)), ' uncorrectable memory errors')], []),
        {{ throttled("bitAnd(gpus.throttle_reasons, 0xe8)") }}
    ) AS problems,
    multiIf(
        gpus.state != 'ok', 'gone',
        notEmpty(problems), 'failing',
        isNotNull(gpus.idle_since), 'idle',
        'busy'
    ) AS status
FROM {{ name("gpus") }} AS gpus
LEFT JOIN
(
    -- Those of gpu_xids without a cleared_at, which a plan of half the size finds: a list of hosts has this view within.
    SELECT host, uuid, arraySort(groupUniqArray(code)) AS xids
    FROM
    (
        SELECT host, gpu, uuid, code
        FROM {{ name("gpu_events") }}
        WHERE kind = 'xid'
        GROUP BY host, gpu, uuid, code
        HAVING argMax(state, (ts, state = 'cleared')) = 'raised'
    )
    GROUP BY host, uuid
) AS standing ON standing.host = gpus.host AND standing.uuid = gpus.uuid;

-- hosts: one row a host. `state`: silent; failing (a source of its agent is failed, denied or timed out, or a GPU is gone
-- or failing); ok. `problems` says what it is. `gpu_util` and `sm_active` are means over its GPUs that are ok. What its
-- devices do is NULL when nothing new has been heard: cache hit ratios are means over the sockets, memory bandwidth is what
-- all sockets read and wrote, network what its NICs and RDMA ports received and sent, storage what its disks and NFS mounts
-- read and wrote. Of a host whose clock was ahead by more than an hour `last_seen_at` is the latest before that, of one day.
CREATE OR REPLACE VIEW {{ name("hosts") }} {{ on_cluster }} AS
SELECT
    seen.host AS host,
    multiIf(
        {{ silent("last_seen_at", "greatest(last.period_ms, devices.period_ms)") }}, 'silent',
        problems.failing > 0 OR devices.gpus_gone > 0 OR notEmpty(devices.problems), 'failing',
        'ok'
    ) AS state,
    multiIf(
        devices.gpus = 0, machine.first_at, machine.last_at = toDateTime64(0, 3, 'UTC'), devices.first_at,
        least(machine.first_at, devices.first_at)
    ) AS first_seen_at,
    CAST(greatest(
        if({{ ahead("machine.last_at") }}, greatest(believed.last_at, machine.first_at), machine.last_at),
        if({{ ahead("devices.last_at") }} AND machine.last_at > toDateTime64(0, 3, 'UTC'), toDateTime64(0, 3, 'UTC'), devices.last_at)
    ), 'SimpleAggregateFunction(max, DateTime64(3, \'UTC\'))') AS last_seen_at,
    toString(last.agent_version) AS agent_version,
    toString(last.kernel) AS kernel,
    last.uptime_s AS uptime_s,
    last.cores AS cores,
    last.cpu_util_permille / 1000 AS cpu_util,
    last.load1_centi / 100 AS load1,
    toUInt64(last.mem_total_mebibytes) * 1048576 AS mem_total_bytes,
    toUInt64(last.mem_available_mebibytes) * 1048576 AS mem_available_bytes,
    toUInt64(last.swap_used_mebibytes) * 1048576 AS swap_used_bytes,
    last.psi_cpu_some_permille / 1000 AS psi_cpu_some,
    last.psi_memory_full_permille / 1000 AS psi_memory_full,
    last.psi_io_full_permille / 1000 AS psi_io_full,
    devices.gpus AS gpus,
    devices.gpus_ok AS gpus_ok,
    devices.gpus_gone AS gpus_gone,
    devices.gpu_util AS gpu_util,
    devices.power_watts AS gpu_power_watts,
    problems.failing AS sources_failing,
    arrayConcat(problems.what, devices.problems) AS problems,
    devices.sm_active AS sm_active,
    panels.l2_hit_ratio AS l2_hit_ratio,
    panels.l3_hit_ratio AS l3_hit_ratio,
    panels.mem_bandwidth_bytes_per_s AS mem_bandwidth_bytes_per_s,
    panels.network_bytes_per_s AS network_bytes_per_s,
    panels.storage_bytes_per_s AS storage_bytes_per_s
FROM
(
    SELECT host FROM {{ name("host_last") }}
    UNION DISTINCT
    SELECT host FROM {{ name("gpu_last") }}
) AS seen
LEFT JOIN
(
    SELECT
        host,
        min(host_last.first_at) AS first_at,
        max(host_last.last_at) AS last_at,
        argMaxMerge(latest) AS last
    FROM {{ name("host_last") }} AS host_last
    GROUP BY host
) AS machine ON machine.host = seen.host
LEFT JOIN
(
    -- Nearly always of no host, and nothing is read.
    SELECT host, max(ts) AS last_at
    FROM {{ name("host_samples") }} AS samples
    WHERE samples.ts > now64(3) - INTERVAL 1 DAY AND NOT ({{ ahead("samples.ts") }})
        AND host GLOBAL IN (SELECT host FROM {{ name("host_last") }} WHERE {{ ahead("last_at") }})
    GROUP BY host
) AS believed ON believed.host = seen.host
LEFT JOIN
(
    SELECT
        host,
        min(first_seen_at) AS first_at,
        max(last_seen_at) AS last_at,
        max(period_ms) AS period_ms,
        count() AS gpus,
        countIf(state = 'ok') AS gpus_ok,
        countIf(state = 'gone') AS gpus_gone,
        arraySort(groupArrayArrayIf(arrayMap(problem -> concat('GPU ', toString(gpu), ': ', problem), gpu_statuses.problems), status = 'failing')) AS problems,
        avgOrNullIf(gpu_util, state = 'ok') AS gpu_util,
        avgOrNullIf(sm_active, state = 'ok') AS sm_active,
        sumOrNullIf(power_watts, state = 'ok') AS power_watts
    FROM {{ name("gpu_statuses") }} AS gpu_statuses
    GROUP BY host
) AS devices ON devices.host = seen.host
LEFT JOIN
(
    SELECT
        host,
        count() AS failing,
        groupArray(concat(source, if(subject = '', '', concat(' ', subject)), ': ', state)) AS what
    FROM {{ name("source_health_now") }}
    WHERE NOT silent AND state IN ('failed', 'denied', 'timeout')
    GROUP BY host
) AS problems ON problems.host = seen.host
LEFT JOIN
(
    WITH
        NOT {{ silent("io_seen", "io.period_ms") }} AS io_new,
        NOT {{ silent("cache_seen", "cache.period_ms") }} AS cache_new,
        NOT {{ silent("memory_seen", "memory.period_ms") }} AS memory_new
    SELECT
        host,
        avgOrNullIf(cache.l2_hit_ratio_permille, cache_new) / 1000 AS l2_hit_ratio,
        avgOrNullIf(cache.l3_hit_ratio_permille, cache_new) / 1000 AS l3_hit_ratio,
        sumOrNullIf(memory.mem_read_megabytes_per_s + memory.mem_write_megabytes_per_s, memory_new) * 1000000 AS mem_bandwidth_bytes_per_s,
        sumOrNullIf(io.rx_kilobytes_per_s + io.tx_kilobytes_per_s, io_new AND kind IN ('nic', 'rdma')) * 1000 AS network_bytes_per_s,
        sumOrNullIf(io.read_kilobytes_per_s + io.write_kilobytes_per_s, io_new AND kind IN ('disk', 'mount')) * 1000 AS storage_bytes_per_s
    FROM
    (
        SELECT
            host, kind,
{% for part in ["io", "cache", "memory"] %}
            max(kinds.{{ part }}_at) AS {{ part }}_seen,
            argMaxMerge(kinds.{{ part }}) AS {{ part }}{{ "," if not loop.last }}
{% endfor %}
        FROM {{ name("device_kind_last") }} AS kinds
        GROUP BY host, kind
    )
    GROUP BY host
) AS panels ON panels.host = seen.host;
