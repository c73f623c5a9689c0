"""Host: its GPUs, CPUs, memory, caches, network and storage over time, what ran on it, and where its CPU time went."""

from typing import Final

from deploy.grafana.source.ask import HOST, OF_HOST, PAGE, TIME, WINDOWS, WITHIN, mean, named
from deploy.grafana.source.model import Column, Dashboard, Panel, Row, Variable
from deploy.grafana.source.overview import RATIO, TO_JOB

EXPORTED: Final = Variable(
    "exported",
    "Metric of an exporter",
    f"SELECT name FROM metric_samples WHERE {OF_HOST} AND $__timeFilter(ts) GROUP BY name ORDER BY name LIMIT 5000",
)
STACKS_RAW_UP_TO_S: Final = 7200
STACKS: Final = Variable(
    "stacks",
    "Stacks",
    f"SELECT if(dateDiff('second', $__fromTime, $__toTime) > {STACKS_RAW_UP_TO_S}, 'stack_hours', 'stack_samples') "
    "AS stacks",
    hidden=True,
)
STACKS_SINCE: Final = "if('${stacks}' = 'stack_hours', toStartOfHour($__fromTime), $__fromTime)"


def of_gpus(title: str, stem: str, unit: str, ratio: bool = False, help: str = "") -> Panel:
    """A line a GPU of the host."""
    sql = f"""
SELECT {TIME}, concat('GPU ', toString(gpu)) AS name, {mean(stem)} AS value
FROM gpu_heatmap_${{windows}}
WHERE {WITHIN} AND {OF_HOST}
GROUP BY time, gpu
ORDER BY time, gpu"""
    return Panel("timeseries", title, sql, unit, help, ratio=ratio)


def of_host(title: str, unit: str, ratio: bool = False, stacked: bool = False, **lines: str) -> Panel:
    """A line for each expression over the host's windows."""
    listed = ", ".join(f"{sql} AS {name}" for name, sql in lines.items())
    sql = f"""
SELECT {TIME}, {listed}
FROM host_windows_${{windows}}
WHERE {WITHIN} AND {OF_HOST}
GROUP BY time
ORDER BY time"""
    return Panel("timeseries", title, sql, unit, ratio=ratio, stacked=stacked)


def devices(columns: dict[str, str], kinds: tuple[str, ...], hosts: str, by: str = "device") -> str:
    """Lines of devices: their samples up to two days, their hours beyond; added up by `by` where that is not `device`.

    `columns` are what lines are called to the column of the hours, whose name in SI is that of the samples.
    """
    scales = {stem: mean(stem) for stem in columns.values()}
    listed = ", ".join(f"'{kind}'" for kind in kinds)
    si = {
        stem: stem.replace("kilobytes", "bytes").replace("megabytes", "bytes").removesuffix("_permille")
        for stem in scales
    }
    name = "concat(device, ' ', line.1)" if by == "device" else "line.1"
    fold = "avg" if by == "device" or all(stem.endswith("_permille") for stem in scales) else "sum"
    raw = ", ".join(f"('{label}', avg({si[stem]}))" for label, stem in columns.items())
    hourly = ", ".join(f"('{label}', {scales[stem]})" for label, stem in columns.items())
    return f"""
SELECT time, {name} AS name, {fold}(line.2) AS value
FROM
(
    SELECT $__timeInterval(ts) AS time, host, toString(device) AS device, [{raw}] AS lines
    FROM device_samples
    WHERE '${{windows}}' = '1m' AND $__timeFilter(ts) AND kind IN ({listed}) AND {hosts}
    GROUP BY time, host, device
    UNION ALL
    SELECT {TIME}, host, toString(device) AS device, [{hourly}] AS lines
    FROM device_windows_1h
    WHERE '${{windows}}' = '1h' AND {WITHIN} AND kind IN ({listed}) AND {hosts}
    GROUP BY time, host, device
)
ARRAY JOIN lines AS line
GROUP BY time, name
ORDER BY time, name"""


NETWORK: Final = {"received": "rx_kilobytes_per_s", "sent": "tx_kilobytes_per_s"}
STORAGE: Final = {"read": "read_kilobytes_per_s", "written": "write_kilobytes_per_s"}
MEMORY: Final = {"read": "mem_read_megabytes_per_s", "written": "mem_write_megabytes_per_s"}


