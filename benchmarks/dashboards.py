"""What a refresh of each dashboard costs the store, over 10,000 GPUs (1,250 hosts, a day of minutes).

Engine CPU of all its panels' queries, one after the other, and the panel that costs most. In this process, so CPU is
the engine's and the client's. The store is made once, in some minutes (`benchmarks/minutes.py`).
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `benchmarks`, when run as a file

from benchmarks.fleet import print_table
from benchmarks.minutes import Minutes, made, opened
from tests.grafana import ALL, Chosen, Range, queries, sent
from warpmeter.store import Client

BOARDS: Final = Path(__file__).resolve().parents[1] / "deploy" / "grafana" / "dashboards"
NAMES: Final = ("overview", "host", "job", "profiling", "ingest")
POINTS: Final = 700
"""That a panel of half a screen's width asks for."""


def _one(client: Client, sql: str) -> Any:
    return client.query(sql).result_rows[0][0]


def _chosen(client: Client, windows: str, board: str) -> Chosen:
    """The first host, the job with most GPU hours, and all where several may be chosen."""
    host = _one(client, "SELECT min(host) FROM host_windows_1h")
    job = _one(client, "SELECT job_id FROM job_windows_1h GROUP BY job_id ORDER BY sum(gpu_seconds) DESC LIMIT 1")
    return {
        "windows": windows, "stacks": "stack_hours", "host": ALL if board == "overview" else host, "job": job,
        "user": ALL, "capture": "none", "top": "20", "order": "DESC", "metric": "gpu_util_permille", "exported": "none",
    }  # fmt: skip


def _rows(client: Client, shape: Minutes, hours: int) -> Iterator[list[str]]:
    within = Range(shape.until - hours * 3600, shape.until, max(60, hours * 3600 // POINTS))
    windows = "1h" if hours > 48 else "1m"
    for name in NAMES:
        board = json.loads((BOARDS / f"{name}.json").read_text())
        chosen = _chosen(client, windows, name)
        costs = []
        for title, target in queries(board):
            began = time.process_time()
            client.query(sent(target["rawSql"], chosen, within))
            costs.append((time.process_time() - began, title))
        most, title = max(costs)
        yield [name, f"{hours} h", str(len(costs)), f"{sum(cost for cost, _ in costs):.2f}", f"{most:.2f}", title]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=1250)
    parser.add_argument("--store", type=Path, help="of a folder that benchmarks/minutes.py made, with its shape.json")
    given = parser.parse_args()
    if given.store:
        folder, shape = given.store / "store", Minutes(**json.loads((given.store / "shape.json").read_text()))
    else:
        folder, shape = made(given.hosts, 1)
    with opened(folder) as client:
        rows = [row for hours in (6, 24, 72) for row in _rows(client, shape, hours)]
    print_table(
        f"a refresh, {shape.hosts * 8:,} GPUs", ["dashboard", "range", "queries", "CPU s", "most", "of panel"], rows
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
