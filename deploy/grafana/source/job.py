"""Job: what its GPUs, CPUs and steps did over time, on which hosts and ranks, what it cost; the way to a profile."""

from typing import Final

from deploy.grafana.source.ask import JOB, OF_JOB, PAGE, STEP_S, TIME, TOP, USERS, WINDOWS, WITHIN, mean, weighed
from deploy.grafana.source.host import MEMORY, NETWORK, STACKS, STORAGE, devices, flame
from deploy.grafana.source.model import Column, Dashboard, Panel, Row, link
from deploy.grafana.source.overview import BYTES, RATIO, TO_HOST

SPAN_S: Final = f"(uniqExact(window) * {STEP_S})"
"""Seconds of the windows that are there."""
ITS_HOSTS: Final = f"host GLOBAL IN (SELECT arrayJoin(hosts) FROM jobs WHERE {OF_JOB})"
ITS_TIME: Final = (
    f"window >= (SELECT toStartOfHour(min(started_at)) FROM jobs WHERE {OF_JOB}) "
    f"AND window <= (SELECT max(last_seen_at) FROM jobs WHERE {OF_JOB})"
)
ITS_GPUS: Final = f"uuid GLOBAL IN (SELECT arrayJoin(gpu_uuids) FROM jobs WHERE {OF_JOB})"


def of_job(title: str, unit: str, ratio: bool = False, help: str = "", **lines: str) -> Panel:
    """A line for each expression over the job's windows, all its hosts together."""
    listed = ",\n    ".join(f"{sql} AS {name}" for name, sql in lines.items())
    sql = f"""
SELECT {TIME},
    {listed}
FROM job_windows_${{windows}}
WHERE {WITHIN} AND {OF_JOB}
GROUP BY time
ORDER BY time"""
    return Panel("timeseries", title, sql, unit, help, ratio=ratio)


def by_host(title: str, name: str) -> Panel:
    """A line a host of the job: the lowest ones, for those hold the others up."""
    sql = f"""
SELECT {TIME}, host AS name, {weighed(name)} AS value
FROM job_windows_${{windows}}
WHERE {WITHIN} AND {OF_JOB} AND host GLOBAL IN
(
    SELECT host FROM job_windows_1h WHERE {OF_JOB} AND window >= toStartOfHour($__fromTime) AND window <= $__toTime
    GROUP BY host ORDER BY {weighed(name)} NULLS LAST, host LIMIT ${{top}}
)
GROUP BY time, host
ORDER BY time, host"""
    return Panel("timeseries", title, sql, "percentunit", "The lowest hosts of the job.", ratio=True)


_BY_GPU: Final = f"""
SELECT {TIME}, concat(host, ' GPU ', toString(gpu)) AS name, {mean("gpu_util_permille")} AS value
FROM gpu_heatmap_${{windows}}
WHERE {WITHIN} AND {ITS_HOSTS} AND {ITS_TIME} AND (host, gpu) GLOBAL IN
(
    SELECT host, gpu FROM gpu_heatmap_1h
    WHERE window >= toStartOfHour($__fromTime) AND window <= $__toTime AND {ITS_HOSTS} AND {ITS_GPUS} AND {ITS_TIME}
    GROUP BY host, gpu ORDER BY {mean("gpu_util_permille")} NULLS LAST, host, gpu LIMIT ${{top}}
)
GROUP BY time, host, gpu
ORDER BY time, host, gpu"""
_HOSTS: Final = f"""
SELECT
    host, sum(gpu_seconds) / 3600 AS gpu_hours, sum(idle_seconds) / 3600 AS idle_gpu_hours,
    {weighed("gpu_util")} AS gpu_util, {weighed("sm_active")} AS sm_active, {weighed("tensor_active")} AS tensor_active,
    sum(energy_joules) / nullIf(sum(power_known_seconds), 0) AS power_of_a_gpu,
    sum(cpu_core_seconds) / nullIf(sum(cpu_known_seconds), 0) AS cpu_cores, max(rss_bytes_max) AS rss_bytes_max,
    max(fb_used_bytes_max) AS fb_used_bytes_max, sum(read_bytes) AS read, sum(written_bytes) AS written
FROM job_windows_1h
WHERE {OF_JOB} AND window >= toStartOfHour($__fromTime) AND window <= $__toTime
GROUP BY host
ORDER BY gpu_util NULLS LAST, host
LIMIT 10000"""
CAPTURES_COLUMNS: Final = {
    "capture_id": Column(link=link("profiling", capture="${__data.fields.capture_id}", job="${__data.fields.job_id}")),
    "bytes": BYTES, "why": Column(width=300),
}  # fmt: skip


