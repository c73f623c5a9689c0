"""Overview: the fleet at a glance, who uses it, what somebody must look at, and the way to a host or a job."""

from typing import Final

from deploy.grafana.source.ask import (
    CLOSED,
    HOSTS,
    HOURLY,
    HOURS,
    METRIC,
    OF_HOSTS,
    ORDER,
    STEP_S,
    TIME,
    TOP,
    USERS,
    WINDOWS,
    WITHIN,
    mean,
)  # fmt: skip
from deploy.grafana.source.model import Column, Dashboard, Panel, Row, link

ALERTS: Final = (
    "SELECT fired_at AS time, resolved_at AS timeEnd, summary AS text, [rule, severity] AS tags "
    "FROM alerts_now WHERE $__timeFilter(fired_at) ORDER BY time LIMIT 1000"
)
TO_HOST: Final = Column(link=link("host", host="${__data.fields.host}"))
TO_JOB: Final = Column(link=link("job", job="${__data.fields.job_id}"))
RATIO: Final = Column("percentunit")
BYTES: Final = Column("bytes")
HOURS_USED: Final = Column("h")


def _statistics(title: str, stem: str, unit: str, help: str = "") -> Panel:
    """Mean, median and 95th percentile over all GPUs and the whole range."""
    scale = {"_permille": " / 1000", "_deciwatts": " / 10"}.get(stem[stem.rfind("_") :], "")
    merged = "quantilesTimingMerge(0.5, 0.95)" if scale == " / 1000" else "quantilesDDMerge(0.01, 0.5, 0.95)"
    sql = f"""
SELECT mean, if(isNaN(of[1]), NULL, of[1]{scale}) AS median, if(isNaN(of[2]), NULL, of[2]{scale}) AS p95
FROM
(
    SELECT {mean(stem)} AS mean, {merged}({stem}_quantiles) AS of
    FROM fleet_windows_${{windows}}
    WHERE {WITHIN}
)"""
    return Panel("stat", title, sql, unit, help, (4, 5))


def _by_host(title: str, stem: str, unit: str, ratio: bool = True) -> Panel:
    """A line a host: those chosen; of them as many as there are to be lines, chosen by their hours."""
    sql = f"""
SELECT {TIME}, host AS name, {mean(stem)} AS value
FROM gpu_heatmap_${{windows}}
WHERE {WITHIN} AND host GLOBAL IN
(
    SELECT host FROM gpu_heatmap_1h WHERE {HOURS} AND {OF_HOSTS}
    GROUP BY host ORDER BY {mean(stem)} ${{order}} NULLS LAST, host LIMIT ${{top}}
)
GROUP BY time, host
ORDER BY time, host"""
    return Panel("timeseries", title, sql, unit, "The mean of the host's GPUs.", ratio=ratio)


_SHARES: Final = ",\n    ".join(
    f"countIf(mean >= {low / 10:.10g}{'' if low == 9 else f' AND mean < {low / 10 + 0.1:.10g}'}) "
    f"AS `{low * 10}-{low * 10 + 10} %`"
    for low in range(10)
)
_DISTRIBUTION: Final = f"""
SELECT time,
    {_SHARES}
FROM
(
    SELECT {HOURLY} AS time, {mean("${metric}")} AS mean
    FROM gpu_heatmap_1h
    WHERE {HOURS} AND {OF_HOSTS}
    GROUP BY time, host, uuid
)
GROUP BY time
ORDER BY time"""
_BY_GPU: Final = f"""
SELECT {TIME}, concat(host, ' GPU ', toString(gpu)) AS name, {mean("${metric}")} AS value
FROM gpu_heatmap_${{windows}}
WHERE {WITHIN} AND (host, gpu) GLOBAL IN
(
    SELECT host, gpu FROM gpu_heatmap_1h WHERE {HOURS} AND {OF_HOSTS}
    GROUP BY host, gpu ORDER BY {mean("${metric}")} ${{order}} NULLS LAST, host, gpu LIMIT ${{top}}
)
GROUP BY time, host, gpu
ORDER BY time, host, gpu"""
_HOSTS: Final = f"""
SELECT
    host, state, arrayStringConcat(problems, ', ') AS problems, gpus, gpus_ok, gpu_util, sm_active, gpu_power_watts,
    cpu_util, 1 - mem_available_bytes / mem_total_bytes AS mem_used, mem_bandwidth_bytes_per_s, network_bytes_per_s,
    storage_bytes_per_s, agent_version, last_seen_at
FROM hosts
WHERE {OF_HOSTS}
ORDER BY state = 'ok', gpu_util NULLS LAST, host
LIMIT 1000"""
_JOBS: Final = f"""
SELECT
    used.job_id AS job_id, jobs.name AS name, jobs.user AS user, jobs.state AS state, jobs.gpus AS gpus,
    length(jobs.hosts) AS hosts, used.gpu_hours AS gpu_hours, used.idle_gpu_hours AS idle_gpu_hours,
    used.gpu_util AS gpu_util, used.sm_active AS sm_active, used.tensor_active AS tensor_active, used.energy AS energy,
    jobs.started_at AS started_at, jobs.ended_at AS ended_at
FROM
(
    SELECT
        job_id, sum(gpu_seconds) / 3600 AS gpu_hours, sum(idle_seconds) / 3600 AS idle_gpu_hours,
        sum(gpu_util_seconds) / nullIf(sum(gpu_util_known_seconds), 0) AS gpu_util,
        sum(sm_active_seconds) / nullIf(sum(sm_active_known_seconds), 0) AS sm_active,
        sum(tensor_active_seconds) / nullIf(sum(tensor_active_known_seconds), 0) AS tensor_active,
        sum(energy_joules) AS energy
    FROM job_windows_1h
    WHERE {HOURS} AND {OF_HOSTS}
        AND $__conditionalAll(job_id GLOBAL IN (SELECT job_id FROM jobs WHERE user IN (${{user:singlequote}})), $user)
    GROUP BY job_id
    ORDER BY gpu_hours DESC, job_id
    LIMIT 1000
) AS used
GLOBAL LEFT JOIN jobs ON jobs.job_id = used.job_id
ORDER BY gpu_hours DESC, job_id"""
_USERS: Final = f"""
SELECT {HOURLY} AS time, if(owner.user = '', 'unknown', owner.user) AS name, sum(w.gpu_seconds) / 3600 AS value
FROM job_windows_1h AS w
GLOBAL LEFT JOIN (SELECT job_id, user FROM jobs) AS owner ON owner.job_id = w.job_id
WHERE {HOURS} AND $__conditionalAll(owner.user IN (${{user:singlequote}}), $user)
GROUP BY time, name
ORDER BY time, name"""

