"""`warpmeter top` over a large fleet: what a refresh costs the engine and itself, and how soon a key is answered.

A fleet of 1,250 hosts of 8 GPUs is planted by SQL (tests/topworld.py) in a real engine process; the very application
runs in a child of this process on a screen of 120 x 36 cells that is no terminal, and looks at each list for some
refreshes. Printed are CPU milliseconds of the engine and of the application for each refresh, what an answer took by
the clock, the time from a key to the screen that shows what it did while refreshes go on, and resident memory.

Claim: a refresh of any list costs the engine at most 1 s of CPU and the application 0.5 s; a key is answered within
100 ms (median); the application stays below 300 MiB.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `benchmarks`, when run as a file

import psutil

from benchmarks.fleet import print_table
from tests import topworld
from tests.engine import DATABASE, EngineServer
from tests.ingest_process import migrated
from warpmeter.settings import Store
from warpmeter.top.app import Top
from warpmeter.top.asking import Start
from warpmeter.top.source import StoreSource

KEYS: Final = ("down", "pagedown", "end", "home", "r", "greater_than_sign", "right", "left")
ENGINE_MS, OURS_MS, KEY_MS, MEBIBYTES = 1000.0, 500.0, 100.0, 300.0


def cpu_s(process: psutil.Process) -> float:
    """Seconds of CPU that a process has taken."""
    times = process.cpu_times()
    return float(times.user + times.system)


async def looked(url: str, engine_pid: int, tab: str, wanted: int) -> Mapping[str, Any]:
    """What it took to look at a list for so many refreshes."""
    app = Top(StoreSource(Store(dsn=url, database=DATABASE)), Start(2.0, tab))
    engine, ours = psutil.Process(engine_pid), psutil.Process()
    refreshes = 0
    async with app.run_test(size=(120, 36)) as pilot:
        while app._shown is None:
            await pilot.pause(0.1)
        heard, before = app._heard, (cpu_s(engine), cpu_s(ours))
        while refreshes < wanted:
            await asyncio.sleep(0.05)
            if app._heard != heard:
                heard, refreshes = app._heard, refreshes + 1
        spent = cpu_s(engine) - before[0], cpu_s(ours) - before[1]
        waited = [await _key(pilot, KEYS[turn % len(KEYS)]) for turn in range(40)]
        return {
            "rows": len(app.visit.view.order),
            "refreshes": refreshes,
            "engine_ms": spent[0] / max(1, refreshes) * 1e3,
            "ours_ms": spent[1] / max(1, refreshes) * 1e3,
            "took_ms": app._took * 1e3,
            "key_ms": statistics.median(waited),
            "key_p95_ms": sorted(waited)[int(0.95 * len(waited))],
            "mebibytes": ours.memory_info().rss / 2**20,
        }


async def _key(pilot: Any, key: str) -> float:
    """Milliseconds until a key has done what it does and all of it is drawn."""
    began = time.perf_counter()
    await pilot.press(key)
    pilot.app.screen._compositor.render_strips()
    took = (time.perf_counter() - began) * 1e3
    await asyncio.sleep(0.05)
    return took


def measured(url: str, engine_pid: int, tab: str, wanted: int) -> Mapping[str, Any]:
    """In a child, so that its memory is its own."""
    argv = [sys.executable, __file__, "--child", url, str(engine_pid), tab, str(wanted)]
    found = subprocess.run(argv, capture_output=True, text=True, check=True)
    answer: Mapping[str, Any] = json.loads(found.stdout)
    return answer


def main() -> int:
    """Measure and print; 1 where a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=1250, help="of 8 GPUs (default: 1250)")
    parser.add_argument("--refreshes", type=int, default=8, help="of each list (default: 8)")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        url, pid, tab, wanted = given.child
        print(json.dumps(asyncio.run(looked(url, int(pid), tab, int(wanted)))))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        engine = migrated(EngineServer(Path(folder) / "engine"))
        try:
            with engine.client(write=True) as client:
                topworld.plant(client, given.hosts)
            tabs = ("hosts", "gpus", "jobs")
            found = {tab: measured(engine.url, engine.process.pid, tab, given.refreshes) for tab in tabs}
        finally:
            engine.close()
    return told(given.hosts, found)


def told(hosts: int, found: Mapping[str, Mapping[str, Any]]) -> int:
    """Print the table; 1 where a claim does not hold."""
    head = ["list", "rows", "refreshes", "engine CPU ms", "own CPU ms", "answer ms", "key ms", "key p95 ms", "MiB"]
    names = ("rows", "refreshes", "engine_ms", "ours_ms", "took_ms", "key_ms", "key_p95_ms", "mebibytes")
    rows = [[tab, *(f"{each[name]:.0f}" for name in names)] for tab, each in found.items()]
    print_table(f"A refresh of `warpmeter top` over {hosts * 8:,} GPUs", head, rows)
    held = all(
        each["engine_ms"] <= ENGINE_MS
        and each["ours_ms"] <= OURS_MS
        and each["key_ms"] <= KEY_MS
        and each["mebibytes"] <= MEBIBYTES
        for each in found.values()
    )
    print("\nthe claims hold" if held else "\na claim does not hold")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
