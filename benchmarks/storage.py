"""Bytes per value on disk after merges: the raw GPU table beside VictoriaMetrics, given the same values in one run.

Both get the generated fleet (benchmarks/fleet.py) at the same precision: ratios to three decimals, 0.1 W, 1 MB/s,
1 MiB, 1 MHz, 1 degree. Ours through the shipped migrations with all rollups on; the figure is all of `gpu_samples` on
disk (keys, times, columns that are NULL, indexes) over the values it holds. VictoriaMetrics' is its data folder without
its index, after a forced merge; it gets SI units, as exporters publish and people read (bytes, bytes per second, hertz,
ratios from 0 to 1).

For comparison it also gets our stored integers in place of SI units, which no exporter publishes. Then both are near
what the noise in the values allows: the difference is the scale, which here is part of the table.
"""

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `benchmarks`, when run as a file

from benchmarks.fleet import GPUS, Fleet, generate, print_table, shape_from_arguments
from warpmeter import migrate
from warpmeter.schemas.metrics import METRICS
from warpmeter.settings import Store
from warpmeter.store import Client, connect

BINARY: Final = "victoria-metrics"
BATCH_S: Final = 600
LIMIT: Final = 0.75
FACTORS: Final = {metric.column: metric.factor for metric in METRICS if metric.topic == "gpu-samples"}
ONE_BLOCK: Final = {
    "max_insert_threads": 1,
    "max_insert_block_size": 1_000_000_000,
    "min_insert_block_size_rows": 1_000_000_000,
    "min_insert_block_size_bytes": 0,
    "deduplicate_blocks_in_dependent_materialized_views": 1,
}


@dataclass(frozen=True)
class Taken:
    """What a store did with the fleet: bytes on disk, seconds of CPU to load and merge, wall seconds to load."""

    bytes: int
    load_s: float
    cpu_s: float
    rest: str


# --- ours --------------------------------------------------------------------------------------------------------


