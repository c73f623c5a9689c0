"""Stacks: who called whom, with the time there and the GPU time that came of it; nothing is lost or counted twice."""

import random
from typing import Any

import pytest

from tests.tracebuilder import TraceBuilder
from tests.traces import needs_traces, references
from warpmeter.analysis.links import links
from warpmeter.analysis.read import read
from warpmeter.analysis.stacks import KINDS, SMALLER, UNKNOWN, Stacks, folded, stacks
from warpmeter.analysis.trace import Trace


def of(trace: Trace, most: int = 20_000) -> Stacks:
    return stacks(trace, links(trace), most)


def model() -> TraceBuilder:
    """Two calls of one module from one frame in one range, and a backward operator on another thread."""
    builder = TraceBuilder()
    builder.name(thread=0, text="main")
    builder.name(thread=1, text="pt_autograd_0")
    builder.step(3, 0, 1000)
    builder.annotation("## forward ##", 0, 500)
    builder.frame("train.py(7): step", 10, 480, id=1)
    for i in range(2):
        at = 20 + 200 * i
        builder.frame("nn.Module: Linear_0", at, 100, id=2 + i, parent=1)
        builder.operator("aten::linear", at + 10, 60)
        builder.launch("gemm", (at + 20, 10), (1000 + at, 30))
    builder.operator("MmBackward0", 600, 50, thread=1)
    builder.launch("gemm", (610, 10), (1500, 70), thread=1)
    builder.kernel("lost", 2000, 11)
    return builder


def test_host_time_by_stack() -> None:
    assert dict(line.rsplit(" ", 1) for line in folded(of(model().build()), "cpu")) == {
        "main;## forward ##": "20",
        "main;## forward ##;train.py(7): step": "280",
        "main;## forward ##;train.py(7): step;nn.Module: Linear_0": "80",
        "main;## forward ##;train.py(7): step;nn.Module: Linear_0;aten::linear": "100",
        "main;## forward ##;train.py(7): step;nn.Module: Linear_0;aten::linear;cudaLaunchKernel": "20",
        "pt_autograd_0;MmBackward0": "40",
        "pt_autograd_0;MmBackward0;cudaLaunchKernel": "10",
    }


def test_gpu_time_hangs_below_what_launched_it() -> None:
    found = of(model().build())
    assert dict(line.rsplit(" ", 1) for line in folded(found, "gpu")) == {
        "main;## forward ##;train.py(7): step;nn.Module: Linear_0;aten::linear;gemm": "60",
        "pt_autograd_0;MmBackward0;gemm": "70",
        f"{UNKNOWN};lost": "11",
    }
    kinds = {found.names[name]: KINDS[kind] for name, kind in zip(found.name, found.kind, strict=True)}
    assert kinds == {
        "main": "thread",
        "pt_autograd_0": "thread",
        UNKNOWN: "thread",
        "## forward ##": "annotation",
        "train.py(7): step": "python",
        "nn.Module: Linear_0": "module",
        "aten::linear": "operator",
        "MmBackward0": "operator",
        "cudaLaunchKernel": "call",
        "gemm": "gpu",
        "lost": "gpu",
    }


def test_counts_and_parents() -> None:
    found = of(model().build())
    for node, parent in enumerate(found.parent):
        assert -1 <= parent < node
    counts = {found.names[name]: count for name, count in zip(found.name, found.count, strict=True)}
    assert (counts["nn.Module: Linear_0"], counts["## forward ##"], counts["lost"]) == (2, 1, 1)


def test_names_without_addresses_and_separators() -> None:
    builder = TraceBuilder()
    builder.frame("<built-in method run of A object at 0x7f00aa>", 0, 10, id=1)
    builder.frame("<built-in method run of A object at 0x7f00bb>", 20, 10, id=2)
    builder.frame("odd; name", 40, 5, id=3)
    assert sorted(line.split(";", 1)[1] for line in folded(of(builder.build()), "cpu")) == [
        "<built-in method run of A object> 20",
        "odd: name 5",
    ]


def test_a_gpu_event_without_a_call_goes_by_its_operator() -> None:
    builder = TraceBuilder()
    builder.operator("aten::mm", 0, 10, external=4)
    builder.kernel("gemm", 20, 5, external=4)
    assert [line.split(";", 1)[1] for line in folded(of(builder.build()), "gpu")] == ["aten::mm;gemm 5"]


def test_nothing_and_gpu_work_alone() -> None:
    assert of(TraceBuilder().build()) == Stacks([], [], [], [], [], [], [])
    builder = TraceBuilder()
    builder.kernel("k", 0, 5)
    assert list(folded(of(builder.build()), "gpu")) == [f"{UNKNOWN};k 5"]


def wild(seed: int) -> TraceBuilder:
    """Frames, operators, calls and annotations at random, over each other in every way, with kernels."""
    chance, builder = random.Random(seed), TraceBuilder()
    for i in range(chance.randint(1, 120)):
        start, length, thread = chance.randint(0, 400), chance.choice([0, 1, 5, 60, 300]), chance.randint(0, 2)
        kind = chance.randint(0, 3)
        if kind == 0:
            builder.frame(f"f{chance.randint(0, 5)}", start, length, id=i, thread=thread)
        elif kind == 1:
            builder.operator(f"o{chance.randint(0, 5)}", start, length, thread=thread)
        elif kind == 2:
            builder.annotation(f"a{chance.randint(0, 5)}", start, length, thread=thread)
        else:
            builder.launch(
                f"k{chance.randint(0, 3)}", (start, length), (start + 5, chance.randint(0, 50)), thread=thread
            )
    return builder


def covered(trace: Trace) -> int:
    """Time in which a thread is in any span at all, over all threads."""
    moments: set[tuple[int, int]] = set()
    for table in (trace.annotations, trace.frames, trace.operators, trace.calls):
        for start, end, thread in zip(table.start.tolist(), table.end.tolist(), table.thread.tolist(), strict=True):
            moments.update((thread, at) for at in range(start, end))
    return len(moments)


@pytest.mark.parametrize("seed", range(40))
def test_no_time_is_lost_or_counted_twice(seed: int) -> None:
    """Where spans cross (no profiler means that) what sticks out of its parent is not counted: never too much."""
    trace = wild(seed).build()
    found = of(trace)
    assert sum(found.cpu_ns) <= covered(trace)
    assert min(found.cpu_ns, default=0) >= 0
    assert sum(found.gpu_ns) == int(trace.gpu.duration.sum())


@pytest.mark.parametrize("most", [1, 2, 5, 8])
def test_small_nodes_go_together_without_losing_time(most: int) -> None:
    whole, cut = of(model().build()), of(model().build(), most)
    assert (sum(cut.cpu_ns), sum(cut.gpu_ns)) == (sum(whole.cpu_ns), sum(whole.gpu_ns))
    assert sum(cut.names[name] != SMALLER for name in cut.name) <= most + 3
    assert all(-1 <= parent < node for node, parent in enumerate(cut.parent))


@needs_traces
@pytest.mark.parametrize(("path", "expected"), [pytest.param(p, e, id=i) for i, p, e in references()])
def test_real_traces(path: Any, expected: dict[str, Any]) -> None:
    trace = read(str(path))
    found = of(trace)
    assert sum(found.gpu_ns) == (expected.get("gpu_sum_all_durations") or 0)
    assert min(found.cpu_ns) >= 0
    lines = list(folded(found, "gpu"))
    assert len({line.rsplit(" ", 1)[0] for line in lines}) == len(lines)
