"""A store with a week of minutes of a large fleet, made by SQL and kept in the user's cache folder.

1,250 hosts of 8 GPUs, 7 days: 100 million rows of a GPU's minute, 12.6 million of a host's and of a job's, all hours of
them, the fleet's own windows with real states of quantiles, 1,700 jobs, and the latest row of everything. Eight metrics
of a GPU have values; the other columns are there and empty (added after the rows, which costs no bytes). Values come
from hashes of GPU and minute, so they are the same on every machine, and as noisy as real ones. Made once, in some
minutes; run as a script it makes it and prints how large each table is.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `benchmarks`, when run as a file

from benchmarks.fleet import print_table
from benchmarks.latest import HOSTS_A_JOB, JOB_MINUTES, NAME, UUID, renew
from tests.brokers.maven import cache_folder
from warpmeter import migrate
from warpmeter.settings import Store
from warpmeter.store import Client, connect

LAYOUT: Final = 1
"""Another number when what is made changes: what is in the cache is then made anew."""


@dataclass(frozen=True)
class Minutes:
    """`hosts` of 8 GPUs over `days` up to `until`, a whole hour in seconds since the epoch."""

    hosts: int
    days: int
    until: int

    @property
    def since(self) -> int:
        """The first minute."""
        return self.until - self.days * 86400


# Metric of a GPU, its stored value in a minute (`busy` and `noise` are 0 to 1, `gpu` a number), type.
METRICS: Final = {
    "gpu_util_permille": ("if(busy, 820 + 180 * noise, 15 * noise)", "UInt16"),
    "sm_active_permille": ("if(busy, 550 + 380 * noise, 5 * noise)", "UInt16"),
    "tensor_active_permille": ("if(busy, 250 + 300 * noise, 0)", "UInt16"),
    "dram_active_permille": ("if(busy, 300 + 300 * noise, 2 * noise)", "UInt16"),
    "power_deciwatts": ("if(busy, 4200 + 2300 * noise, 700 + 50 * noise)", "UInt16"),
    "temperature_celsius": ("if(busy, 55 + 15 * noise, 30 + 3 * noise)", "UInt8"),
    "fb_used_mebibytes": ("if(busy, 60000 + gpu % 8 * 2, 4)", "UInt32"),
    "fb_total_mebibytes": ("81559", "UInt32"),
}
HOST_METRICS: Final = {
    "cpu_util_permille": ("200 + 300 * noise", "UInt16"),
    "mem_available_mebibytes": ("1500000 + 1000 * noise", "UInt32"),
    "psi_io_full_permille": ("20 * noise", "UInt16"),
    "load1_centi": ("4000 + 3000 * noise", "UInt32"),
}
SAMPLES: Final = 60
NOISE: Final = "cityHash64(gpu, minute) % 4096 / 4096"
BUSY: Final = f"cityHash64(intDiv(gpu, {8 * HOSTS_A_JOB}), intDiv(minute, {JOB_MINUTES})) % 100 < 85"
"""Whether the job that a GPU is of does anything; a job is of HOSTS_A_JOB hosts and lasts JOB_MINUTES."""
JOB: Final = f"concat('job-', toString(intDiv({{host}}, {HOSTS_A_JOB})), '-', toString(intDiv(minute, {JOB_MINUTES})))"


def _windows(metrics: dict[str, tuple[str, str]]) -> tuple[str, str]:
    """Columns of a rollup, and their values."""
    columns, values = [], []
    for column, (value, _) in metrics.items():
        columns += [f"{column}_{part}" for part in ("count", "sum", "min", "max")]
        mean = f"toUInt64({value})"
        values += [
            str(SAMPLES),
            f"{mean} * {SAMPLES} + cityHash64(gpu, minute, '{column}') % {SAMPLES}",
            mean,
            f"{mean} + 1",
        ]
    return ", ".join(columns), ", ".join(values)


def _rows(shape: Minutes, table: str, head: str, values: str, units: int, day: int) -> str:
    """Fill a day of a table with `units` rows a minute; `gpu` is the unit's number, `minute` counts from the start."""
    first = day * 1440
    return f"""INSERT INTO {table} ({head})
        SELECT {values} FROM (
            SELECT intDiv(number, 1440) AS gpu, {first} + number % 1440 AS minute,
                toDateTime({shape.since} + minute * 60, 'UTC') AS window, {NOISE} AS noise, {BUSY} AS busy
            FROM numbers({units * 1440}))
        SETTINGS max_threads = 1, max_insert_threads = 1, optimize_on_insert = 0"""


