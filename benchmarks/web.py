"""The API over a large fleet: how long each answer takes, and how much of it is the engine's.

A week of minutes of 1,250 hosts of 8 GPUs (benchmarks/minutes.py, kept in the cache) behind a real engine process and
a real web process, both asked over HTTP, one request at a time, in turns: the API uncompressed, the API with gzip, and
the engine itself with the very SQL of that endpoint, in the format that it gives the API. Printed are medians and 95th
percentiles of the rounds.

Claims: the heatmap of 10,000 GPUs x 300 minutes takes at most 700 ms with gzip, every other endpoint 200 ms (95th
percentile), and the API at most 1.5 times what the engine takes, where that is 20 ms or more. `--only` picks by name.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `benchmarks`, when run as a file

import httpx
import psutil
from fastapi.testclient import TestClient

from benchmarks.fleet import print_table
from benchmarks.latest import JOB_MINUTES
from benchmarks.minutes import Minutes, made
from tests.brokers.process import free_ports
from tests.engine import EngineServer
from warpmeter import launch, queries
from warpmeter.settings import Metrics, Settings, Store, Web
from warpmeter.web.app import api_app
from warpmeter.web.store.reads import FORMAT, Reads

ROUNDS: Final = 20
HEATMAP_MS: Final = 700
OTHERS_MS: Final = 200
RATIO: Final = 1.5
WORTH_MS: Final = 20
HEATMAP: Final = "heatmap, 300 minutes"
EIGHT: Final = (
    "metric=gpu_util&metric=sm_active&metric=tensor_active&metric=dram_active"
    "&metric=power_watts&metric=temperature_celsius&metric=fb_used_bytes&metric=fb_total_bytes"
)


def panels(shape: Minutes) -> Mapping[str, str]:
    """What is asked, by name: paths with their window."""
    host, job = "gpu-0600", f"job-75-{shape.days * 1440 // JOB_MINUTES - 1}"
    hour, five, day, week = (_window(shape, hours) for hours in (1, 5, 24, 7 * 24))
    return {
        HEATMAP: f"heatmap?metric=sm_active&{five}&step=60",
        "heatmap, an hour": f"heatmap?metric=gpu_util&{hour}",
        "heatmap, a host, 5 h": f"heatmap?metric=gpu_util&host={host}&{five}",
        "statistics, an hour": f"fleet/statistics?{hour}",
        "statistics, 7 days": f"fleet/statistics?{week}",
        "states": "fleet/states",
        "series of the fleet, 5 h": f"series?metric=gpu_util&{five}",
        "series by host, an hour": f"series?metric=sm_active&by=host&{hour}",
        "series by host, 5 h": f"series?metric=sm_active&by=host&{five}",
        "series by host, 7 days": f"series?metric=sm_active&by=host&{week}",
        "series by job, 5 h": f"series?metric=gpu_util&by=job&{five}",
        "series of a host's GPUs, a day": f"series?metric=power_watts&by=gpu&host={host}&{day}",
        "eight metrics of a host's GPUs, a day": f"series?{EIGHT}&by=gpu&host={host}&{day}",
        "series of a job's GPUs, 5 h": f"series?metric=power_watts&by=gpu&job={job}&top=64&{five}",
        "series of a host's CPU, a day": f"series?metric=cpu_util&by=host&host={host}&{day}",
        "hosts, 100 with sparks, 5 h": f"hosts?{five}&sort=-gpu_util",
        "hosts, all with sparks, 5 h": f"hosts?{five}&limit=2000",
        "hosts, 100 with sparks, 7 days": f"hosts?{week}",
        "jobs, 100 with sparks, 5 h": f"jobs?{five}",
        "jobs, 100 with sparks, 7 days": f"jobs?{week}&sort=-gpu_hours",
        "gpus, 100 of 10,000": "gpus?sort=-power_watts",
        "a host": f"hosts/{host}?{five}",
        "a host's events, 5 h": f"hosts/{host}/events?{five}",
        "a host's jobs, 7 days": f"hosts/{host}/jobs?{week}",
        "a job": f"jobs/{job}?{week}",
        "a job's efficiency": f"jobs/{job}/efficiency",
        "a job's ranks, 5 h": f"jobs/{job}/ranks?{five}",
        "a job's hosts, 5 h": f"jobs/{job}/hosts?{five}",
        "metrics": "metrics",
    }


def _window(shape: Minutes, hours: int) -> str:
    since, until = (datetime.fromtimestamp(at, UTC) for at in (shape.until - hours * 3600, shape.until))
    return f"since={since:%FT%TZ}&until={until:%FT%TZ}"


@dataclass(frozen=True)
class Asked:
    """A query as an endpoint asked it."""

    statement: queries.Statement
    form: str


class Recorder(Reads):
    """Reads that remember what was asked."""

    def json(self, name: str, form: str = "JSONColumns", **given: object) -> bytes:
        texts = {key: str(value) for key, value in given.items() if value is not None}
        recorded.append(Asked(queries.get(name).statement(texts), form))
        return super().json(name, form, **given)


recorded: list[Asked] = []


def sql_of(settings: Settings, path: str) -> list[Asked]:
    """The queries of an endpoint: it is asked once, in this process."""
    app = api_app(settings)
    app.state.reads = Recorder(settings.store, settings.web)
    recorded.clear()
    answer = TestClient(app, base_url="http://127.0.0.1").get(f"/api/v1/{path}")
    if answer.status_code != 200:
        raise SystemExit(f"{path}: {answer.status_code} {answer.text[:500]}")
    return list(recorded)


def engine(client: httpx.Client, url: str, asked: list[Asked]) -> Callable[[], int]:
    """A function that asks the engine the same; it returns the bytes of the answers."""
    settings = {name: str(value) for name, value in FORMAT.items()}

    def ask() -> int:
        return sum(len(_query(client, url, each, settings).content) for each in asked)

    return ask


def _query(client: httpx.Client, url: str, asked: Asked, settings: Mapping[str, str]) -> httpx.Response:
    values = {f"param_{name}": value.replace("\\", "\\\\") for name, value in asked.statement.values.items()}
    params = {"database": "warpmeter", "default_format": asked.form, **settings, **values}
    answer = client.post(url, params=params, content=asked.statement.sql)
    if answer.status_code != 200:
        raise SystemExit(f"the engine: {answer.text[:500]}")
    return answer


def api(client: httpx.Client, url: str, path: str, encoding: str) -> Callable[[], int]:
    """A function that asks the API; it returns the bytes that came, as they came."""

    def ask() -> int:
        with client.stream("GET", f"{url}/api/v1/{path}", headers={"accept-encoding": encoding}) as answer:
            size = sum(len(piece) for piece in answer.iter_raw())
        if answer.status_code != 200:
            raise SystemExit(f"{path}: {answer.status_code}; ask it by hand")
        return size

    return ask


@dataclass(frozen=True)
class Took:
    """Milliseconds of the rounds, sorted; CPU milliseconds of engine and web process a round; bytes of an answer."""

    ms: list[float]
    cpu_ms: float
    size: int

    @property
    def p50(self) -> float:
        return statistics.median(self.ms)

    @property
    def p95(self) -> float:
        return self.ms[min(len(self.ms) - 1, int(0.95 * len(self.ms)))]


def timed(asks: Mapping[str, Callable[[], int]], rounds: int, processes: Sequence[psutil.Process]) -> dict[str, Took]:
    """Each in turns, after two that are not counted."""
    took: dict[str, list[float]] = {name: [] for name in asks}
    used: dict[str, float] = dict.fromkeys(asks, 0.0)
    size: dict[str, int] = {}
    for turn in range(rounds + 2):
        for name, ask in asks.items():
            busy, start = _cpu_s(processes), time.perf_counter()
            size[name] = ask()
            if turn >= 2:
                took[name].append((time.perf_counter() - start) * 1e3)
                used[name] += _cpu_s(processes) - busy
    return {name: Took(sorted(found), used[name] / rounds * 1e3, size[name]) for name, found in took.items()}


def _cpu_s(processes: Sequence[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


@contextmanager
def serving(store: Path) -> Iterator[tuple[Settings, str, list[psutil.Process]]]:
    """An engine and a web process; the settings, where the API is, and the two."""
    engine_server = EngineServer(store)
    try:
        with answering(engine_server.url, store.with_name("web.log")) as (settings, url, process):
            yield settings, url, [psutil.Process(engine_server.process.pid), process]
    finally:
        engine_server.close()


@contextmanager
def answering(dsn: str, log: Path) -> Iterator[tuple[Settings, str, psutil.Process]]:
    """A web process on a store; its settings, where the API is, and itself."""
    port = free_ports(1)[0]
    settings = replace(Settings(), store=Store(dsn=dsn), web=Web(port=port), metrics=Metrics(web_port=0))
    with log.open("wb") as output:
        process = launch.spawn("warpmeter.web", settings, log=output)
    try:
        _await(f"http://127.0.0.1:{port}/api/v1/health", log)
        yield settings, f"http://127.0.0.1:{port}", psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(30)


def _await(url: str, log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            if httpx.get(url, timeout=10).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.2)
    raise SystemExit(f"the web process did not come up: {log.read_text()[-1000:]}")


def main() -> int:
    """Ask all, print one table; 1 when a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=1250)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", default="", help="panels whose name has this")
    given = parser.parse_args()
    folder, shape = made(given.hosts, given.days)
    with serving(folder) as (settings, url, both), httpx.Client(timeout=60) as client:
        bench = Bench(settings, url, client, both, given.rounds)
        rows = [bench.row(name, path) for name, path in panels(shape).items() if given.only in name]
    title = f"{shape.hosts * 8:,} GPUs, {shape.days} days of minutes; {given.rounds} rounds, ms"
    head = [
        "endpoint",
        "engine",
        "API",
        "ratio",
        "p95",
        "gzip",
        "p95",
        "CPU engine",
        "CPU API",
        "CPU gzip",
        "kB",
        "kB gzip",
    ]
    head.append("")
    print_table(title, head, [row for row, _ in rows])
    return int(not all(good for _, good in rows))