def batches(fleet: Fleet) -> Iterator[tuple[int, pa.Table]]:
    """Rows as they come from the bus: in time, ten minutes of the fleet at once; with the number of the first tick."""
    shape, width = fleet.shape, BATCH_S // fleet.shape.step_s
    hosts = pa.array([fleet.host(GPUS * host) for host in range(shape.hosts)])
    uuids = pa.array([f"GPU-{gpu:032x}" for gpu in range(shape.gpus)])
    gpu = np.arange(shape.gpus, dtype="i4")
    for first in range(0, shape.ticks, width):
        ticks = min(width, shape.ticks - first)
        count = ticks * shape.gpus
        stamps = (shape.since + shape.step_s * np.arange(first, first + ticks)).astype("i8") * 1000
        columns: dict[str, Any] = {
            "host": pa.DictionaryArray.from_arrays(np.tile(gpu // GPUS, ticks), hosts),
            "ts": pa.array(np.repeat(stamps, shape.gpus), pa.timestamp("ms")),
            "period_ms": np.full(count, shape.step_s * 1000, "u4"),
            "gpu": np.tile((gpu % GPUS).astype("u1"), ticks),
            "uuid": pa.DictionaryArray.from_arrays(np.tile(gpu, ticks), uuids),
            "model": pa.DictionaryArray.from_arrays(np.zeros(count, "i4"), pa.array(["NVIDIA H100 80GB HBM3"])),
        }
        for name, values in fleet.columns.items():
            columns[name] = np.ascontiguousarray(values[:, first : first + ticks].T).ravel()
        yield first, pa.table(columns)


def load_tables(client: Client, fleet: Fleet) -> Taken:
    """Insert the fleet into `gpu_samples`, with its rollups, and merge it."""
    wall = spent = 0.0
    for first, rows in batches(fleet):
        start, used = time.perf_counter(), time.process_time()
        settings = {**ONE_BLOCK, "insert_deduplication_token": f"bench/0/{first}-{first}"}
        client.insert_arrow("gpu_samples", rows, settings=settings)
        wall, spent = wall + time.perf_counter() - start, spent + time.process_time() - used
    for table in ("gpu_samples", "gpu_heatmap_1m", "gpu_heatmap_1h", "fleet_windows_1m", "gpu_last"):
        client.command(f"OPTIMIZE TABLE {table} FINAL")
    found = client.query(
        "SELECT table, sum(bytes_on_disk) FROM system.parts "
        "WHERE active AND database = currentDatabase() GROUP BY table"
    ).result_rows
    sizes = {str(table): int(taken) for table, taken in found}
    rest = f"minutes {sizes['gpu_heatmap_1m'] / 1e6:.1f} MB, hours {sizes['gpu_heatmap_1h'] / 1e6:.1f} MB"
    return Taken(sizes["gpu_samples"], wall, spent, rest)


@contextmanager
def tables(folder: Path) -> Iterator[Client]:
    """A client of an embedded engine with the shipped tables."""
    store = Store(dsn=f"chdb://{folder}")
    admin = connect(store, database="default")
    migrate.apply(admin, store)
    client = connect(store)
    try:
        yield client
    finally:
        client.close()
        admin.close()


# --- VictoriaMetrics ---------------------------------------------------------------------------------------------


class Victoria:
    """A VictoriaMetrics of our own on loopback."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url, self.folder = f"http://127.0.0.1:{port}", folder
        line = [BINARY, f"-storageDataPath={folder}", f"-httpListenAddr=127.0.0.1:{port}", "-retentionPeriod=100y"]
        line += ["-search.maxQueryDuration=120s", "-loggerLevel=ERROR", "-selfScrapeInterval=0"]
        self._log = (folder.parent / "victoria.log").open("ab")
        self.process = subprocess.Popen(line, stdout=self._log, stderr=self._log)
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                self.get("/health")
                return
            except OSError:
                time.sleep(0.1)
        raise SystemExit(f"{BINARY} did not start; see {self._log.name}")

    def get(self, path: str, body: bytes | None = None, **parameters: Any) -> bytes:
        """Ask its HTTP API; raises OSError."""
        query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
        with urllib.request.urlopen(f"{self.url}{path}{query}", body, 120) as answer:
            found: bytes = answer.read()
        return found

    def cpu_s(self) -> float:
        """CPU seconds so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """Stop it; it writes what it holds."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self._log.close()


Form = Literal["published", "si", "stored"]
"""How VictoriaMetrics gets the values: as exporters give them, at our precision in SI, or as our stored integers."""


def as_given(fleet: Fleet, column: str, ticks: slice, form: Form) -> list[list[float]]:
    """The values of a column over some ticks, GPU by GPU."""
    if form == "published":
        some = fleet.published[column][:, ticks]
        lists: list[list[float]] = (some.astype("i8") if (some % 1 == 0).all() else some).tolist()
        return lists
    factor, stored = FACTORS[column] if form == "si" else 1.0, fleet.columns[column][:, ticks].astype("i8")
    lists = (stored * int(factor) if factor >= 1 else np.round(stored * factor, 3)).tolist()
    return lists


def import_lines(fleet: Fleet, first: int, ticks: int, form: Form) -> bytes:
    """JSON lines of all series over some ticks."""
    shape = fleet.shape
    stamps = json.dumps([1000 * (shape.since + shape.step_s * tick) for tick in range(first, first + ticks)])
    lines = []
    for column in fleet.columns:
        for gpu, series in enumerate(as_given(fleet, column, slice(first, first + ticks), form)):
            labels = f'{{"__name__":"gpu_{column}","host":"{fleet.host(gpu)}","gpu":"{gpu % GPUS}"}}'
            lines.append(f'{{"metric":{labels},"values":{json.dumps(series)},"timestamps":{stamps}}}')
    return "\n".join(lines).encode()


def load_victoria(victoria: Victoria, fleet: Fleet, form: Form) -> Taken:
    """Import the fleet in this form, ten minutes at once, and merge it."""
    width, wall = BATCH_S // fleet.shape.step_s, 0.0
    for first in range(0, fleet.shape.ticks, width):
        body = import_lines(fleet, first, min(width, fleet.shape.ticks - first), form)
        start = time.perf_counter()
        victoria.get("/api/v1/import", body)
        wall += time.perf_counter() - start
    cpu = victoria.cpu_s()
    _merge(victoria)
    stored = counted(victoria, fleet)
    if stored != fleet.shape.values:
        raise SystemExit(f"VictoriaMetrics holds {stored:,} of {fleet.shape.values:,} values")
    index = size(victoria.folder / "indexdb")
    return Taken(size(victoria.folder / "data"), wall, cpu, f"index {index / 1e6:.1f} MB")


def _merge(victoria: Victoria) -> None:
    """Merge until it gets no smaller: what is still in memory at one merge takes part in the next."""
    before = -1
    while (now := size(victoria.folder / "data")) != before:
        before = now
        victoria.get("/internal/force_flush")
        victoria.get("/internal/force_merge")
        _quiet(victoria)


def _quiet(victoria: Victoria) -> None:
    """Wait until it has merged: no merge at work, twice in a row."""
    still = 0
    while still < 2:
        lines = victoria.get("/metrics").decode().splitlines()
        at_work = sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("vm_active_merges"))
        still = 0 if at_work else still + 1
        time.sleep(2)


def counted(victoria: Victoria, fleet: Fleet) -> int:
    """How many values it holds."""
    query = f'sum(count_over_time({{__name__=~"gpu_.*"}}[{fleet.shape.hours}h]))'
    answer = json.loads(victoria.get("/api/v1/query", query=query, time=fleet.shape.until - 1))
    return int(answer["data"]["result"][0]["value"][1])


def size(folder: Path) -> int:
    """Bytes of all files, links counted once; what a merge removes meanwhile is left out."""
    seen: dict[int, int] = {}
    for file in folder.rglob("*"):
        with suppress(FileNotFoundError):
            told = file.lstat()
            seen[told.st_ino] = told.st_size if stat.S_ISREG(told.st_mode) else 0
    return sum(seen.values())


# --- both --------------------------------------------------------------------------------------------------------


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for both stores."""
    with tempfile.TemporaryDirectory(prefix="warpmeter-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def measured_victoria(folder: Path, fleet: Fleet, form: Form) -> Taken:
    """A VictoriaMetrics of its own for one way of writing the values."""
    with closing(Victoria(folder)) as victoria:
        return load_victoria(victoria, fleet, form)


def main() -> int:
    """Load all, print one table; 1 when ours takes more than 0.75 of VictoriaMetrics in SI units."""
    shape = shape_from_arguments(__doc__ or "")
    if not shutil.which(BINARY):
        print(f"{BINARY} is not installed; on Debian: apt-get install {BINARY}")
        return 2
    fleet = generate(shape)
    with scratch() as folder:
        with tables(folder / "tables") as client:
            ours = load_tables(client, fleet)
        si = measured_victoria(folder / "si", fleet, "si")
        scaled = measured_victoria(folder / "scaled", fleet, "stored")
    stores = (("warpmeter, gpu_samples", ours), ("VictoriaMetrics, SI", si), ("VictoriaMetrics, our integers", scaled))
    rows = [_line(name, taken, ours, shape.values) for name, taken in stores]
    title = f"{shape.values:,} values of {shape.gpus:,} GPUs over {shape.hours} h"
    print_table(title, ["store", "bytes a value", "MB", "ours / this", "load s", "CPU s", "besides"], rows)
    return int(ours.bytes > LIMIT * si.bytes)


def _line(name: str, taken: Taken, ours: Taken, values: int) -> list[str]:
    sizes = [f"{taken.bytes / values:.3f}", f"{taken.bytes / 1e6:.1f}", f"{ours.bytes / taken.bytes:.2f}"]
    return [name, *sizes, f"{taken.load_s:.0f}", f"{taken.cpu_s:.0f}", taken.rest]


if __name__ == "__main__":
    sys.exit(main())