def _gpus(shape: Minutes, day: int) -> str:
    columns, values = _windows(METRICS)
    host, uuid = NAME.format(host="intDiv(gpu, 8)"), UUID.format(gpu="gpu")
    head = f"host, gpu, uuid, window, samples, covered_ms, idle_ms, {columns}"
    covered = f"{SAMPLES}, {SAMPLES * 1000}, if(busy, 0, {SAMPLES * 1000})"
    return _rows(
        shape, "gpu_heatmap_1m", head, f"{host}, gpu % 8, {uuid}, window, {covered}, {values}", shape.hosts * 8, day
    )


def _hosts(shape: Minutes, day: int) -> str:
    columns, values = _windows(HOST_METRICS)
    head = f"host, window, samples, covered_ms, {columns}"
    named = NAME.format(host="gpu")
    return _rows(shape, "host_windows_1m", head, f"{named}, window, 60, 60000, {values}", shape.hosts, day)


def _jobs(shape: Minutes, day: int) -> str:
    ratios = ", ".join(
        f"{ratio}_seconds, {ratio}_known_seconds" for ratio in ("gpu_util", "sm_active", "tensor_active", "dram_active")
    )
    head = f"job_id, host, window, gpu_seconds, idle_seconds, {ratios}, energy_joules, power_known_seconds"
    busy = BUSY.replace(f"gpu, {8 * HOSTS_A_JOB}", f"gpu, {HOSTS_A_JOB}")
    share = f"if({busy}, 0.8 + 0.2 * noise, 0.01)"
    used = ", ".join(f"480 * {share} * {part}, 480" for part in (1, 0.8, 0.4, 0.5))
    held = f"480, if({busy}, 0, 480), {used}, 480 * 500 * {share}, 480"
    values = f"{JOB.format(host='gpu')}, {NAME.format(host='gpu')}, window, {held}"
    return _rows(shape, "job_windows_1m", head, values, shape.hosts, day)


def _fleet(shape: Minutes, day: int) -> str:
    """The fleet's windows, from what was made of its GPUs."""
    parts = {name: f"sum({name})" for name in ("samples", "covered_ms", "idle_ms")}
    kept = ("gpu_util_permille", "sm_active_permille", "tensor_active_permille", "dram_active_permille")
    states = [(name, "quantilesTimingState(0.5, 0.95)") for name in kept]
    states += [(name, "quantilesDDState(0.01, 0.5, 0.95)") for name in ("power_deciwatts", "temperature_celsius")]
    for name in (*kept, "power_deciwatts", "temperature_celsius", "fb_used_mebibytes", "fb_total_mebibytes"):
        parts |= {f"{name}_count": f"sum({name}_count)", f"{name}_sum": f"sum({name}_sum)"}
        parts |= {f"{name}_min": f"min({name}_min)", f"{name}_max": f"max({name}_max)"}
    for name, function in states:
        value = f"CAST(intDiv(t.{name}_sum, t.{name}_count), 'Nullable({METRICS[name][1]})')"
        parts[f"{name}_quantiles"] = f"{function}({value})"
    values = ", ".join(part.replace("(", "(t.", 1) if "State" not in part else part for part in parts.values())
    start = shape.since + day * 86400
    return f"""INSERT INTO fleet_windows_1m (window, {", ".join(parts)})
        SELECT t.window, {values} FROM gpu_heatmap_1m AS t
        WHERE t.window >= toDateTime({start}, 'UTC') AND t.window < toDateTime({start + 86400}, 'UTC')
        GROUP BY t.window"""


def _hours(shape: Minutes, table: str, keys: str, day: int, client: Client) -> str:
    """A day of a rollup's hours from its minutes: only the columns that have values."""
    types = {name: kind for name, kind, _ in columns_of(client, f"{table}_1h")}
    filled = [name for name in types if name not in (*keys.split(", "), "window")]
    values = ", ".join(f"{_merge(types[name])}(t.{name})" for name in filled)
    start, key = shape.since + day * 86400, f"{keys}, " if keys else ""
    return f"""INSERT INTO {table}_1h ({key}window, {", ".join(filled)})
        SELECT {key}toDateTime(toStartOfHour(t.window), 'UTC') AS hour, {values} FROM {table}_1m AS t
        WHERE t.window >= toDateTime({start}, 'UTC') AND t.window < toDateTime({start + 86400}, 'UTC')
        GROUP BY {key}hour"""


def columns_of(client: Client, table: str) -> list[tuple[str, str, str]]:
    """Name, type and codec of each column."""
    sql = """SELECT name, type, compression_codec FROM system.columns
        WHERE database = currentDatabase() AND table = {t:String}"""
    return [(str(name), str(kind), str(codec)) for name, kind, codec in client.query(sql, {"t": table}).result_rows]


