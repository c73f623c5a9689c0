"""The timeline of a large trace: how long the tiles of a page take at every zoom, and how much of it is the engine's.

A generated trace (benchmarks/traces.py) is analysed and loaded into a real engine process; a real web process answers
tiles as the page asks for them, 1,024 buckets each, at random places of every level from the whole trace to 2 µs a
bucket. Each is asked of the API (gzip, as browsers do) and of the engine with the very SQL. Printed are medians and
95th percentiles over all places of a level, and the most rectangles that an answer had.

Claims for a million events: the 95th percentile of each level stays below 200 ms, no answer has more than 20,000
rectangles. `--events` sets how many are written (a fifth of them arrows, which no timeline has).
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `benchmarks`, when run as a file

import httpx

from benchmarks.fleet import print_table
from benchmarks.traces import write
from tests.engine import DATABASE, TOKEN, WRITER, EngineServer
from tests.timelines import landed
from tests.web_process import WebProcess
from warpmeter import migrate, queries
from warpmeter.settings import Settings, Store
from warpmeter.store import Client, connect
from warpmeter.web.store.reads import FORMAT
from warpmeter.web.traces.timelines import MOST

EVENTS: Final = 1_700_000
STEPS: Final = 20
BUCKETS: Final = 1024
FINEST: Final = 11
PLACES: Final = 12
LIMIT_MS: Final = 200


@dataclass(frozen=True)
class Level:
    """What tiles of 2^`level` nanoseconds a bucket took, in milliseconds."""

    level: int
    api: list[float]
    engine: list[float]
    most: int

    def cells(self) -> list[str]:
        """Of the table."""
        ratio = statistics.median(self.api) / statistics.median(self.engine)
        figures = [statistics.median(self.api), _p95(self.api), statistics.median(self.engine)]
        return [f"{BUCKETS << self.level:,}", *(f"{each:.0f}" for each in figures), f"{ratio:.2f}", f"{self.most:,}"]

    @property
    def holds(self) -> bool:
        """Whether the claims do."""
        return _p95(self.api) < LIMIT_MS and self.most <= MOST


def _p95(values: list[float]) -> float:
    return sorted(values)[int(0.95 * (len(values) - 1))]


@dataclass(frozen=True)
class Asked:
    """Both who answer, and what the trace is called there."""

    http: httpx.Client
    engine: Client
    about: dict[str, Any]
    end: int

    def level(self, level: int, rng: Random) -> Level:
        """Tiles at random places of a level, each asked once of both, in turns."""
        api, engine, most = [], [], 0
        length = BUCKETS << level
        for _ in range(PLACES):
            since = rng.randrange(max(1, -(-self.end // length))) * length
            stretch = {"since_ns": since, "until_ns": since + length}
            took, answer = _timed(partial(self._of_api, stretch))
            most = max(most, answer["count"])
            api.append(took)
            engine.append(_timed(partial(self._of_engine, stretch, answer["bucket_ns"]))[0])
        return Level(level, api, engine, most)

    def _of_api(self, stretch: dict[str, int]) -> Any:
        return self.http.get("/timeline", params={**self.about, **stretch, "width": BUCKETS}).raise_for_status().json()

    def _of_engine(self, stretch: dict[str, int], bucket: int) -> bytes:
        given = {"capture_id": "large", **self.about, **stretch, "bucket_ns": bucket}
        asked = queries.get("timeline_events").statement({name: str(value) for name, value in given.items()})
        body: bytes = self.engine.raw_query(asked.sql, dict(asked.values), settings=dict(FORMAT), fmt="JSONColumns")
        return body


def _timed(ask: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    answer = ask()
    return (time.perf_counter() - began) * 1e3, answer


@contextmanager
def world(events: int) -> Iterator[Asked]:
    """The engine with the trace, and the page's process."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="warpmeter-timeline-")))
        server = stack.enter_context(closing(EngineServer(folder / "engine")))
        writing = Store(dsn=f"http://{WRITER}:{TOKEN}@127.0.0.1:{server.port}", database=DATABASE)
        with connect(writing, database="default") as client:
            migrate.apply(client, writing)
        client = stack.enter_context(connect(writing))
        write(folder / "large.json", events, STEPS)
        landed(client, writing, "large", [folder / "large.json"])
        settings = Settings(store=Store(dsn=server.url, database=DATABASE))
        process = stack.enter_context(closing(WebProcess(folder, settings=settings))).ready()
        http = stack.enter_context(httpx.Client(base_url=f"{process.url}/api/v1/traces/large", timeout=60))
        lanes = http.get("/timeline/lanes").raise_for_status().json()
        print(f"{sum(lanes['lanes']['events']):,} events in {max(lanes['lanes']['last_ns']) / 1e9:.1f} s of trace")
        yield Asked(http, client, {name: lanes[name] for name in ("process", "load")}, max(lanes["lanes"]["last_ns"]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=EVENTS)
    rng = Random(1)
    with world(parser.parse_args().events) as asked:
        coarsest = (-(-asked.end // BUCKETS) - 1).bit_length()
        levels = [asked.level(level, rng) for level in range(coarsest, FINEST - 1, -2)]
    head = ["tile, ns", "API p50, ms", "API p95, ms", "engine p50, ms", "API/engine", "most rectangles"]
    print_table("Tiles by level", head, [level.cells() for level in levels])
    return 0 if all(level.holds for level in levels) else 1


if __name__ == "__main__":
    sys.exit(main())
