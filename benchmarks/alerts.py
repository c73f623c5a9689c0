"""The engine's CPU time for an evaluation of all built-in rules of alerts, over 10,000 GPUs.

A day of a generated fleet (benchmarks/minutes.py) of 1,250 hosts of 8 GPUs, with the latest row of everything in as
many parts as a store has that takes rows each few seconds, and what rules read besides: memory errors by the hour,
clocks of the last minutes, two hours of file systems, step times of jobs. Rules are asked as of the last minute. Each
is asked some times; printed is the median of this process's CPU time, which is the engine's and the client's. Rules
that are not asked in each evaluation take turns.

`--week` shows instead what a healthy fleet says in a week: every evaluation of it, on a small simulated one.
"""

import argparse
import statistics
import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `benchmarks`, when run as a file

from benchmarks.fleet import print_table
from benchmarks.latest import HOSTS_A_JOB, JOB_MINUTES, NAME, UUID, renew
from benchmarks.minutes import made
from tests.alerted import lived, on_store
from warpmeter import migrate
from warpmeter.alerts.configured import rules
from warpmeter.alerts.rule import Rule, builtin
from warpmeter.scheduler.alerts.asking import ask
from warpmeter.scheduler.alerts.watch import turn
from warpmeter.settings import AlertRule, Alerts, Store
from warpmeter.simulate.fleet import Fleet
from warpmeter.store import Client, connect

ROUNDS: Final = 5
LIMIT_S: Final = 2.0
PARTS: Final = 8
MOUNTS: Final = 4


def fill(client: Client, hosts: int, until: int) -> None:
    """What the minutes' store does not have."""
    gpus, now = hosts * 8, f"toDateTime({until}, 'UTC')"
    named = f"{NAME.format(host='intDiv(gpu, 8)')}, toUInt8(gpu % 8), {UUID.format(gpu='gpu')}"
    client.command(f"""INSERT INTO gpu_heatmap_1h (host, gpu, uuid, window, ecc_corrected_errors_min,
            ecc_corrected_errors_max, remapped_rows_corrected_min, remapped_rows_corrected_max)
        SELECT {named}, toStartOfHour({now}) - INTERVAL hour HOUR, 3, 3, 0, 0
        FROM (SELECT number % {gpus} AS gpu, intDiv(number, {gpus}) AS hour FROM numbers({gpus * 24}))""")
    client.command(f"""INSERT INTO gpu_heatmap_1m (host, gpu, uuid, window, sm_clock_megahertz_sum,
            sm_clock_megahertz_count) SELECT {named}, {now} - INTERVAL minute MINUTE, 1900 * 60, 60
        FROM (SELECT number % {gpus} AS gpu, intDiv(number, {gpus}) AS minute FROM numbers({gpus * 120}))""")
    client.command(f"""INSERT INTO device_samples (host, ts, period_ms, kind, device, fs_total_mebibytes,
            fs_used_mebibytes, fs_available_mebibytes, inodes_total, inodes_used)
        SELECT {NAME.format(host=f"number % {hosts}")}, {now} - INTERVAL intDiv(number, {hosts * MOUNTS}) * 10 SECOND,
            10000, 'mount', concat('/mnt', toString(intDiv(number, {hosts}) % {MOUNTS})), 1000000, 500000, 500000, 1000,
            10
        FROM numbers({hosts * MOUNTS * 720})""")
    jobs = hosts // HOSTS_A_JOB // 2
    client.command(f"""INSERT INTO job_steps_1m (job_id, window, readings, step_seconds_sum)
        SELECT concat('job-', toString(number % {jobs}), '-', toString({1440 // JOB_MINUTES - 1})),
            {now} - INTERVAL intDiv(number, {jobs}) MINUTE, 16, 8 FROM numbers({jobs * 720})""")


def parts(client: Client) -> None:
    """The latest rows as they lie in a store that takes rows: in several parts that have not merged."""
    for table in ("gpu_last", "host_last", "source_last"):
        client.command(f"SYSTEM STOP MERGES {table}")
        client.command(f"CREATE TABLE IF NOT EXISTS one_{table} AS {table}")
        client.command(f"INSERT INTO one_{table} SELECT * FROM {table}")
        for _ in range(PARTS - 1):
            client.command(f"INSERT INTO {table} SELECT * FROM one_{table}")
        client.command(f"DROP TABLE one_{table}")


