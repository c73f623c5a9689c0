"""What a report costs: CPU and memory of each, over the hours of 10,000 GPUs and 4 weeks, made by SQL.

Each report is made by a process of its own on the engine in it (`chdb://`), so what is told is all of it: queries,
figures, page, mail and files. The store is made first, in a minute or two, in a folder that goes away.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `benchmarks`, when run as a file

from benchmarks.fleet import print_table
from warpmeter import migrate
from warpmeter.settings import Store
from warpmeter.store import Client, connect

DATABASE: Final = "reports"
HOSTS_A_JOB: Final = 8
JOB_HOURS: Final = 84
GPU_METRICS: Final = {
    "gpu_util_permille": "if(busy, 700 + noise % 300, noise % 15)",
    "sm_active_permille": "if(busy, 400 + noise % 300, 0)",
    "tensor_active_permille": "if(busy, 200 + noise % 200, 0)",
    "power_deciwatts": "if(busy, 4200 + noise % 2000, 700)",
    "temperature_celsius": "if(busy, 55 + noise % 15, 32)",
    "throttle_reasons": "multiIf(noise % 5000 = 0, 64, busy, 4, 1)",
    "ecc_corrected_errors": "if(gpu % 500 = 0, intDiv(hour, 24), 0)",
    "ecc_uncorrected_errors": "if(gpu % 2000 = 0, intDiv(hour, 200), 0)",
    "remapped_rows_corrected": "0",
    "remapped_rows_uncorrected": "0",
    "pcie_link_generation": "5",
    "pcie_link_width": "if(gpu % 3000 = 7, 8, 16)",
    "pcie_replays": "0",
    "nvlink_crc_errors": "0",
}
"""A metric's stored value in an hour of a GPU; `busy`: the job that the GPU is of does something."""


def fill(client: Client, hosts: int, since: datetime, days: int) -> None:
    """All that reports read, of so many hosts of 8 GPUs."""
    start, hours = int(since.timestamp()), days * 24
    name = "concat('gpu-', leftPad(toString(intDiv(gpu, 8)), 5, '0'))"
    job = f"concat('job-', toString(intDiv(host, {HOSTS_A_JOB})), '-', toString(intDiv(hour, {JOB_HOURS})))"
    columns = ", ".join(f"{c}_count, {c}_sum, {c}_min, {c}_max" for c in GPU_METRICS)
    values = ", ".join(f"60, toUInt64({v}) * 60, {v}, {v}" for v in GPU_METRICS.values())
    gpu = f"""
        SELECT number % {hosts * 8} AS gpu, intDiv(number, {hosts * 8}) AS hour, cityHash64(number) % 10000 AS noise,
            cityHash64(intDiv(gpu, {8 * HOSTS_A_JOB}), hour) % 100 < 85 AS busy
        FROM numbers({hosts * 8 * hours})"""
    client.command(f"""
        INSERT INTO gpu_heatmap_1h (host, gpu, uuid, window, samples, covered_ms, idle_ms, {columns})
        SELECT {name}, gpu % 8, concat('GPU-', toString(gpu)), toDateTime({start} + hour * 3600, 'UTC'), 60, 3600000,
            if(busy, 0, 3600000), {values}
        FROM ({gpu})""")
    client.command(f"""
        INSERT INTO job_windows_1h (job_id, host, window, gpu_seconds, idle_seconds, gpu_util_seconds,
            gpu_util_known_seconds, sm_active_seconds, sm_active_known_seconds, energy_joules, power_known_seconds)
        SELECT {job}, concat('gpu-', leftPad(toString(host), 5, '0')), toDateTime({start} + hour * 3600, 'UTC'), 28800,
            if(busy, 0, 28800), 28800 * if(busy, 0.8, 0.01), 28800, 28800 * 0.5 * busy, 28800,
            28800 * if(busy, 500, 70), 28800
        FROM
        (
            SELECT number % {hosts} AS host, intDiv(number, {hosts}) AS hour,
                cityHash64(intDiv(host, {HOSTS_A_JOB}), hour) % 100 < 85 AS busy
            FROM numbers({hosts * hours})
        )""")
    client.command(f"""
        INSERT INTO host_windows_1h (host, window, samples, covered_ms)
        SELECT concat('gpu-', leftPad(toString(number % {hosts}), 5, '0')),
            toDateTime({start} + intDiv(number, {hosts}) * 3600, 'UTC'), 3600, if(number % 997 = 0, 1800000, 3600000)
        FROM numbers({hosts * hours})""")
    client.command(
        f"""
        INSERT INTO fleet_windows_1h (window, samples, covered_ms, gpu_util_permille_quantiles,
            sm_active_permille_quantiles)
        SELECT toDateTime({start} + intDiv(number, 1000) * 3600, 'UTC'), count(), count() * 3600000,
            quantilesTimingState(0.5, 0.95)(toNullable(toUInt16(number % 1000))),
            quantilesTimingState(0.5, 0.95)(toNullable(toUInt16(number % 700)))
        FROM numbers({hours * 1000}) GROUP BY 1""".replace("GROUP BY 1", "GROUP BY intDiv(number, 1000)")
    )
    _latest(client, hosts, start, hours, job)
    _raw(client, hosts, start + hours * 3600)


