"""Traces for the timeline: random ones that nest, and one whose links are known."""

from pathlib import Path
from random import Random
from typing import Final

from tests.captures import NOON_NS
from tests.tracebuilder import TraceBuilder
from warpmeter import landing
from warpmeter.analysis import rows
from warpmeter.analysis.job import extract
from warpmeter.analysis.job.rows import collectives
from warpmeter.analysis.read import read
from warpmeter.analysis.report import material, report
from warpmeter.analysis.trace import Trace
from warpmeter.landing import Process
from warpmeter.settings import Store
from warpmeter.store import Client

QUERIES: Final = (
    "timeline_correlated",
    "timeline_event",
    "timeline_events",
    "timeline_known",
    "timeline_lanes",
    "timeline_launched",
    "timeline_load",
    "timeline_names",
    "timeline_paired",
    "timeline_range",
    "timeline_ranks",
    "timeline_search",
    "timeline_search_names",
    "timeline_steps",
    "timeline_thread",
)
"""Named queries of the timeline; `tests/real/test_web_timeline.py` answers them through the API."""


def random(seed: int, operators: int = 120) -> TraceBuilder:
    """Operators within operators on two threads, launches of all lengths on two streams, Python calls around."""
    rng, built = Random(seed), TraceBuilder(base_ns=NOON_NS)
    built.name(thread=0, text="python")
    for thread in (0, 1):
        at = rng.randrange(1_000)
        for _ in range(operators):
            length = rng.choice((300, 2_000, 30_000, 400_000)) + rng.randrange(200)
            _within(built, rng, (at, length), thread, 0)
            at += length + rng.randrange(0, 20_000)
        built.frame("train.py(1): main", 0, at + 10, id=10 * thread, thread=thread)
    for step in range(4):
        built.step(step, step * 1_000_000, 900_000, thread=2)
    return built


def _within(built: TraceBuilder, rng: Random, span: tuple[int, int], thread: int, depth: int) -> None:
    start, length = span
    built.operator(f"aten::{rng.choice(('mm', 'add', 'linear', 'copy_'))}", start, length, thread=thread)
    if length > 1_500 and rng.random() < 0.7:
        stream = rng.choice((7, 20))
        kernel = (start + rng.randrange(5_000), rng.randrange(50_000))
        built.launch("gemm", (start + 10, 100), kernel, stream=stream, thread=thread)
    if depth < 4 and length > 600 and rng.random() < 0.6:
        half = length // 2
        _within(built, rng, (start + 200, half - 250), thread, depth + 1)
        _within(built, rng, (start + half, half - 10), thread, depth + 1)


def linked() -> TraceBuilder:
    """A step in which `aten::linear` calls `aten::addmm`, which launches a copy and a product; two Python calls."""
    built = TraceBuilder(base_ns=NOON_NS)
    built.distributed(0, 1)
    built.name(thread=0, text="thread 100 (trainer)")
    built.step(3, 0, 100_000)
    built.frame("train.py(7): step", 500, 90_000, id=1)
    built.frame("nn.Module: Linear_0", 900, 50_000, id=2, parent=1)
    built.operator("aten::linear", 1_000, 40_000, dims=[[8, 16], [16, 4]], types=["float", "float"])
    built.operator("aten::addmm", 2_000, 30_000, sequence=5)
    built.call("cudaMemcpyAsync", 3_000, 500, correlation=11)
    built.copy(9_000, 700, bytes=512, correlation=11)
    built.call("cudaLaunchKernel", 4_000, 600, correlation=12)
    built.kernel("void gemm<float>(int)", 12_000, 20_000, correlation=12, occupancy_percent=25)
    built.operator("AddmmBackward0", 60_000, 5_000, sequence=5, thread=1)
    built.wait("Stream Synchronize", 70_000, 2_000)
    return built


def landed(client: Client, store: Store, capture: str, paths: list[Path]) -> list[Trace]:
    """Load the ranks of a capture as the command does; what was read of them."""
    load = landing.begin(client, capture, "job")
    traces = [read(str(path)) for path in paths]
    materials = [material(trace) for trace in traces]
    extracts = [extract(on.trace, on.links) for on in materials]
    began = [trace.epoch_ns + rows.began_ns(trace) for trace in traces]
    puts = []
    for rank, (on, met) in enumerate(zip(materials, collectives(extracts, began), strict=True)):
        process = Process(rank, "ant", True, rows.captured_at_ns(on.trace))
        tables: landing.Tables = {**rows.rows(on, report(on)), "trace_collectives": [met]}
        puts.append(landing.put(client, store, load, process, tables))
    landing.publish(client, store, load, puts, lambda _: None)
    return traces