def captures(where: str, size: tuple[int, int] = (24, 8)) -> Panel:
    """Captures that were asked for in the range; a click on one shows its analysis."""
    sql = f"""
SELECT requested_at, capture_id, job_id, name, requested_by, state, reason, why, mode, processes, captured, analysed,
    failed, bytes, ended_at
FROM captures
WHERE $__timeFilter(requested_at) AND {where}
ORDER BY requested_at DESC, capture_id
LIMIT 500"""
    return Panel("table", "Captures that were asked for", sql, columns=CAPTURES_COLUMNS, size=size)


JOB_BOARD: Final = Dashboard(
    "job",
    "Job",
    (
        Row(
            "$job",
            (
                Panel(
                    "table",
                    "What it is",
                    f"""
SELECT name, user, account, scheduler, state, gpus, length(hosts) AS hosts, world_size, started_at, ended_at,
    duration_s, arrayStringConcat(hosts_lost, ', ') AS hosts_lost, command
FROM jobs
WHERE {OF_JOB}""",
                    size=(24, 3),
                    columns={"duration_s": Column("s")},
                ),
                Panel(
                    "stat",
                    "GPU hours of its whole life",
                    f"SELECT gpu_hours AS held, wasted_gpu_hours AS wasted FROM job_efficiency WHERE {OF_JOB}",
                    "h",
                    size=(6, 4),
                ),
                Panel(
                    "stat",
                    "Use over its whole life",
                    f"SELECT gpu_util, sm_active, tensor_active, dram_active, wasted "
                    f"FROM job_efficiency WHERE {OF_JOB}",
                    "percentunit",
                    size=(12, 4),
                ),
                Panel(
                    "stat", "Energy", f"SELECT energy_joules FROM job_efficiency WHERE {OF_JOB}", "joule", size=(3, 4)
                ),
                Panel(
                    "text",
                    "Profile it",
                    size=(3, 4),
                    options={
                        "mode": "markdown",
                        "content": "[Launch a capture](${page}/job?id=${job:percentencode}) · "
                        "[Captures](${page}/profiling?job=${job:percentencode})",
                    },
                ),
            ),
        ),
        Row(
            "Its GPUs",
            (
                of_job(
                    "GPU utilisation and activity",
                    "percentunit",
                    True,
                    gpu_util=weighed("gpu_util"),
                    sm_active=weighed("sm_active"),
                    tensor_active=weighed("tensor_active"),
                    memory_bandwidth=weighed("dram_active"),
                    idle="sum(idle_seconds) / nullIf(sum(gpu_seconds), 0)",
                ),
                of_job(
                    "GPUs held",
                    "short",
                    gpus=f"sum(gpu_seconds) / {SPAN_S}",
                    help="A job that shares a GPU holds its share of it.",
                ),
                of_job("Power", "watt", power=f"sum(energy_joules) / {SPAN_S}"),
                by_host("GPU utilisation of its lowest hosts", "gpu_util"),
                by_host("SM activity of its lowest hosts", "sm_active"),
                Panel("status-history", "Its lowest GPUs", _BY_GPU, "percentunit", ratio=True),
            ),
        ),
        Row(
            "Steps, CPUs and memory",
            (
                Panel(
                    "timeseries",
                    "Time of a step",
                    f"""
SELECT {TIME}, sum(step_seconds_sum) / nullIf(sum(readings), 0) AS mean, min(step_seconds_min) AS least,
    max(step_seconds_max) AS most
FROM job_steps_${{windows}}
WHERE {WITHIN} AND {OF_JOB}
GROUP BY time
ORDER BY time""",
                    "s",
                    "Where a PyTorch job counts its steps (docs/regressions.md).",
                ),
                of_job(
                    "CPU cores",
                    "short",
                    cores="sum(cpu_core_seconds) / nullIf(sum(cpu_known_seconds), 0) * "
                    "uniqExactIf(host, cpu_known_seconds > 0)",
                ),
                of_job("Most memory on a host", "bytes", host="max(rss_bytes_max)", device="max(fb_used_bytes_max)"),
                of_job(
                    "Read and written by its processes",
                    "Bps",
                    read=f"sum(job_windows_${{windows}}.read_bytes) / {SPAN_S}",
                    written=f"sum(job_windows_${{windows}}.written_bytes) / {SPAN_S}",
                ),
            ),
        ),
        Row(
            "Its hosts, all that runs on them",
            (
                Panel(
                    "timeseries",
                    "CPU utilisation",
                    f"""
SELECT {TIME}, {mean("cpu_util_permille")} AS mean, max(cpu_util_permille_max) / 1000 AS most
FROM host_windows_${{windows}}
WHERE {WITHIN} AND {ITS_HOSTS} AND {ITS_TIME}
GROUP BY time
ORDER BY time""",
                    "percentunit",
                    ratio=True,
                ),
                Panel("timeseries", "Memory bandwidth", devices(MEMORY, ("socket",), ITS_HOSTS, "all"), "Bps"),
                Panel(
                    "timeseries",
                    "L2 and L3 cache hit ratio",
                    devices(
                        {"L2": "l2_hit_ratio_permille", "L3": "l3_hit_ratio_permille"}, ("socket",), ITS_HOSTS, "all"
                    ),
                    "percentunit",
                    ratio=True,
                ),
                Panel(
                    "timeseries",
                    "Network bandwidth",
                    devices(NETWORK, ("nic", "rdma"), ITS_HOSTS, "all"),
                    "Bps",
                    size=(12, 8),
                ),
                Panel(
                    "timeseries",
                    "Storage bandwidth",
                    devices(STORAGE, ("disk", "mount"), ITS_HOSTS, "all"),
                    "Bps",
                    size=(12, 8),
                ),
            ),
        ),
        Row(
            "Profile",
            (
                flame("Where its CPU time went", job="${job:singlequote}"),
                captures(OF_JOB),
            ),
        ),
        Row(
            "Tables",
            (
                Panel(
                    "table",
                    "By host, over the range",
                    _HOSTS,
                    size=(24, 9),
                    columns={
                        "host": TO_HOST,
                        "gpu_hours": Column("h"),
                        "idle_gpu_hours": Column("h"),
                        "gpu_util": RATIO,
                        "sm_active": RATIO,
                        "tensor_active": RATIO,
                        "power_of_a_gpu": Column("watt"),
                        "rss_bytes_max": BYTES,
                        "fb_used_bytes_max": BYTES,
                        "read": BYTES,
                        "written": BYTES,
                    },
                ),
                Panel(
                    "table",
                    "XIDs",
                    """
SELECT raised_at, host, gpu, code, what, count, cleared_at
FROM gpu_xids
WHERE has(job_ids, ${job:singlequote}) AND $__timeFilter(raised_at)
ORDER BY raised_at DESC
LIMIT 500""",
                    size=(12, 7),
                    columns={"host": TO_HOST},
                ),
                Panel(
                    "table",
                    "Alerts",
                    """
SELECT fired_at, state, severity, rule, summary, resolved_at, acknowledged_by
FROM alerts_now
WHERE labels['job_id'] = ${job:singlequote} AND state IN ('firing', 'resolved') AND $__timeFilter(fired_at)
ORDER BY fired_at DESC
LIMIT 500""",
                    size=(12, 7),
                ),
            ),
        ),
    ),
    (WINDOWS, STACKS, USERS, JOB, TOP, PAGE),
    {
        "Alerts": "SELECT fired_at AS time, resolved_at AS timeEnd, summary AS text, [rule, severity] AS tags "
        "FROM alerts_now WHERE $__timeFilter(fired_at) AND labels['job_id'] = ${job:singlequote} "
        "ORDER BY time LIMIT 1000",
        "Captures": "SELECT requested_at AS time, ended_at AS timeEnd, "
        "concat('capture ', capture_id, ': ', state) AS text, "
        "['capture'] AS tags FROM captures WHERE $__timeFilter(requested_at) AND job_id = ${job:singlequote} "
        "ORDER BY time LIMIT 1000",
    },
)