def _latest(client: Client, hosts: int, start: int, hours: int, job: str) -> None:
    """The rows that GPUs, hosts and jobs are known by, through the views that ingest fills."""
    for at in (start, start + hours * 3600 - 60):
        client.command(f"""
            INSERT INTO gpu_samples (host, ts, period_ms, gpu, uuid, model)
            SELECT concat('gpu-', leftPad(toString(intDiv(number, 8)), 5, '0')), toDateTime64({at}, 3, 'UTC'), 0,
                number % 8, concat('GPU-', toString(number)), 'NVIDIA H200'
            FROM numbers({hosts * 8})""")
        client.command(f"""
            INSERT INTO host_samples (host, ts, period_ms)
            SELECT concat('gpu-', leftPad(toString(number), 5, '0')), toDateTime64({at}, 3, 'UTC'), 0
            FROM numbers({hosts})""")
    client.command(f"""
        INSERT INTO job_events (host, ts, period_ms, job_id, event, name, user, pid, started_at, labels, gpu_uuids)
        SELECT concat('gpu-', leftPad(toString(host), 5, '0')), toDateTime64(least({start} + (hour + {JOB_HOURS}) * 3600, {start + hours * 3600 - 1}), 3, 'UTC'),
            10000, {job}, 'ended', concat('train-', toString(host % 40), '.py'), concat('user-', toString(intDiv(host, {HOSTS_A_JOB}) % 60)),
            7, toDateTime64({start} + hour * 3600, 3, 'UTC'),
            map('account', concat('team-', toString(intDiv(host, {HOSTS_A_JOB}) % 12)), 'partition', 'batch'),
            arrayMap(gpu -> concat('GPU-', toString(host * 8 + gpu)), range(8))
        FROM (SELECT number % {hosts} AS host, intDiv(number, {hosts}) * {JOB_HOURS} AS hour FROM numbers({hosts * (hours // JOB_HOURS)}))
        SETTINGS max_partitions_per_insert_block = 0""")  # noqa: E501 - one statement


def _raw(client: Client, hosts: int, end: int) -> None:
    """A week of what agents said of their sources, each ten minutes, and an hour of network cards."""
    client.command(f"""
        INSERT INTO source_health (host, ts, period_ms, source, subject, state, why)
        SELECT concat('gpu-', leftPad(toString(number % {hosts}), 5, '0')), toDateTime64({end} - 1 - intDiv(number, {hosts * 10}) * 600, 3, 'UTC'),
            10000, concat('source-', toString(intDiv(number, {hosts}) % 10)), '',
            if(cityHash64(number) % 200 = 0, 'failed', 'ok'), 'read of /sys failed'
        FROM numbers({hosts * 10 * 1008})
        SETTINGS max_partitions_per_insert_block = 0""")  # noqa: E501 - one statement
    client.command(f"""
        INSERT INTO device_samples (host, ts, period_ms, kind, device, link_megabits_per_s)
        SELECT concat('gpu-', leftPad(toString(number % {hosts}), 5, '0')), toDateTime64({end} - 10 - intDiv(number, {hosts * 10}) * 10, 3, 'UTC'),
            10000, 'nic', concat('eth', toString(intDiv(number, {hosts}) % 10)), if(number % {hosts} = 17, 100000, 400000)
        FROM numbers({hosts * 10 * 360})
        SETTINGS max_partitions_per_insert_block = 0""")  # noqa: E501 - one statement


def one(store: Store, report: str, since: datetime, until: datetime) -> None:
    """Make one report in this process, and print what it cost as JSON."""
    from warpmeter.scheduler.reports import Asked, Period, Price, render

    subject = "job-3-7" if report == "job" else ""
    render(store, Asked("captures", Period(since, since + timedelta(hours=1))))  # what is loaded once
    began, cpu = time.monotonic(), time.process_time()
    found = render(store, Asked(report, Period(since, until), subject, Price(0.25, 2.0)))
    told = {"wall_s": time.monotonic() - began, "cpu_s": time.process_time() - cpu}
    told |= {"mib": _peak_mib(), "page": len(found.html)}
    told |= {"mail": len(found.mail_html), "rows": sum(len(table.rows) for table in found.tables)}
    print(json.dumps(told))


def _peak_mib() -> float:
    """The most memory that this process had; getrusage would count its parent's before the exec."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1024


def main() -> None:
    """Make the store, and each report by a process of its own; print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=1250, help="hosts of 8 GPUs")
    parser.add_argument("--days", type=int, default=28)
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    parser.add_argument("--folder", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    now = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    until = now - timedelta(days=now.weekday())
    since = until - timedelta(days=given.days)
    if given.one:
        one(Store(dsn=f"chdb://{given.folder}", database=DATABASE), given.one, since, until)
        return
    with tempfile.TemporaryDirectory(prefix="warpmeter-reports-") as folder:
        store = Store(dsn=f"chdb://{folder}/engine", database=DATABASE)
        with closing(connect(replace(store), database="default")) as client:
            migrate.apply(client, store)
            with closing(connect(store)) as filler:
                fill(filler, given.hosts, since, given.days)
        rows = [
            _measured(report, f"{folder}/engine", given)
            for report in ("fleet-weekly", "host-health", "job", "captures")
        ]
    head = ("report", "CPU s", "wall s", "peak MiB", "page kB", "mail kB", "rows")
    print_table(f"Reports of {given.days} days of {given.hosts * 8:,} GPUs", head, rows)


def _measured(report: str, folder: str, given: argparse.Namespace) -> list[str]:
    command = [sys.executable, __file__, "--one", report, "--folder", folder, "--days", str(given.days)]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    return [
        report,
        f"{told['cpu_s']:.1f}",
        f"{told['wall_s']:.1f}",
        f"{told['mib']:,.0f}",
        f"{told['page'] / 1000:,.0f}",
        f"{told['mail'] / 1000:,.0f}",
        f"{told['rows']:,}",
    ]


if __name__ == "__main__":
    main()