OVERVIEW: Final = Dashboard(
    "overview",
    "Overview",
    (
        Row(
            "Now",
            (
                Panel(
                    "stat",
                    "Hosts",
                    "SELECT countIf(state = 'ok') AS ok, countIf(state = 'failing') AS failing, "
                    "countIf(state = 'silent') AS silent FROM hosts",
                    size=(6, 4),
                ),
                Panel(
                    "stat",
                    "GPUs",
                    "SELECT countIf(status = 'busy') AS busy, countIf(status = 'idle') AS idle, "
                    "countIf(status = 'failing') AS failing, countIf(status = 'gone') AS gone FROM gpu_statuses",
                    size=(8, 4),
                ),
                Panel(
                    "stat",
                    "Jobs",
                    "SELECT countIf(state = 'running') AS running, countIf(state = 'lost') AS lost "
                    "FROM jobs WHERE last_seen_at > now() - INTERVAL 1 DAY",
                    size=(5, 4),
                ),
                Panel(
                    "stat",
                    "Alerts",
                    "SELECT countIf(severity = 'critical') AS critical, "
                    "countIf(severity = 'warning') AS warning FROM alerts_now WHERE state = 'firing'",
                    size=(5, 4),
                ),
            ),
        ),
        Row(
            "The range: of all GPUs mean, median, 95th percentile (nearer 100 % is used more)",
            (
                _statistics(
                    "GPU utilisation", "gpu_util_permille", "percentunit", "Share of time in which a kernel ran."
                ),
                _statistics("SM activity", "sm_active_permille", "percentunit"),
                _statistics("Tensor activity", "tensor_active_permille", "percentunit"),
                _statistics("Memory bandwidth", "dram_active_permille", "percentunit"),
                _statistics("Power of a GPU", "power_deciwatts", "watt"),
                _statistics("Temperature", "temperature_celsius", "celsius"),
                Panel(
                    "timeseries",
                    "Use of the fleet",
                    f"""
SELECT {TIME}, {mean("gpu_util_permille")} AS gpu_util, {mean("sm_active_permille")} AS sm_active,
    {mean("tensor_active_permille")} AS tensor_active, {mean("dram_active_permille")} AS dram_active,
    sum(fb_used_mebibytes_sum) / nullIf(sum(fb_total_mebibytes_sum), 0) AS memory_used
FROM fleet_windows_${{windows}}
WHERE {WITHIN}
GROUP BY time
ORDER BY time""",
                    "percentunit",
                    ratio=True,
                ),
                Panel(
                    "timeseries",
                    "Power of the fleet",
                    f"""
SELECT {TIME}, {mean("power_deciwatts")} * sum(covered_ms) / 1000 / (uniqExact(window) * {STEP_S}) AS power
FROM fleet_windows_${{windows}}
WHERE {WITHIN} AND {CLOSED}
GROUP BY time
ORDER BY time""",
                    "watt",
                ),
                Panel(
                    "timeseries",
                    "GPUs that were measured, and idle ones",
                    f"""
SELECT {TIME}, sum(covered_ms) / 1000 / (uniqExact(window) * {STEP_S}) AS measured,
    sum(idle_ms) / 1000 / (uniqExact(window) * {STEP_S}) AS idle
FROM fleet_windows_${{windows}}
WHERE {WITHIN} AND {CLOSED}
GROUP BY time
ORDER BY time""",
                    "short",
                ),
                Panel(
                    "stat",
                    "GPU hours",
                    f"SELECT sum(covered_ms) / 3600000 AS measured, sum(idle_ms) / 3600000 AS idle "
                    f"FROM fleet_windows_${{windows}} WHERE {WITHIN}",
                    "h",
                    size=(8, 6),
                ),
                Panel("timeseries", "GPU hours by user", _USERS, "h", size=(16, 6), stacked=True),
            ),
        ),
        Row(
            "By host: those chosen above, so many lines of the highest or lowest",
            (
                _by_host("GPU utilisation", "gpu_util_permille", "percentunit"),
                _by_host("SM activity", "sm_active_permille", "percentunit"),
                _by_host("Tensor activity", "tensor_active_permille", "percentunit"),
                _by_host("Memory bandwidth", "dram_active_permille", "percentunit"),
                _by_host("Power", "power_deciwatts", "watt", ratio=False),
                _by_host("Temperature", "temperature_celsius", "celsius", ratio=False),
            ),
        ),
        Row(
            "By GPU: the chosen metric",
            (
                Panel("heatmap", "How many GPUs were at $metric, by the hour", _DISTRIBUTION, "short", size=(10, 12)),
                Panel("status-history", "$metric of each GPU", _BY_GPU, "percentunit", size=(14, 12), ratio=True),
            ),
        ),
        Row(
            "Hosts",
            (
                Panel(
                    "table",
                    "Hosts now",
                    _HOSTS,
                    size=(24, 10),
                    help="Those that somebody must look at first.",
                    columns={
                        "host": TO_HOST,
                        "gpu_util": RATIO,
                        "sm_active": RATIO,
                        "cpu_util": RATIO,
                        "mem_used": RATIO,
                        "gpu_power_watts": Column("watt"),
                        "mem_bandwidth_bytes_per_s": Column("Bps"),
                        "network_bytes_per_s": Column("Bps"),
                        "storage_bytes_per_s": Column("Bps"),
                        "problems": Column(width=300),
                    },
                ),
            ),
        ),
        Row(
            "Jobs",
            (
                Panel(
                    "table",
                    "Jobs of the range, by their GPU hours in it",
                    _JOBS,
                    size=(24, 10),
                    columns={
                        "job_id": TO_JOB,
                        "gpu_hours": HOURS_USED,
                        "idle_gpu_hours": HOURS_USED,
                        "gpu_util": RATIO,
                        "sm_active": RATIO,
                        "tensor_active": RATIO,
                        "energy": Column("joule"),
                    },
                ),
            ),
        ),
        Row(
            "To look at",
            (
                Panel(
                    "table",
                    "GPUs",
                    f"""
SELECT host, gpu, model, status, arrayStringConcat(problems, ', ') AS problems, why,
    arrayStringConcat(job_ids, ', ') AS jobs, last_seen_at
FROM gpu_statuses
WHERE status IN ('gone', 'failing') AND {OF_HOSTS}
ORDER BY host, gpu
LIMIT 500""",
                    size=(12, 9),
                    columns={"host": TO_HOST},
                ),
                Panel(
                    "table",
                    "Alerts that fire",
                    """
SELECT fired_at, severity, rule, summary, labels['host'] AS host, labels['job_id'] AS job_id, acknowledged_by,
    silenced_by != '' AS silenced
FROM alerts_now
WHERE state = 'firing'
ORDER BY severity = 'critical' DESC, fired_at DESC
LIMIT 500""",
                    size=(12, 9),
                    columns={"host": TO_HOST, "job_id": TO_JOB, "summary": Column(width=300)},
                ),
                Panel(
                    "table",
                    "GPUs that are idle and held by a job",
                    """
SELECT host, gpu, job_id, job_name, user, idle_s, power_watts, fb_used_bytes
FROM idle_gpus
WHERE job_id != ''
ORDER BY idle_s DESC, host, gpu
LIMIT 500""",
                    size=(24, 8),
                    columns={
                        "host": TO_HOST,
                        "job_id": TO_JOB,
                        "idle_s": Column("s"),
                        "power_watts": Column("watt"),
                        "fb_used_bytes": BYTES,
                    },
                ),
            ),
        ),
    ),
    (WINDOWS, HOSTS, USERS, METRIC, ORDER, TOP),
    {"Alerts": ALERTS},
)