@dataclass(frozen=True)
class Bench:
    """What is asked, and how often."""

    settings: Settings
    url: str
    client: httpx.Client
    processes: list[psutil.Process]
    rounds: int

    def row(self, name: str, path: str) -> tuple[list[str], bool]:
        """A line of the table, and whether the claims hold for it."""
        asked = sql_of(self.settings, path)
        asks = {code: api(self.client, self.url, path, code) for code in ("identity", "gzip")}
        asks = {"engine": engine(self.client, self.settings.store.dsn, asked), **asks}
        took = timed(asks, self.rounds, self.processes)
        alone, plain, packed = took.values()
        ratio = f"{plain.p50 / alone.p50:.2f}" if asked else ""
        wrong = _wrong(name, alone, plain, packed)
        times = [alone.p50, plain.p50, plain.p95, packed.p50, packed.p95, alone.cpu_ms, plain.cpu_ms, packed.cpu_ms]
        row = [name, *(f"{each:.0f}" for each in times), f"{plain.size / 1e3:,.0f}", f"{packed.size / 1e3:,.0f}", wrong]
        row.insert(3, ratio)
        print(" | ".join(row), file=sys.stderr, flush=True)
        return row, not wrong


def _wrong(name: str, alone: Took, plain: Took, packed: Took) -> str:
    if name == HEATMAP and packed.p50 > HEATMAP_MS:
        return f"over {HEATMAP_MS} ms"
    if name != HEATMAP and packed.p95 > OTHERS_MS:
        return f"over {OTHERS_MS} ms"
    if alone.p50 >= WORTH_MS and plain.p50 > RATIO * alone.p50:
        return f"over {RATIO}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