def flame(title: str, host: str = "''", job: str = "''") -> Panel:
    """A flame graph of sampled stacks."""
    sql = named(
        "stack_flame", host=host, job_id=job, windows="${stacks}", since=STACKS_SINCE, until="$__toTime", lines="0",
        by="'process'", source="'py-spy'",
    )  # fmt: skip
    told = "Microseconds in which threads ran or waited for a CPU, scaled from what was sampled (docs/stacks.md)."
    return Panel("flamegraph", title, sql, "short", told, (24, 14))


HOST_BOARD: Final = Dashboard(
    "host",
    "Host",
    (
        Row(
            "$host now",
            (
                Panel(
                    "stat",
                    "State",
                    f"SELECT state, arrayStringConcat(problems, ', ') AS problems FROM hosts WHERE {OF_HOST}",
                    size=(6, 4),
                    options={"reduceOptions": {"calcs": ["lastNotNull"], "fields": "/.*/", "values": False}},
                ),
                Panel(
                    "stat",
                    "Use",
                    f"SELECT gpu_util, sm_active, cpu_util, 1 - mem_available_bytes / mem_total_bytes AS "
                    f"mem_used FROM hosts WHERE {OF_HOST}",
                    "percentunit",
                    size=(10, 4),
                ),
                Panel(
                    "stat",
                    "GPUs",
                    f"SELECT gpus, gpus_ok AS ok, gpus_gone AS gone FROM hosts WHERE {OF_HOST}",
                    size=(4, 4),
                ),
                Panel(
                    "text",
                    "On warpmeter's page",
                    options={
                        "mode": "markdown",
                        "content": "[Metrics, jobs, events of ${host}](${page}/host/${host:percentencode})",
                    },
                    size=(4, 4),
                ),
            ),
        ),
        Row(
            "GPUs",
            (
                of_gpus(
                    "GPU utilisation", "gpu_util_permille", "percentunit", True, "Share of time in which a kernel ran."
                ),
                of_gpus("GPU SM activity", "sm_active_permille", "percentunit", True),
                of_gpus("Tensor activity", "tensor_active_permille", "percentunit", True),
                of_gpus("Device memory bandwidth over its peak", "dram_active_permille", "percentunit", True),
                of_gpus("Device memory in use", "fb_used_mebibytes", "bytes"),
                of_gpus("Power", "power_deciwatts", "watt"),
                of_gpus("Temperature", "temperature_celsius", "celsius"),
                of_gpus("SM clock", "sm_clock_megahertz", "hertz"),
                of_gpus("NVLink received", "nvlink_rx_megabytes_per_s", "Bps"),
                of_gpus("NVLink sent", "nvlink_tx_megabytes_per_s", "Bps"),
                of_gpus("PCIe received", "pcie_rx_megabytes_per_s", "Bps"),
                of_gpus("PCIe sent", "pcie_tx_megabytes_per_s", "Bps"),
            ),
        ),
        Row(
            "CPUs and memory",
            (
                of_host(
                    "CPU utilisation",
                    "percentunit",
                    ratio=True,
                    util=mean("cpu_util_permille"),
                    user=mean("cpu_user_permille"),
                    system=mean("cpu_system_permille"),
                    iowait=mean("cpu_iowait_permille"),
                    busiest_core=mean("core_busy_max_permille"),
                ),
                of_host(
                    "Memory",
                    "bytes",
                    total=mean("mem_total_mebibytes"),
                    available=mean("mem_available_mebibytes"),
                    cached=mean("mem_cached_mebibytes"),
                    swap_used=mean("swap_used_mebibytes"),
                ),
                of_host(
                    "Stalled on CPU, memory, I/O (PSI)",
                    "percentunit",
                    ratio=True,
                    cpu=mean("psi_cpu_some_permille"),
                    memory=mean("psi_memory_full_permille"),
                    io=mean("psi_io_full_permille"),
                ),
                Panel(
                    "timeseries",
                    "Memory bandwidth",
                    devices(MEMORY, ("socket",), OF_HOST),
                    "Bps",
                    "By socket, where CPU counters tell (docs/sources.md).",
                ),
                Panel(
                    "timeseries",
                    "L2 cache hit ratio",
                    devices({"L2": "l2_hit_ratio_permille"}, ("socket",), OF_HOST),
                    "percentunit",
                    ratio=True,
                ),
                Panel(
                    "timeseries",
                    "L3 cache hit ratio",
                    devices({"L3": "l3_hit_ratio_permille"}, ("socket",), OF_HOST),
                    "percentunit",
                    ratio=True,
                ),
                of_host(
                    "Load and processes",
                    "short",
                    load1=mean("load1_centi"),
                    running=mean("procs_running"),
                    blocked=mean("procs_blocked"),
                ),
            ),
        ),
        Row(
            "Network and storage",
            (
                Panel(
                    "timeseries", "Network bandwidth", devices(NETWORK, ("nic", "rdma"), OF_HOST), "Bps", size=(12, 8)
                ),
                Panel(
                    "timeseries", "Storage bandwidth", devices(STORAGE, ("disk", "mount"), OF_HOST), "Bps", size=(12, 8)
                ),
            ),
        ),
        Row("Profile", (flame("Where the CPU time of ${host} went", host="${host:singlequote}"),)),
        Row(
            "Any metric of an exporter",
            (
                Panel(
                    "timeseries",
                    "$exported",
                    f"""
SELECT $__timeInterval(ts) AS time, toString(series) AS id,
    arrayStringConcat(arraySort(arrayMap(
        (key, of) -> concat(key, '=', of), mapKeys(any(labels)), mapValues(any(labels))
    )), ' ') AS name,
    avg(coalesce(rate_per_s, value)) AS value
FROM metric_samples
WHERE metric_samples.name = ${{exported:singlequote}} AND {OF_HOST} AND $__timeFilter(ts)
GROUP BY time, series
ORDER BY time, name, id
LIMIT 100000""",
                    "short",
                    "Of a counter its rate a second. What agent.scrape brings (docs/scraping.md).",
                    (24, 8),
                ),
            ),
        ),
        Row(
            "What ran, and what is wrong",
            (
                Panel(
                    "table",
                    "Jobs",
                    """
SELECT job_id, name, user, state, gpus, length(jobs.hosts) AS hosts, started_at, ended_at, last_seen_at
FROM jobs
WHERE has(jobs.hosts, ${host:singlequote}) AND last_seen_at >= $__fromTime AND started_at <= $__toTime
ORDER BY started_at DESC, job_id
LIMIT 500""",
                    size=(12, 8),
                    columns={"job_id": TO_JOB},
                ),
                Panel(
                    "table",
                    "GPUs",
                    f"""
SELECT gpu, model, status, arrayStringConcat(problems, ', ') AS problems, arrayStringConcat(job_ids, ', ') AS jobs,
    gpu_util, power_watts, temperature_celsius, fb_used_bytes, arrayStringConcat(throttled_by, ', ') AS throttled_by,
    ecc_uncorrected_errors, uuid
FROM gpu_statuses
WHERE {OF_HOST}
ORDER BY gpu, uuid""",
                    size=(12, 8),
                    columns={
                        "gpu_util": RATIO,
                        "power_watts": Column("watt"),
                        "temperature_celsius": Column("celsius"),
                        "fb_used_bytes": Column("bytes"),
                    },
                ),
                Panel(
                    "table",
                    "XIDs",
                    f"""
SELECT raised_at, gpu, code, what, count, cleared_at, why, arrayStringConcat(job_ids, ', ') AS jobs
FROM gpu_xids
WHERE {OF_HOST} AND $__timeFilter(raised_at)
ORDER BY raised_at DESC
LIMIT 500""",
                    size=(12, 8),
                ),
                Panel(
                    "table",
                    "Sources that are not well",
                    f"""
SELECT source, subject, state, why, last_seen_at
FROM source_health_now
WHERE {OF_HOST} AND state NOT IN ('ok', 'unsupported')
ORDER BY source, subject""",
                    size=(12, 8),
                ),
            ),
        ),
    ),
    (WINDOWS, STACKS, HOST, EXPORTED, PAGE),
    {
        "Alerts": "SELECT fired_at AS time, resolved_at AS timeEnd, summary AS text, [rule, severity] AS tags "
        "FROM alerts_now WHERE $__timeFilter(fired_at) AND labels['host'] = ${host:singlequote} "
        "ORDER BY time LIMIT 1000"
    },
)
