"""The page's queries: ours from the raw rows and from the rollups, beside VictoriaMetrics without its cache.

Both hold the generated fleet (benchmarks/fleet.py) and are asked the same over the same window of whole hours: ours
through the shipped named queries, in this process and in the format that its clients read (Native), VictoriaMetrics
through MetricsQL by HTTP in JSON, its only format, with `nocache=1`; all expressions of a panel go in one `union`. Each
holds the values as it gets them in use: ours at the scales that the agent publishes, VictoriaMetrics as exporters give
them (six decimals, milliwatts, single bytes); the last column is VictoriaMetrics with values cut to our precision. The
stores take turns; printed is the median of the rounds.

The claims are for the default size. On a fleet of a few hundred GPUs both answer in milliseconds, and VictoriaMetrics
sooner: planning a query takes 3 to 5 ms here, however little it reads.
"""

import json
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `benchmarks`, when run as a file

from benchmarks.fleet import Fleet, Shape, generate, print_table, shape_from_arguments
from benchmarks.storage import BINARY, Victoria, load_tables, load_victoria, scratch, tables
from warpmeter import queries
from warpmeter.store import Client

ROUNDS: Final = 25
RAW_LIMIT: Final = 1.5
ROLLUP_LIMIT: Final = 3.0
STEP_S: Final = 300
HEADLINES: Final = ("gpu_util_permille", "sm_active_permille", "tensor_active_permille")


@dataclass(frozen=True)
class Panel:
    """One question: the named query that answers it from raw rows, the one from rollups ('' for none), MetricsQL."""

    question: str
    raw: str
    rollup: str
    given: Mapping[str, str]
    metricsql: str
    ranged: bool = False
    claimed: bool = True


def panels(fleet: Fleet) -> tuple[Panel, ...]:
    """The four, for the whole window; a heatmap in steps of five minutes."""
    host, span = fleet.host(fleet.shape.gpus // 3), f"{fleet.shape.hours}h"
    means = [f"avg_over_time(gpu_{metric}[{span}])" for metric in HEADLINES]
    overview = ", ".join(f'avg({mean}), quantiles("phi", 0.5, 0.95, {mean})' for mean in means)
    idle = f"topk(20, share_le_over_time(gpu_gpu_util_permille[{span}], 0.049))"
    heat = {"metric": "sm_active", "step_s": str(STEP_S)}
    busy = f"avg_over_time(gpu_sm_active_permille[{STEP_S}s])"
    return (
        Panel("fleet overview", "fleet_overview_raw", "fleet_overview", {}, f"union({overview})"),
        Panel(f"heatmap of {fleet.shape.gpus:,} GPUs", "heatmap_raw", "heatmap", heat, busy, ranged=True),
        Panel("one host, every sample", "host_stored", "", {"host": host}, f'{{host="{host}"}}[{span}]'),
        Panel("the same in SI units", "host_raw", "", {"host": host}, f'{{host="{host}"}}[{span}]', claimed=False),
        Panel("top 20 idle GPUs", "top_idle_gpus_raw", "top_idle_gpus", {}, idle),
    )


def ask_ours(
    client: Client, name: str, given: Mapping[str, str], shape: Shape, fmt: str = "Native"
) -> Callable[[], bytes]:
    """A function that asks a named query over the fleet's window."""
    asked = queries.get(name).statement({**given, "since": _iso(shape.since), "until": _iso(shape.until)})

    def ask() -> bytes:
        answer: bytes = client.raw_query(asked.sql, parameters=dict(asked.values), fmt=fmt)
        return answer

    return ask


def ask_theirs(victoria: Victoria, panel: Panel, shape: Shape) -> Callable[[], bytes]:
    """A function that asks the same of VictoriaMetrics."""
    if panel.ranged:
        # A step ends at its time: the first at since + step, the last at until.
        window: dict[str, Any] = {"start": shape.since + STEP_S, "end": shape.until, "step": STEP_S}
        return lambda: victoria.get("/api/v1/query_range", query=panel.metricsql, nocache=1, **window)
    return lambda: victoria.get("/api/v1/query", query=panel.metricsql, time=shape.until - 1, nocache=1)


def _iso(ts: int) -> str:
    return datetime.fromtimestamp(ts, UTC).isoformat()


def timed(asks: Mapping[str, Callable[[], bytes]]) -> dict[str, float]:
    """Median milliseconds of each, over ROUNDS in which all take turns, after one that is not counted."""
    took: dict[str, list[float]] = {name: [] for name in asks}
    for _ in range(ROUNDS + 1):
        for name, ask in asks.items():
            start = time.perf_counter()
            ask()
            took[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(times[1:]) for name, times in took.items()}


def check(panel: Panel, ours: bytes, theirs: bytes) -> None:
    """Refuse to compare answers that do not say the same: as many GPUs or samples."""
    columns, found = json.loads(ours), json.loads(theirs)["data"]["result"]
    rows = len(columns[0])
    if panel.raw.startswith("host_"):
        samples = sum(len(series["values"]) for series in found)
        agree = samples == rows * 16
    elif panel.raw == "fleet_overview_raw":
        agree = abs(columns[0][0] - float(found[0]["value"][1])) < 1e-3
    else:
        agree = rows == len(found)
    if not agree:
        raise SystemExit(f"{panel.question}: the stores do not agree: {ours[:200]!r} and {theirs[:300]!r}")


def main() -> int:
    """Load both, ask both, print one table; 1 when a ratio is below what is claimed."""
    shape = shape_from_arguments(__doc__ or "")
    if not shutil.which(BINARY):
        print(f"{BINARY} is not installed; on Debian: apt-get install {BINARY}")
        return 2
    fleet = generate(shape)
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        client = stack.enter_context(tables(folder / "tables"))
        victoria, cut = (stack.enter_context(closing(Victoria(folder / name))) for name in ("victoria", "cut"))
        load_tables(client, fleet)
        load_victoria(victoria, fleet, "published")
        load_victoria(cut, fleet, "si")
        lines = [_line(panel, client, victoria, cut, shape) for panel in panels(fleet)]
    title = f"{shape.values:,} values of {shape.gpus:,} GPUs over {shape.hours} h; median of {ROUNDS}, ms"
    print_table(
        title,
        ["question", "VictoriaMetrics", "raw", "times faster", "rollup", "times faster", "VictoriaMetrics, cut"],
        [row for row, _ in lines],
    )
    return int(not all(good for _, good in lines))


def _line(panel: Panel, client: Client, victoria: Victoria, cut: Victoria, shape: Shape) -> tuple[list[str], bool]:
    asks = {"theirs": ask_theirs(victoria, panel, shape), "cut": ask_theirs(cut, panel, shape)}
    asks["raw"] = ask_ours(client, panel.raw, panel.given, shape)
    if panel.rollup:
        asks["rollup"] = ask_ours(client, panel.rollup, panel.given, shape)
    check(panel, ask_ours(client, panel.raw, panel.given, shape, "JSONCompactColumns")(), asks["theirs"]())
    took = timed(asks)
    raw, rollup = took["theirs"] / took["raw"], took["theirs"] / took.get("rollup", took["theirs"])
    row = [panel.question, f"{took['theirs']:.1f}", f"{took['raw']:.1f}", f"{raw:.1f}"]
    row += [f"{took['rollup']:.1f}", f"{rollup:.1f}"] if panel.rollup else ["", ""]
    row.append(f"{took['cut']:.1f}")
    good = raw >= RAW_LIMIT and (not panel.rollup or rollup >= ROLLUP_LIMIT)
    return row, good or not panel.claimed


if __name__ == "__main__":
    sys.exit(main())
