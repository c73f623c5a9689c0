"""What it takes to find jobs that got slower, and to evaluate the rules about it, in four weeks of 10,000 GPUs.

`python benchmarks/regressions.py [HOSTS]`: 1,250 hosts of 8 GPUs by default; jobs of 4 hosts, 12 hours long, of 300
names. Hours of all four weeks, and minutes of the last day, are written into the rollups on the engine in this process;
one in a hundred runs is slower by a third. Prints the time and the CPU of each question.
"""

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from functools import partial

from warpmeter import migrate, regressions
from warpmeter.alerts.rule import builtin
from warpmeter.regressions import Asked
from warpmeter.settings import Store
from warpmeter.store import Client, connect

HOSTS = int(sys.argv[1]) if len(sys.argv) > 1 else 1250
HOURS, RUN_H, JOB_HOSTS, NAMES = 28 * 24, 12, 4, 300
RULES = ("job-slower", "job-slower-than-runs")
RUN = f"concat('job-', toString(intDiv(host_number, {JOB_HOSTS})), '-', toString(intDiv(hour, {RUN_H})))"
SLOWER = f"if(cityHash64({RUN}) % 100 = 0, 1.33, 1) * (0.99 + 0.02 * (cityHash64({RUN}, 1) % 1000) / 1000)"
WINDOWS = """
INSERT INTO {table} (job_id, host, window, gpu_seconds, sm_active_seconds, sm_active_known_seconds, gpu_util_seconds,
    gpu_util_known_seconds, energy_joules, power_known_seconds)
SELECT {run}, concat('host', toString(host_number)), begun + INTERVAL place {unit}, 8 * {s},
    8 * {s} * 0.7 / slower * noise, 8 * {s}, 8 * {s} * 0.97, 8 * {s}, 8 * {s} * 500, 8 * {s}
FROM
(
    WITH toStartOfHour(now()) - INTERVAL {back} HOUR AS begun
    SELECT begun, place, host_number, intDiv(place, {per_hour}) + {offset} AS hour, {slower} AS slower,
        0.98 + 0.04 * (cityHash64(place, host_number) % 1000) / 1000 AS noise
    FROM (SELECT number % {count} AS place, intDiv(number, {count}) AS host_number FROM numbers({count} * {hosts}))
)"""
STEPS = """
INSERT INTO {table} (job_id, window, readings, step_seconds_sum, step_seconds_min, step_seconds_max)
SELECT job_id, window, 32, 32 * 0.5 * 0.7 * sum(sm_active_known_seconds) / sum(sm_active_seconds), 0, 1
FROM {source} GROUP BY job_id, window"""
TREES = f"""
INSERT INTO job_trees (job_id, host, pid, name, user, started_at, first_at, last_at, ended_at, gpu_uuids_held)
SELECT job_id, host, 7, concat('train-', toString(cityHash64(splitByChar('-', job_id)[2]) % {NAMES}), '.py'), 'ann',
    toDateTime64(min(window), 3), toDateTime64(min(window), 3), toDateTime64(max(window) + 3600, 3),
    if(max(window) + 3600 >= toStartOfHour(now()), NULL, toDateTime64(max(window) + 3600, 3)),
    arrayMap(g -> concat(host, '/', toString(g)), range(8))
FROM job_windows_1h GROUP BY job_id, host"""


def fill(client: Client) -> int:
    """All that the questions read; of the last hours minutes as well. How many rows of hours."""
    hours = {
        "table": "job_windows_1h",
        "unit": "HOUR",
        "s": 3600,
        "back": HOURS,
        "per_hour": 1,
        "offset": 0,
        "count": HOURS,
    }
    minutes = {
        "table": "job_windows_1m", "unit": "MINUTE", "s": 60, "back": 24, "per_hour": 60, "offset": HOURS - 24,
        "count": 24 * 60 + int(datetime.now(UTC).minute),
    }  # fmt: skip
    for each in (hours, minutes):
        client.command(WINDOWS.format(**each, run=RUN, slower=SLOWER, hosts=HOSTS))
    for step in ("1h", "1m"):
        client.command(STEPS.format(table=f"job_steps_{step}", source=f"job_windows_{step}"))
    client.command(TREES)
    return int(client.query("SELECT count() FROM job_windows_1h").result_rows[0][0])


def measured(what: str, ask: Callable[[], int]) -> None:
    """Print how long it took, and how much CPU of this process, engine included."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
    found = ask()
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    print(f"{what:<40} {time.monotonic() - began:8.2f} s {cpu:8.2f} s CPU {found:8}")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="regressions-") as folder:
        store = Store(dsn=f"chdb://{folder}")
        with closing(connect(store, database="default")) as first:
            migrate.apply(first, store)
        with closing(connect(store)) as client:
            measured(f"{HOSTS} hosts written, rows of hours", partial(fill, client))
            for asked in (Asked(since="-1d"), Asked(since="-7d"), Asked(name="train-7.py")):
                measured(f"regressions {asked.name or asked.since}", partial(found, client, asked))
            for name in RULES:
                measured(f"rule {name}", partial(alerted, client, name))


def found(client: Client, asked: Asked) -> int:
    """How many there are."""
    return len(regressions.found(client, asked))


def alerted(client: Client, name: str) -> int:
    """How many subjects a rule has now."""
    rule = builtin()[name]
    values = {**rule.values(), "now": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}.000"}
    return len(client.query(rule.sql, parameters=values).result_rows)


if __name__ == "__main__":
    main()