def cost_s(store: Store, rule: Rule, now: float) -> tuple[float, int]:
    """CPU seconds of an evaluation, and subjects found."""
    taken, found = [], 0
    for _ in range(ROUNDS):
        began = time.process_time()
        found = len(ask(store, Alerts(rule_s=60), rule, now).subjects)
        taken.append(time.process_time() - began)
    return statistics.median(taken), found


def due(rule: Rule, number: int, limits: Alerts) -> bool:
    """Whether a rule is asked in an evaluation, counted from the one after an election, which is 0."""
    every = max(1, round(rule.every_s / limits.evaluate_s))
    return (number + turn(rule, limits)) % every == 0


def measured(hosts: int) -> int:
    """Print the table; 0 when an evaluation stays within the limit."""
    folder, shape = made(hosts, 1)
    store, limits = Store(dsn=f"chdb://{folder}"), Alerts()
    with closing(connect(store)) as client:
        until = shape.until - 60
        renew(client, hosts, shape.since, 1, f"toDateTime64({until}, 3, 'UTC')")
        if client.query("SELECT count() FROM job_steps_1m").result_rows == [(0,)]:  # once: the store is kept
            fill(client, hosts, until)
        parts(client)
        costs = [(rule, *cost_s(store, rule, until + 5.0)) for rule in builtin().values() if rule.sql]
    rows = [
        [rule.name, f"{1000 * seconds:.0f}", f"{rule.every_s or limits.evaluate_s:.0f}", str(found)]
        for rule, seconds, found in costs
    ]
    evaluations = [
        sum(seconds for rule, seconds, _ in costs if due(rule, number, limits)) for number in range(1, 61)
    ]  # fmt: skip
    totals = {
        "the first after an election": sum(seconds for _, seconds, _ in costs),
        "the costliest of the others": max(evaluations),
        "an evaluation, on average": statistics.mean(evaluations),
    }
    rows += [[name, f"{1000 * seconds:.0f}", "", ""] for name, seconds in totals.items()]
    title = f"Rules of alerts over {hosts * 8:,} GPUs (limit: {LIMIT_S:g} s an evaluation)"
    print_table(title, ["rule", "CPU ms", "each s", "subjects"], rows)
    return 0 if max(evaluations) <= LIMIT_S else 1


def week(days: float, minutes: int, fleet: Fleet) -> int:
    """Print what a healthy fleet says, all rules asked each so many minutes; 0 when that is nothing."""
    chosen = Alerts(rules=(AlertRule("store-disk", enabled=False),))
    start = float(int(time.time()) // 3600 * 3600 - days * 86400)
    with TemporaryDirectory() as folder:
        store = Store(dsn=f"chdb://{folder}")
        with closing(connect(store, database="default")) as admin:
            migrate.apply(admin, store)
        with closing(connect(store)) as client:
            watched, asked = on_store(store, rules(chosen), chosen), 0
            for now in lived(client, fleet, start, days, 60.0 * minutes):
                watched.at(now)
                asked += 1
    found = [[f"{datetime.fromtimestamp(a.ts, UTC):%a %H:%M}", a.rule, a.state, a.summary] for a in watched.memory.rows]
    title = f"{days:g} days of {fleet.size} healthy GPUs, {asked} evaluations: {len(found)} rows of alerts"
    print_table(title, ["at", "rule", "state", "summary"], found)
    return 1 if found else 0


def main() -> int:
    """The table that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=1250)
    parser.add_argument("--week", action="store_true")
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--minutes", type=int, default=30, help="between evaluations of the week")
    given = parser.parse_args()
    if given.week:
        return week(given.days, given.minutes, Fleet(hosts=6, gpus=4, interval_s=60.0, healthy=True))
    return measured(given.hosts)


if __name__ == "__main__":
    sys.exit(main())
