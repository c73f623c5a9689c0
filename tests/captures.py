"""Rows of analysed traces, written by hand: what `landing` takes, small and with known sums."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.tracebuilder import TraceBuilder
from warpmeter.landing import RANKS, Columns, Process, Tables

QUERIES: Final = (
    "capture_collectives",
    "capture_kernels",
    "capture_operators",
    "capture_stragglers",
    "capture_steps",
    "capture_timeline",
    "captures_analysed",
    "kernel_regressions",
    "kernel_weeks",
)
"""Named queries of analysed traces; `tests/real/test_trace_views.py` answers them."""

OF_THE_PAGE: Final = (
    "capture_copies",
    "capture_diff",
    "capture_diff_operators",
    "capture_diff_parts",
    "capture_findings",
    "capture_idle",
    "capture_late_ranks",
    "capture_loaded",
    "capture_memory",
    "capture_processes",
    "capture_skew",
    "capture_state",
    "captures_loaded",
)
"""Those that the page of an analysed capture asks beside them; `tests/real/test_web_analysis.py` answers them."""

NOON_NS: Final = 1_790_000_000_000_000_000


def columns(rows: Sequence[Mapping[str, Any]]) -> Columns:
    """Rows as columns."""
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def process(rank: int = 0, host: str = "ant", told: bool = True, captured_at_ns: int = NOON_NS) -> Process:
    """A process whose trace says its rank."""
    return Process(rank, host, told, captured_at_ns)


def kernel(name: str, total_ns: int, count: int = 1, **more: Any) -> dict[str, Any]:
    """A row of `trace_kernels`."""
    mean = total_ns // count
    return {
        "name": name, "short_name": name, "sort": "compute", "count": count, "total_ns": total_ns, "min_ns": mean,
        "max_ns": mean, "streams": ["0/7"], "gpu_model": "H100", "workload": "train.py", **more,
    }  # fmt: skip


def event(start_ns: int, name: str = "gemm") -> dict[str, Any]:
    """A row of `trace_timeline`."""
    return {"kind": "kernel", "stream": 7, "start_ns": start_ns, "duration_ns": 10, "name": name}


def tables(kernels: Sequence[Mapping[str, Any]], events: int = 3, **rank: Any) -> Tables:
    """What is landed of one rank; words are columns of its own row."""
    row = {"file": "rank.json", "gpu_model": "H100", "workload": "train.py", "span_ns": 100, "busy_ns": 80, **rank}
    return {
        RANKS: [columns([row])],
        "trace_kernels": [columns(kernels)],
        "trace_timeline": [columns([event(10 * number) for number in range(events)])],
    }


def two_ranks(folder: Path) -> list[Path]:
    """Traces of two ranks: rank 1 computes 300 µs longer before each of four collectives, which end together."""
    paths = []
    for rank in (0, 1):
        built = TraceBuilder(base_ns=NOON_NS)
        built.distributed(rank, 2)
        for number in range(4):
            start, compute = 1_000_000 * number, 100_000 + 300_000 * rank
            built.kernel("gemm", start, compute)
            built.kernel(
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL", start + compute, 500_000 - compute, stream=20,
                collective="allreduce", in_elements=1000, out_elements=1000, dtype="Float", group="0", group_size=2,
                group_ranks=[0, 1],
            )  # fmt: skip
        paths.append(built.write(folder / f"rank{rank}.json"))
    return paths
