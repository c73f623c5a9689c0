"""A flame graph out of a store with 50 million rows of sampled stacks: one job over 8 hosts and an hour.

The store is made by SQL and kept in the user's cache folder: 128 hosts whose agents each tell 400 stacks of threads a
minute over 17 hours, of jobs over 8 hosts that last four hours and have 4,000 stacks each, 12 to 39 frames deep, some
of them seen far more often than others. A turn in thirty carries its frames, as agents tell them. A real engine process
and a real web process are asked over HTTP, in turns: the engine with the very SQL of each endpoint, the API without and
with gzip. Printed are medians of the rounds, and the CPU time of both processes, which tells more than the wall's on a
machine that others use.

Claim: the flame graph of a job over 8 hosts x 1 h takes at most 500 ms.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `benchmarks`, when run as a file

import httpx
import psutil

from benchmarks.fleet import print_table
from benchmarks.latest import NAME
from benchmarks.minutes import opened
from benchmarks.web import api, engine, serving, sql_of, timed
from tests.brokers.maven import cache_folder
from warpmeter.settings import Settings
from warpmeter.store import Client

LAYOUT: Final = 2
"""Another number when what is made changes, the table with it: what is in the cache is then made anew."""
CLAIMED: Final = "a job over 8 hosts, 1 h"
CLAIM_MS: Final = 500.0
ROUNDS: Final = 11
TURNS: Final = 60  # an hour
ROWS_A_TURN: Final = 400
HOSTS_A_JOB: Final = 8
JOB_HOURS: Final = 4
STACKS_A_JOB: Final = 4000
JOB: Final = f"concat('job-', toString(intDiv(host_number, {HOSTS_A_JOB})), '-', toString(intDiv(hour, {JOB_HOURS})))"


@dataclass(frozen=True)
class Sampled:
    """`hosts` over `hours` up to `until`, a whole hour in seconds since the epoch."""

    hosts: int
    hours: int
    until: int

    @property
    def since(self) -> int:
        """The first turn."""
        return self.until - self.hours * 3600

    @property
    def rows(self) -> int:
        """Of `stack_samples`."""
        return self.hosts * self.hours * TURNS * ROWS_A_TURN


def _frames(stack: str) -> str:
    """The frames of the stack of a number: a tree that forks until each stack is alone, as code does."""
    node = f"bitShiftRight({stack}, greatest(0, 12 - depth))"
    file = f"concat('/opt/train/lib/python3.11/site-packages/torch/part', toString({node} % 60), '.py')"
    name = (
        f"concat('function_', toString(depth), '_', toString({node}), ' (', {file}, ':', toString({node} % 900), ')')"
    )
    return f"arrayMap(depth -> {name}, range(toUInt8(12 + cityHash64({stack}) % 28)))"


def _samples(shape: Sampled, hour: int) -> str:
    """An hour of all hosts, one after the other as they are kept."""
    return f"""INSERT INTO stack_samples (host, ts, period_ms, sampled_ms, source, job_id, rank, pid, process, tid,
            thread, stack, frames, samples, weight, unit)
        SELECT
            {NAME.format(host="host_number")}, toDateTime64({shape.since} + hour * 3600 + turn * 60, 3, 'UTC'),
            60000, 10000, 'py-spy', {JOB}, host_number % {HOSTS_A_JOB} * 8 + place % 8,
            1000 + place % 24, if(place % 24 < 8, 'python3.11', 'pt_data_worker'),
            1000 + place % 96, concat('thread-', toString(place % 4)),
            cityHash64({JOB}, number_of_stack), if(turn % 30 = 0, {_frames("number_of_stack")}, []),
            1 + noise % 40, (1 + noise % 40) * 52632, 'microseconds'
        FROM
        (
            SELECT
                {hour} AS hour, intDiv(number, {TURNS * ROWS_A_TURN}) AS host_number,
                intDiv(number, {ROWS_A_TURN}) % {TURNS} AS turn, number % {ROWS_A_TURN} AS place,
                cityHash64(number, {hour}) AS noise,
                toUInt32({STACKS_A_JOB} * pow(noise % 65536 / 65536, 3)) AS number_of_stack
            FROM numbers({shape.hosts * TURNS * ROWS_A_TURN})
        )
        SETTINGS max_threads = 1, max_insert_threads = 1"""


def _told(shape: Sampled, slot: int) -> str:
    """The frames of the jobs that begin together."""
    begin = f"toDateTime64({shape.since} + {slot} * {JOB_HOURS * 3600}, 3, 'UTC')"
    return f"""INSERT INTO stack_frames (owner, stack, frames, last_at)
        SELECT {JOB}, cityHash64({JOB}, number_of_stack), {_frames("number_of_stack")}, {begin}
        FROM
        (
            SELECT {slot * JOB_HOURS} AS hour, intDiv(number, {STACKS_A_JOB}) * {HOSTS_A_JOB} AS host_number,
                toUInt32(number % {STACKS_A_JOB}) AS number_of_stack
            FROM numbers({shape.hosts // HOSTS_A_JOB * STACKS_A_JOB})
        )"""


def _jobs(shape: Sampled) -> str:
    """A job is known by its events."""
    return f"""INSERT INTO job_events (host, ts, period_ms, job_id, event, name, pid, started_at)
        SELECT {NAME.format(host="host_number")}, ts, 10000, {JOB}, 'running', 'train.py', 1000, ts
        FROM
        (
            SELECT number % {shape.hosts} AS host_number, intDiv(number, {shape.hosts}) AS hour,
                toDateTime64({shape.since} + hour * 3600, 3, 'UTC') AS ts
            FROM numbers({shape.hosts * shape.hours})
        )"""


def fill(client: Client, shape: Sampled) -> None:
    """Make all of it, hour by hour, in a store that has the tables; the hours' rollup is made by the view."""
    for slot in range(-(-shape.hours // JOB_HOURS)):
        client.command(_told(shape, slot))
    for hour in range(shape.hours):
        start = time.monotonic()
        client.command(_samples(shape, hour))
        print(f"hour {hour + 1} of {shape.hours}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)


def made(hosts: int = 128, hours: int = 17) -> tuple[Path, Sampled]:
    """The folder of such a store, made when the cache has none, and what is in it."""
    folder = cache_folder() / f"stacks-{LAYOUT}-{hosts}x{hours}h"
    told = folder / "shape.json"
    if not told.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        shape = Sampled(hosts, hours, int(time.time()) // 3600 * 3600)
        with opened(folder / "store") as client:
            fill(client, shape)
        told.write_text(json.dumps(asdict(shape)))
    shape = Sampled(**json.loads(told.read_text()))
    with opened(folder / "store") as client:
        if not client.query("SELECT count() FROM job_events").result_rows[0][0]:
            client.command(_jobs(shape))
    return folder / "store", shape


def panels(shape: Sampled) -> Mapping[str, str]:
    """What is asked, by name: paths with their window, of a job in the middle of its time."""
    hour = shape.hours // 2 // JOB_HOURS * JOB_HOURS + 1
    job = f"job-{shape.hosts // HOSTS_A_JOB // 2}-{hour // JOB_HOURS}"
    since = shape.since + hour * 3600
    of, all_of_it = f"job={job}&{_window(since, 1)}", _window(since - 3600, JOB_HOURS)
    before = f"base_since={_iso(since - 3600)}&base_until={_iso(since)}"
    return {
        CLAIMED: f"stacks/flame?{of}",
        "the same, a function as one": f"stacks/flame?{of}&lines=false",
        "the same, by rank": f"stacks/flame?{of}&by=rank",
        "a job, 4 h": f"stacks/flame?job={job}&{all_of_it}",
        "a host, 1 h": f"stacks/flame?host=gpu-0001&{_window(since, 1)}",
        "top functions, 1 h": f"stacks/top?{of}",
        "a function's share, 1 h": f"stacks/share?{of}&function=function_5_3",
        "difference to the hour before": f"stacks/diff?{of}&{before}",
    }


def _window(since: int, hours: int) -> str:
    return f"since={_iso(since)}&until={_iso(since + hours * 3600)}"


def _iso(ts: int) -> str:
    return f"{datetime.fromtimestamp(ts, UTC):%FT%TZ}"


@dataclass(frozen=True)
class Bench:
    """What is asked, and how often."""

    settings: Settings
    url: str
    client: httpx.Client
    processes: list[psutil.Process]
    rounds: int

    def figures(self, path: str) -> dict[str, float]:
        """Of one endpoint: milliseconds, and kB."""
        asks = {"engine": engine(self.client, self.settings.store.dsn, sql_of(self.settings, path))}
        asks |= {name: api(self.client, self.url, path, code) for name, code in (("API", "identity"), ("gzip", "gzip"))}
        took = timed(asks, self.rounds, self.processes)
        found = {f"{name} ms": each.p50 for name, each in took.items()}
        found |= {f"{name} CPU ms": each.cpu_ms for name, each in took.items()}
        print(path, {name: round(each) for name, each in found.items()}, file=sys.stderr, flush=True)
        return {**found, "kB": took["API"].size / 1e3, "kB gzip": took["gzip"].size / 1e3}


def main() -> int:
    """Ask all, print one table; 1 when the claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=128)
    parser.add_argument("--hours", type=int, default=17)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", default="", help="panels whose name has this")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    given = parser.parse_args()
    folder, shape = made(given.hosts, given.hours)
    with serving(folder) as (settings, url, both), httpx.Client(timeout=60) as client:
        bench = Bench(settings, url, client, both, given.rounds)
        found = {name: bench.figures(path) for name, path in panels(shape).items() if given.only in name}
    report(shape, given.rounds, found, given.json)
    return int(found.get(CLAIMED, {}).get("API ms", 0.0) > CLAIM_MS)


def report(shape: Sampled, rounds: int, found: Mapping[str, Mapping[str, float]], as_json: bool) -> None:
    """As a table, or as JSON."""
    if as_json:
        document: dict[str, Any] = {"rows": shape.rows, "rounds": rounds, "claim_ms": CLAIM_MS, "panels": found}
        print(json.dumps(document, indent=2))
        return
    head = list(next(iter(found.values()), {}))
    rows = [[name, *(f"{each:,.0f}" for each in figures.values())] for name, figures in found.items()]
    print_table(f"{shape.rows:,} rows of stacks; {rounds} rounds, medians", ["", *head], rows)


if __name__ == "__main__":
    sys.exit(main())
