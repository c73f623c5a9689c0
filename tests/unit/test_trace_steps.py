"""Steps: which GPU work is whose, what each figure is, and what repeats in a trace that nobody marked."""

import random
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from tests.tracebuilder import TraceBuilder
from tests.traces import needs_traces, references
from warpmeter.analysis.breakdown import breakdown, sorts
from warpmeter.analysis.links import links
from warpmeter.analysis.read import read
from warpmeter.analysis.steps import StepReport, steps
from warpmeter.analysis.trace import Trace
from warpmeter.analysis.windows import Windows, windows


def found(trace: Trace) -> Windows:
    return windows(trace, links(trace))


def report(trace: Trace) -> StepReport:
    joined = links(trace)
    return steps(trace, joined, windows(trace, joined))


def two_steps() -> TraceBuilder:
    """Step 7 launches three kernels, the last of which runs in step 8's window; step 8 has one of its own."""
    builder = TraceBuilder()
    builder.step(7, 0, 1000)
    builder.step(8, 1010, 990)
    builder.launch("gemm", (100, 10), (150, 200))
    builder.launch("ncclDevKernel_AllReduce", (300, 10), (320, 100), stream=9)
    builder.launch("late", (900, 10), (1100, 400))
    builder.launch("gemm", (1200, 10), (1600, 500))
    builder.call("cudaDeviceSynchronize", 1700, 350)
    builder.operator("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 20, 60)
    return builder


def test_work_belongs_to_the_step_that_launched_it() -> None:
    first, second = report(two_steps().build()).steps
    assert (first.name, first.number, first.start_ns, first.duration_ns, first.period_ns) == (
        "ProfilerStep#7",
        7,
        0,
        1000,
        1010,
    )
    assert (first.work.gpu_events, first.work.start_ns, first.work.span_ns) == (3, 150, 1350)
    assert (first.work.busy_ns, first.work.idle_ns) == (200 + 70 + 400, 1350 - 670)
    assert (first.work.compute_ns, first.work.comm_ns, first.work.exposed_comm_ns) == (600, 100, 70)
    assert (first.lead_ns, first.tail_ns, first.earlier_ns) == (150, 500, 0)
    assert (second.work.gpu_events, second.work.busy_ns, second.period_ns) == (1, 500, None)
    assert (second.lead_ns, second.tail_ns) == (590, 100)


def test_a_window_has_what_ran_in_it_for_whomever() -> None:
    first, second = report(two_steps().build()).steps
    assert (first.during.busy_ns, first.during.idle_ns, first.during.span_ns) == (270, 730, 1000)
    assert (second.during.busy_ns, second.during.idle_ns) == (400 + 400, 190)
    assert second.earlier_ns == 400


def test_what_the_host_did_in_a_step() -> None:
    first, second = report(two_steps().build()).steps
    assert (first.operators, first.launches, first.wait_ns, first.input_ns) == (1, 3, 0, 60)
    assert (second.operators, second.launches, second.wait_ns, second.input_ns) == (0, 1, 300, 0)


def test_spread_names_the_extremes() -> None:
    spread = {each.figure: each for each in report(two_steps().build()).spread}
    assert (spread["duration_ns"].min, spread["duration_ns"].max, spread["duration_ns"].mean) == (990, 1000, 995.0)
    assert (spread["duration_ns"].p50, spread["duration_ns"].deviation) == (990, 5.0)
    assert (spread["work.busy_ns"].least, spread["work.busy_ns"].most) == ("ProfilerStep#8", "ProfilerStep#7")
    assert spread["period_ns"].steps == 1


def test_without_launches_the_stream_tells() -> None:
    builder = TraceBuilder()
    builder.step(1, 1000, 1000)
    builder.step(2, 2000, 1000)
    builder.kernel("before the recording", 1100, 50)
    builder.launch("known", (1200, 10), (1300, 50))
    builder.kernel("after it", 2100, 50)
    builder.kernel("stream that says nothing", 2200, 50, stream=8)
    builder.operator("aten::mm", 2500, 100, external=5)
    builder.kernel("by its operator", 3300, 50, external=5, stream=9)
    trace = builder.build()
    by_name = dict(zip((trace.names[name] for name in trace.gpu.name), found(trace).of_gpu.tolist(), strict=True))
    assert by_name == {
        "before the recording": -1,
        "known": 0,
        "after it": 0,
        "stream that says nothing": 1,
        "by its operator": 1,
    }
    assert (report(trace).outside_events, report(trace).outside_ns) == (1, 50)


def test_launches_between_steps_are_no_steps() -> None:
    builder = TraceBuilder()
    builder.step(1, 0, 100)
    builder.step(2, 200, 100)
    builder.launch("between", (150, 10), (160, 30))
    assert found(builder.build()).of_gpu.tolist() == [-1]


def test_a_step_on_two_threads_is_counted_once_and_one_without_work_has_no_figures() -> None:
    builder = TraceBuilder()
    builder.step(1, 0, 100)
    builder.step(1, 5, 90, thread=1)
    builder.step(2, 100, 100)
    builder.launch("k", (10, 1), (20, 5))
    first, second = report(builder.build()).steps
    assert (first.work.busy_ns, second.work.busy_ns, second.work.gpu_events) == (5, None, 0)
    assert (second.lead_ns, second.tail_ns, second.earlier_ns, second.during.busy_ns) == (None, None, 0, 0)


def test_no_gpu_and_nothing_at_all() -> None:
    assert report(TraceBuilder().build()) == StepReport("", "", [], [], 0, 0)
    builder = TraceBuilder()
    builder.step(3, 0, 100)
    (step,) = report(builder.build()).steps
    assert (step.work.busy_ns, step.during.busy_ns, step.wait_ns, step.input_ns) == (None, None, None, None)


def test_old_profilers_write_steps_as_operators() -> None:
    builder = TraceBuilder()
    builder.operator("ProfilerStep#4", 0, 100)
    assert found(builder.build()).numbers == (4,)


def with_kernels(builder: TraceBuilder, starts: list[int], names: str = "abc") -> TraceBuilder:
    for start in starts:
        for i, name in enumerate(names):
            builder.launch(name, (start + 10 * i, 5), (start + 10 * i + 6, 4))
    return builder


def test_ranges_of_the_program_that_repeat() -> None:
    builder = with_kernels(TraceBuilder(), [10, 110, 210])
    builder.annotation("epoch 0", 0, 400)
    for i in range(3):
        builder.annotation(f"execute_context_{i}(88_{i})", 100 * i, 90)
        builder.annotation("## forward ##", 100 * i + 5, 20)
    steps = found(builder.build())
    assert (steps.source, steps.label) == ("annotation", "execute_context_#(#_#)")
    assert steps.start.tolist() == [0, 100, 200]
    assert steps.of_gpu.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_a_range_that_holds_part_of_the_launches_is_no_step() -> None:
    builder = with_kernels(TraceBuilder(), [10, 110, 210])
    for i in range(3):
        builder.annotation("## forward ##", 100 * i, 25)
    assert found(builder.build()).source == ""


def test_between_optimizer_steps_those_without_a_backward_between_them_are_one() -> None:
    builder = TraceBuilder()
    for i in range(4):
        builder.operator("autograd::engine::evaluate_function: MmBackward0", 100 * i + 10, 10, thread=1)
        builder.annotation("Optimizer.step#Adam.step", 100 * i + 30, 20)
        builder.annotation("Optimizer.step#SGD.step", 100 * i + 60, 20)
    steps = found(builder.build())
    assert (steps.source, steps.label) == ("optimizer", "Optimizer.step#Adam.step")
    assert (steps.start.tolist(), steps.end.tolist()) == ([80, 180, 280], [180, 280, 380])


def test_between_fetches_of_the_data_loader() -> None:
    builder = TraceBuilder()
    for i in range(3):
        builder.operator("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100 * i, 30)
    steps = found(builder.build())
    assert (steps.source, steps.start.tolist(), steps.numbers) == ("loader", [0, 100], (0, 1))


def test_calls_of_the_model() -> None:
    builder = with_kernels(TraceBuilder(), [10, 110, 210])
    for i in range(3):
        builder.frame("nn.Module: Llama_0", 100 * i, 60, id=3 * i + 1)
        builder.frame("nn.Module: Embedding_0", 100 * i + 2, 10, id=3 * i + 2, parent=3 * i + 1)
        builder.frame("nn.Module: Sampler_0", 100 * i + 70, 10, id=3 * i + 3)
    steps = found(builder.build())
    assert (steps.source, steps.label) == ("module", "Llama_0")
    assert (steps.start.tolist(), steps.end.tolist()) == ([0, 100, 200], [60, 160, 260])
    with_kernels(builder, [70, 170, 270])
    steps = found(builder.build())
    assert (steps.start.tolist(), steps.end.tolist()) == ([0, 100], [100, 200])


def iterations(count: int, *, copies: bool) -> TraceBuilder:
    """Each: an embedding, eight layers of three kernels, a head; copies of input before it where wanted."""
    builder, at = TraceBuilder(), 0
    for _ in range(count):
        at += 500
        if copies:
            call = builder.call("cudaMemcpyAsync", at - 20, 5)
            builder.copy(at - 14, 3, correlation=call)
        for name in ["embed", *["norm", "gemm", "gelu"] * 8, "head", "softmax"]:
            builder.launch(name, (at, 5), (at + 7, 6))
            at += 20
    return builder


def test_a_sequence_of_kernels_that_repeats() -> None:
    steps = found(iterations(6, copies=True).build())
    assert (steps.source, steps.label, len(steps)) == ("kernels", "embed", 5)
    assert steps.start.tolist() == [500 + i * (500 + 27 * 20) for i in range(5)]


def test_layers_are_no_steps() -> None:
    assert found(iterations(6, copies=False).build()).source == ""


def scattered(seed: int) -> TraceBuilder:
    """Steps with work on several streams and devices that runs on into later steps, some of it without a launch."""
    chance, builder = random.Random(seed), TraceBuilder()
    for i in range(chance.randint(1, 6)):
        builder.step(i, 1000 * i + chance.randint(0, 20), 900 + chance.randint(0, 80))
    for _ in range(chance.randint(0, 60)):
        called, delay = chance.randint(0, 6500), chance.randint(0, 3000)
        name = chance.choice(["gemm", "ncclKernel_AllReduce", "gelu"])
        more = {"stream": chance.randint(1, 3), "device": chance.randint(0, 1)}
        length = chance.choice([0, 1, 40, 900])
        if chance.random() < 0.8:
            builder.launch(name, (called, 5), (called + delay, length), **more)
        else:
            builder.kernel(name, called + delay, length, **more)
    return builder


@pytest.mark.parametrize("seed", range(40))
def test_figures_of_a_step_are_those_of_its_events_alone(seed: int) -> None:
    trace = scattered(seed).build()
    found_, sort = found(trace), sorts(trace.gpu, trace.names)
    for i, step in enumerate(report(trace).steps):
        own = np.flatnonzero(found_.of_gpu == i)
        alone = breakdown(trace.gpu.take(own), sort[own])
        assert asdict(step.work) == asdict(alone)
        busy: set[int] = set()
        others: set[int] = set()
        for event in range(len(trace.gpu)):
            start = int(trace.gpu.start[event])
            ran = range(max(start, step.start_ns), min(int(trace.gpu.end[event]), step.start_ns + step.duration_ns))
            (busy if found_.of_gpu[event] == i else others).update(ran)
        assert step.during.busy_ns == (len(busy | others) if len(trace.gpu) else None)
        assert step.earlier_ns == (len(others - busy) if len(trace.gpu) else None)


@needs_traces
@pytest.mark.parametrize(("path", "expected"), [pytest.param(p, e, id=i) for i, p, e in references()])
def test_profiler_steps_of_real_traces(path: Any, expected: dict[str, Any]) -> None:
    trace = read(str(path))
    marked = {step.name: (step.start_ns, step.duration_ns) for step in report(trace).steps if step.number is not None}
    assert marked == {name: (step["start"], step["dur"]) for name, step in expected["profiler_steps"].items()}
    assert report(trace).steps, "every reference trace has a step, marked or found"