def _merge(kind: str) -> str:
    """The function that joins states of a column of this type."""
    inside = kind.split("(", 1)[1]
    if kind.startswith("SimpleAggregateFunction"):
        return inside.split(",")[0]
    function = inside.split("),")[0] + ")"
    return function.replace("(", "MergeState(", 1)


KEYS: Final = {
    "gpu_heatmap": "host, gpu, uuid",
    "host_windows": "host",
    "job_windows": "job_id, host",
    "fleet_windows": "",
}


def fill(client: Client, shape: Minutes) -> None:
    """Make all of it, day by day, in a store that has the tables."""
    views = [f"{table}_{step}" for table in ("gpu_heatmap", "host_windows") for step in ("1m_mv", "1h_mv")]
    with detached(client, [*views, "job_windows_1h_mv", "fleet_windows_1h_mv"]), lean(client):
        for day in range(shape.days):
            start = time.monotonic()
            for statement in (_gpus, _hosts, _jobs, _fleet):
                client.command(statement(shape, day))
            for table, keys in KEYS.items():
                client.command(_hours(shape, table, keys, day, client))
            print(f"day {day + 1} of {shape.days}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)


@contextmanager
def detached(client: Client, views: list[str]) -> Iterator[None]:
    """Without these views."""
    for view in views:
        client.command(f"DETACH TABLE {view}")
    yield
    for view in views:
        client.command(f"ATTACH TABLE {view}")


@contextmanager
def lean(client: Client) -> Iterator[None]:
    """Without the columns that stay empty; afterwards they are there, and no part holds them."""
    empty = {
        table: _empty(client, table)
        for table in ("gpu_heatmap_1m", "gpu_heatmap_1h", "host_windows_1m", "host_windows_1h")
    }
    for table, columns in empty.items():
        client.command(f"ALTER TABLE {table} " + ", ".join(f"DROP COLUMN {name}" for name, *_ in columns))
    yield
    for table, columns in empty.items():
        added = (f"ADD COLUMN {name} {kind} {codec}" for name, kind, codec in columns)
        client.command(f"ALTER TABLE {table} " + ", ".join(added))


def _empty(client: Client, table: str) -> list[tuple[str, str, str]]:
    """Name, type and codec of the columns that get no values."""
    metrics = (*METRICS, *HOST_METRICS)
    kept = ("host", "gpu", "uuid", "window", "samples", "covered_ms", "idle_ms")
    return [
        column
        for column in columns_of(client, table)
        if column[0] not in kept and (not column[0].startswith(metrics) or column[0].endswith("_quantiles"))
    ]


@contextmanager
def opened(folder: Path) -> Iterator[Client]:
    """A client of the engine in this process on `folder`, with the shipped tables."""
    store = Store(dsn=f"chdb://{folder}")
    with closing(connect(store, database="default")) as admin:
        migrate.apply(admin, store)
        with closing(connect(store)) as client:
            yield client


def made(hosts: int = 1250, days: int = 7) -> tuple[Path, Minutes]:
    """The folder of a store as told, made when the cache has none, and what is in it; its latest rows are of now."""
    folder = cache_folder() / f"minutes-{LAYOUT}-{hosts}x8x{days}d"
    told = folder / "shape.json"
    if not told.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        shape = Minutes(hosts, days, int(time.time()) // 3600 * 3600)
        with opened(folder / "store") as client:
            fill(client, shape)
        told.write_text(json.dumps(asdict(shape)))
    shape = Minutes(**json.loads(told.read_text()))
    with opened(folder / "store") as client:
        renew(client, shape.hosts, shape.since, shape.days)
    return folder / "store", shape


def sizes(folder: Path) -> list[list[str]]:
    """Rows and bytes of each table, the largest first."""
    sql = """SELECT table, sum(rows), sum(bytes_on_disk), count() FROM system.parts
        WHERE active AND database = currentDatabase() GROUP BY table ORDER BY 3 DESC"""
    with opened(folder) as client:
        rows = client.query(sql).result_rows
    return [[str(table), f"{count:,}", f"{size / 1e6:,.1f}", str(parts)] for table, count, size, parts in rows]


def main() -> int:
    """Make it, print what it holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=1250)
    parser.add_argument("--days", type=int, default=7)
    given = parser.parse_args()
    folder, shape = made(given.hosts, given.days)
    print_table(
        f"{shape.hosts} hosts x 8 GPUs, {shape.days} days of minutes: {folder}",
        ["table", "rows", "MB", "parts"],
        sizes(folder),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
