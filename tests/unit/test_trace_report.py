"""The whole report of any valid trace: no part fails, what must add up does, and the JSON is what the schema says."""

import math
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from tests.tracebuilder import TraceBuilder
from warpmeter.analysis.capture import Document, Wanted, one
from warpmeter.analysis.findings import job_findings
from warpmeter.analysis.job import job
from warpmeter.analysis.report import SCHEMA_VERSION, Options, RankReport, analyze
from warpmeter.analysis.selection import numbers
from warpmeter.cli.csvs import tables

NAMES = (
    "sm90_xmma_gemm_bf16", "ampere_sgemm_128x64_tn", "void at::native::elementwise_kernel<4>(int)", "_ZN3fooEv", "",
    "ncclDevKernel_AllGather_RING_LL", "nchwToNhwcKernel", "Cijk_Ailk_Bljk_BBS_BH_MT128x128x32_MI16x16x16x1", "é🚀",
)  # fmt: skip
OPERATORS = (
    "aten::mm",
    "aten::item",
    "enumerate(DataLoader)#__next__",
    "Optimizer.step#SGD.step",
    "record_param_comms",
)
CALLS = (
    "cudaLaunchKernel",
    "cuLaunchKernelEx",
    "hipLaunchKernel",
    "cudaStreamSynchronize",
    "cudaMalloc",
    "cudaGraphLaunch",
)

KINDS = ("launch", "kernel", "call", "operator", "copy", "step", "frame", "memory", "wait", "annotation")


def any_trace(seed: int) -> TraceBuilder:
    """Events of all kinds at any times: overlapping, empty, without launches, on several devices and threads."""
    rng = Random(seed)
    builder = TraceBuilder(base_ns=rng.choice([None, 1_700_000_000_000_000_000]))
    if rng.random() < 0.5:
        builder.device(
            0, rng.choice(["NVIDIA H100 80GB HBM3", "AMD Instinct MI300X", "Unheard of"]), totalGlobalMem=1 << 34
        )
    if rng.random() < 0.5:
        builder.distributed(rng.randrange(8), 8)
    kinds = rng.sample(KINDS, rng.randrange(1, len(KINDS) + 1))
    for place in range(rng.choice([0, 1, 3, 30, 300])):
        _event(rng, builder, rng.choice(kinds), place)
    return builder


def _event(rng: Random, builder: TraceBuilder, kind: str, place: int) -> None:
    at = rng.choice([rng.randrange(1_000_000), rng.randrange(0, 1_000_000, 1000)])
    took = rng.choice([0, 1, 999, rng.randrange(50_000), rng.randrange(5_000_000)])
    where: dict[str, Any] = {"device": rng.randrange(2), "stream": rng.choice([0, 7, 7, 20, 1 << 40])}
    thread = rng.randrange(3)
    if kind == "launch":
        builder.launch(
            rng.choice(NAMES), (at - rng.randrange(5_000), rng.randrange(9_000)), (at, took), thread=thread, **where
        )
    elif kind == "kernel":
        builder.kernel(
            rng.choice(NAMES), at, took, correlation=rng.choice([None, 0, 1, 99]), occupancy_percent=7, **where
        )
    elif kind == "call":
        builder.call(rng.choice(CALLS), at, took, thread=thread, correlation=rng.randrange(5))
    elif kind == "operator":
        dims = rng.choice([[], [[4, 4], [4, 4]], [[], [0, 3]], [[1 << 40, 1 << 40], [1 << 40, 2]]])
        builder.operator(
            rng.choice(OPERATORS), at, took, thread=thread, external=place, dims=dims, types=["float"] * len(dims)
        )
    elif kind == "copy":
        builder.copy(
            at,
            took,
            kind=rng.choice(["HtoD (Pageable -> Device)", "DtoH", ""]),
            bytes=rng.choice([0, 1 << 50]),
            **where,
        )
    elif kind == "step":
        builder.step(rng.randrange(5), at, took, thread=thread)
    elif kind == "frame":
        builder.frame(
            rng.choice(["nn.Module: Linear_0", "a.py(1): f"]), at, took, id=place, parent=rng.randrange(-1, place + 1)
        )
    elif kind == "memory":
        builder.memory(at, rng.choice([-1, 1]) << rng.randrange(40), address=rng.randrange(4), reserved=1 << 34)
    elif kind == "wait":
        builder.wait("Stream Wait Event", at, took, on_stream=7, on_correlation=rng.randrange(9))
    else:
        builder.annotation(rng.choice(["train_step", "batch 1", "DataLoader.__next__"]), at, took, thread=thread)


def figures(value: Any) -> Iterator[float]:
    """Every number anywhere in it."""
    if isinstance(value, dict):
        for each in value.values():
            yield from figures(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from figures(each)
    elif isinstance(value, int | float):
        yield value


def must_add_up(found: RankReport) -> None:
    if found.span_ns is None or found.busy_ns is None or found.idle_ns is None:
        assert found.gpu_events == 0
        assert (found.kernels, found.streams, found.idle_causes) == ([], [], None)
        return
    assert found.span_ns == found.busy_ns + found.idle_ns
    assert found.busy_ns == (found.compute_ns or 0) + (found.exposed_comm_ns or 0) + (found.exposed_mem_ns or 0)
    causes = found.idle_causes
    assert causes is not None
    parts = [
        causes.input_ns,
        causes.sync_ns,
        causes.allocation_ns,
        causes.launching_ns,
        causes.device_ns,
        causes.unknown_ns,
    ]
    assert min(parts) >= 0
    assert sum(parts) == found.idle_ns
    assert sum(kernel.count for kernel in found.kernels) == found.gpu_events
    assert sum(kernel.total_ns for kernel in found.kernels) == found.total_ns
    assert sum(stream.gpu_events for stream in found.streams) == found.gpu_events
    assert all(finding.cost_ns >= 0 and finding.evidence for finding in found.findings)
    assert all(
        0 < finding.value <= 1 for finding in found.findings if "uneven" not in finding.id and "full" not in finding.id
    )


@pytest.mark.parametrize("seed", range(80))
def test_any_trace_has_a_whole_report(seed: int, tmp_path: Path) -> None:
    file = any_trace(seed).write(tmp_path / "trace.json")
    ranked = one(str(file), lambda _done, _whole: None, Wanted(options=Options(strict=True))).ranked
    assert ranked is not None
    found, extract = ranked
    must_add_up(found)
    both = job([extract])
    document = Document(SCHEMA_VERSION, [found], both, job_findings(both), [])
    text = msgspec.json.encode(document)
    assert msgspec.json.decode(text, type=Document) == document
    plain = msgspec.to_builtins(document)
    assert all(math.isfinite(number) for number in figures(plain))
    assert tables(document)["ranks"]


@pytest.mark.parametrize("seed", range(20))
def test_steps_share_the_events_that_any_step_launched(seed: int) -> None:
    """The reports of single steps have each event of the whole once, but for those outside of all steps."""
    builder = any_trace(1000 + seed)
    builder.step(7, 0, 400_000)
    builder.step(8, 400_000, 100_000)
    trace = builder.build()
    whole = analyze(trace, Options(strict=True))
    chosen = sorted({place if step.number is None else step.number for place, step in enumerate(whole.steps)})
    each = [analyze(trace, Options(steps=numbers(str(number)), strict=True)) for number in chosen]
    assert sum(step.gpu_events for step in each) == whole.gpu_events - whole.outside_steps_events
    assert sum(step.total_ns or 0 for step in each) == (whole.total_ns or 0) - whole.outside_steps_ns
