"""The critical path: chains whose every nanosecond is known, real traces, and any trace at all beside an oracle."""

from pathlib import Path

import msgspec
import pytest

from tests.paths import check, found
from tests.tracebuilder import TraceBuilder
from tests.traces import needs_traces, references
from warpmeter.analysis.critical import CriticalPath
from warpmeter.analysis.read import read


def rows(path: CriticalPath) -> list[tuple[str, str, int, int]]:
    return [(part.category, part.name, part.start_ns, part.duration_ns) for part in path.parts]


def categories(path: CriticalPath, step: int = 0) -> dict[str, int]:
    return {category: ns for category, ns in path.steps[step].by_category.items() if ns}


def waiting_step() -> TraceBuilder:
    """A step that launches one kernel and waits for it: 100 ns until the launch, 50 of launching, 200 of work."""
    builder = TraceBuilder()
    builder.step(1, 0, 1_000)
    builder.operator("aten::mul", 90, 25)
    builder.launch("mul", (100, 10), (150, 200))
    builder.operator("aten::item", 118, 250)
    builder.call("cudaStreamSynchronize", 120, 240)
    return builder


def test_a_step_that_waits_for_its_kernel() -> None:
    path = found(waiting_step().build())
    assert rows(path) == [
        ("host", "outside operators", 0, 90),
        ("host", "aten::mul", 90, 10),
        ("launch", "cudaLaunchKernel", 100, 50),
        ("computation", "mul", 150, 200),
        ("sync", "cudaStreamSynchronize", 350, 10),
        ("host", "aten::item", 360, 8),
        ("host", "outside operators", 368, 632),
    ]
    assert categories(path) == {"host": 740, "launch": 50, "computation": 200, "sync": 10}
    assert (path.step, path.steps[0].length_ns, path.launch_latency_ns) == ("ProfilerStep#1", 1_000, 50)
    launch, kernel, sync = path.parts[2:5]
    assert (launch.thread, launch.stream, kernel.thread, kernel.device, kernel.stream) == (0, None, None, 0, 7)
    assert (sync.thread, sync.stream) == (0, None)


def test_what_would_shorten_it_most() -> None:
    path = found(waiting_step().build())
    first, second = path.shorten[:2]
    # 722 ns outside operators; the stream needs 200 ns in any case, so that all of it could go.
    assert (first.category, first.name, first.count, first.path_ns) == ("host", "outside operators", 2, 722)
    assert first.saves_at_most_ns == 722
    assert first.share == pytest.approx(0.722)
    assert (second.category, second.name, second.saves_at_most_ns) == ("computation", "mul", 200)
    assert [(whole.category, whole.path_ns) for whole in path.categories] == [
        ("host", 740),
        ("computation", 200),
        ("launch", 50),
        ("sync", 10),
    ]


def test_the_busiest_stream_limits_what_can_be_saved() -> None:
    """The copy on another stream takes 900 of 1,000 ns: nothing else can save more than 100."""
    builder = waiting_step()
    builder.copy(20, 900, stream=8, correlation=builder.call("cudaMemcpyAsync", 5, 1))
    path = found(builder.build())
    assert path.shorten[0].path_ns > 600
    assert {group.saves_at_most_ns for group in path.shorten if group.path_ns > 100} == {100}


def queued_step() -> TraceBuilder:
    """The host runs ahead: three kernels launched within 60 ns, which run one after another."""
    builder = TraceBuilder()
    builder.step(1, 0, 100)
    builder.launch("a", (10, 5), (40, 200))
    builder.launch("b", (30, 5), (243, 100))
    builder.launch("c", (50, 5), (345, 80))
    return builder


def test_a_host_that_runs_ahead_is_off_the_path() -> None:
    path = found(queued_step().build())
    assert rows(path) == [
        ("host", "outside operators", 0, 10),
        ("launch", "cudaLaunchKernel", 10, 30),
        ("computation", "a", 40, 200),
        ("gpu_wait", "between dependent events", 240, 3),
        ("computation", "b", 243, 100),
        ("gpu_wait", "between dependent events", 343, 2),
        ("computation", "c", 345, 80),
    ]
    # The step is done when its last kernel is.
    assert (path.steps[0].end_ns, path.steps[0].length_ns) == (425, 425)


def test_a_launch_that_came_too_late_is_on_the_path_though_its_call_began_before() -> None:
    """The second launch begins 10 ns before the first kernel ends, but a launch takes 30."""
    builder = TraceBuilder()
    builder.step(1, 0, 150)
    builder.launch("a", (10, 5), (40, 100))
    builder.launch("b", (130, 5), (160, 100))
    path = found(builder.build())
    assert path.launch_latency_ns == 30
    assert categories(path) == {"host": 130, "launch": 30, "computation": 100}


def two_streams(*, told: bool) -> TraceBuilder:
    """A gradient is made on stream 7, reduced on stream 20, used on stream 7: each waits for the other's event."""
    builder = TraceBuilder()
    builder.step(1, 0, 100)
    builder.launch("gradient", (10, 2), (40, 300))
    record = builder.call("cudaEventRecord", 13, 1)
    wait = builder.call("cudaStreamWaitEvent", 15, 1)
    builder.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", (17, 2), (345, 400), stream=20)
    back = builder.call("cudaEventRecord", 20, 1)
    again = builder.call("cudaStreamWaitEvent", 22, 1)
    builder.launch("update", (24, 2), (750, 50))
    if told:
        builder.wait("Stream Wait Event", 15, 1, stream=20, correlation=wait, on_stream=7, on_correlation=record)
        builder.wait("Stream Wait Event", 22, 1, stream=7, correlation=again, on_stream=20, on_correlation=back)
    return builder


@pytest.mark.parametrize("told", [True, False])
def test_events_between_streams(told: bool) -> None:
    """With the profiler's sync events, and from the calls alone."""
    path = found(two_streams(told=told).build())
    assert [(category, start, ns) for category, _, start, ns in rows(path)] == [
        ("host", 0, 10),
        ("launch", 10, 30),
        ("computation", 40, 300),
        ("gpu_wait", 340, 5),
        ("communication", 345, 400),
        ("gpu_wait", 745, 5),
        ("computation", 750, 50),
    ]


def test_streams_that_do_not_wait_for_each_other() -> None:
    """The collective ends just before the last kernel begins, but that one had waited for its own stream alone."""
    builder = TraceBuilder()
    builder.step(1, 0, 100)
    builder.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", (5, 2), (38, 300), stream=20)
    builder.launch("a", (10, 2), (40, 299))
    builder.launch("b", (20, 2), (340, 50))
    path = found(builder.build())
    assert categories(path) == {"host": 10, "launch": 30, "computation": 349, "gpu_wait": 1}


def test_an_idle_stream_that_begins_when_another_ends_waited_for_it() -> None:
    """No call tells, but it had been launched 400 ns before and its stream was idle."""
    builder = TraceBuilder()
    builder.step(1, 0, 100)
    builder.launch("a", (10, 2), (40, 30))
    builder.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", (20, 2), (50, 500), stream=20)
    builder.launch("b", (30, 2), (555, 50))
    path = found(builder.build())
    assert categories(path) == {"host": 20, "launch": 30, "communication": 500, "gpu_wait": 5, "computation": 50}


def test_branches_of_a_graph() -> None:
    """One launch, two streams: the second stream's kernel begins when the first's has ended, the last one likewise."""
    builder = TraceBuilder()
    builder.step(1, 0, 100)
    builder.launch("before", (0, 2), (30, 20))
    graph = builder.call("cudaGraphLaunch", 20, 5)
    builder.kernel("a", 52, 100, stream=7, correlation=graph)
    builder.kernel("b", 153, 100, stream=9, correlation=graph)
    builder.kernel("c", 254, 100, stream=7, correlation=graph)
    path = found(builder.build())
    assert [(part.name, part.start_ns) for part in path.parts if part.category == "computation"] == [
        ("a", 52),
        ("b", 153),
        ("c", 254),
    ]
    assert categories(path) == {"host": 20, "launch": 32, "computation": 300, "gpu_wait": 2}


def test_the_backward_threads_work_is_the_paths() -> None:
    builder = TraceBuilder()
    builder.step(1, 0, 1_000)
    builder.operator("aten::mse_loss", 100, 50)
    builder.operator("autograd::engine::evaluate_function: MulBackward0", 200, 300, thread=1)
    builder.operator("MulBackward0", 210, 280, thread=1)
    builder.operator("aten::add_", 520, 100)
    path = found(builder.build())
    assert [(part.category, part.name, part.start_ns, part.duration_ns, part.thread) for part in path.parts] == [
        ("host", "outside operators", 0, 100, 0),
        ("host", "aten::mse_loss", 100, 50, 0),
        ("handover", "work coming over to another thread", 150, 50, 1),
        ("host", "autograd::engine::evaluate_function: MulBackward0", 200, 10, 1),
        ("host", "MulBackward0", 210, 280, 1),
        ("host", "autograd::engine::evaluate_function: MulBackward0", 490, 10, 1),
        ("handover", "work coming over to another thread", 500, 20, 0),
        ("host", "aten::add_", 520, 100, 0),
        ("host", "outside operators", 620, 380, 0),
    ]


def test_other_threads_do_not_take_over() -> None:
    builder = TraceBuilder()
    builder.step(1, 0, 1_000)
    builder.operator("aten::mul", 100, 50)
    builder.operator("aten::pin_memory", 200, 300, thread=1)
    builder.operator("aten::add_", 520, 100)
    path = found(builder.build())
    assert {part.thread for part in path.parts} == {0}
    assert categories(path) == {"host": 1_000}


def test_threads_that_watch_over_collectives_are_not_the_steps() -> None:
    """They call the runtime all the time, last of all before the step ends."""
    builder = TraceBuilder()
    builder.launch("before", (0, 5), (20, 10))
    for number in range(3):
        builder.operator("Optimizer.step#SGD.step", 100 * number + 50, 20)
        builder.call("cudaEventQuery", 100 * number + 69, 1, thread=1)
    path = found(builder.build())
    assert len(path.steps) == 2
    assert {part.thread for part in path.parts} == {0}


def test_a_step_whose_annotation_has_another_threads_number() -> None:
    builder = TraceBuilder()
    builder.step(1, 0, 100, thread=5)
    builder.operator("aten::mul", 20, 30)
    path = found(builder.build())
    assert [part.name for part in path.parts] == ["outside operators", "aten::mul", "outside operators"]


def test_a_copy_to_the_host_is_waited_for() -> None:
    """`item()`: the copying call returns after its copy has ended, which waited for the kernel before it."""
    builder = TraceBuilder()
    builder.step(1, 0, 600)
    builder.launch("a", (10, 5), (40, 300))
    builder.copy(345, 10, kind="DtoH (Device -> Pageable)", correlation=builder.call("cudaMemcpyAsync", 20, 350))
    path = found(builder.build())
    assert rows(path)[2:] == [
        ("computation", "a", 40, 300),
        ("gpu_wait", "between dependent events", 340, 5),
        ("memory", "Memcpy DtoH (Device -> Pageable)", 345, 10),
        ("sync", "cudaMemcpyAsync", 355, 15),
        ("host", "outside operators", 370, 230),
    ]


def test_annotations_say_where_the_host_was_outside_operators() -> None:
    builder = TraceBuilder()
    builder.step(1, 0, 500)
    builder.annotation("Optimizer.step#Adam.step", 100, 300)
    builder.operator("aten::add_", 200, 50)
    assert [row[1:] for row in rows(found(builder.build()))] == [
        ("outside operators", 0, 100),
        ("outside operators, in Optimizer.step#Adam.step", 100, 100),
        ("aten::add_", 200, 50),
        ("outside operators, in Optimizer.step#Adam.step", 250, 150),
        ("outside operators", 400, 100),
    ]


def test_steps_do_not_share_time() -> None:
    """The GPU is a step behind: each step's path begins when all before it was done."""
    builder = TraceBuilder()
    for number in range(3):
        builder.step(number, 100 * number, 100)
        builder.launch("work", (100 * number + 10, 5), (50 + 500 * number, 500))
    path = found(builder.build())
    assert [(step.start_ns, step.end_ns) for step in path.steps] == [(0, 550), (550, 1_050), (1_050, 1_550)]
    assert categories(path, 0) == {"host": 10, "launch": 40, "computation": 500}
    assert categories(path, 1) == categories(path, 2) == {"computation": 500}
    assert path.step == "ProfilerStep#2"  # of median length


def test_a_launch_that_the_trace_lacks() -> None:
    builder = TraceBuilder()
    builder.step(1, 0, 1_000)
    builder.kernel("lost", 600, 500)
    path = found(builder.build())
    assert categories(path) == {"unknown": 600, "computation": 500}


def test_events_over_each_other_and_without_length() -> None:
    """Clocks of a stream's events may overlap by some ns: the path has every moment once."""
    builder = TraceBuilder()
    builder.step(1, 0, 50)
    builder.launch("a", (10, 5), (40, 100))
    builder.launch("b", (20, 5), (135, 100))
    builder.launch("nothing", (30, 5), (230, 0))
    builder.launch("c", (40, 5), (230, 100))
    path = found(builder.build())
    assert [(row[1], row[2], row[3]) for row in rows(path)][2:] == [("a", 40, 95), ("b", 135, 95), ("c", 230, 100)]


def test_without_steps_the_whole_trace_has_one_path() -> None:
    builder = TraceBuilder()
    builder.launch("a", (10, 5), (40, 100))
    path = found(builder.build())
    assert (path.step, len(path.steps), path.steps[0].name) == (None, 1, "")
    assert (path.steps[0].start_ns, path.steps[0].end_ns) == (10, 140)
    assert categories(path) == {"launch": 30, "computation": 100}


def test_traces_with_hardly_anything() -> None:
    builder = TraceBuilder()
    builder.step(1, 0, 100)
    assert categories(found(builder.build())) == {"host": 100}
    builder = TraceBuilder()
    builder.operator("aten::add", 5, 10)
    assert categories(found(builder.build())) == {"host": 10}
    builder = TraceBuilder()
    builder.kernel("a", 5, 10)
    assert categories(found(builder.build())) == {"computation": 10}
    builder = TraceBuilder()
    builder.counter("c", 5, {"a": 1})
    assert found(builder.build()).steps == []


def test_the_result_is_plain() -> None:
    path = found(two_streams(told=True).build())
    assert msgspec.json.decode(msgspec.json.encode(path), type=CriticalPath) == path


@needs_traces
@pytest.mark.parametrize("file", [pytest.param(path, id=name) for name, path, _ in references()])
def test_real_paths_add_up(file: Path) -> None:
    path = found(read(str(file)))
    check(path)
    assert path.steps


@needs_traces
def test_real_steps_are_bound_by_what_they_are_known_to_be_bound_by() -> None:
    """A synchronised forward pass on an H100 computes; eager vLLM on a B200 and a small DDP model wait for the host."""
    paths = {name.rsplit("-", 1)[0]: found(read(str(path))) for name, path, _ in references()}
    shares = {name: {each.category: each.share for each in path.categories} for name, path in paths.items()}
    assert shares["tl_h100_qwen"]["computation"] > 0.85
    assert shares["hta_ns_resolution"]["computation"] > 0.95
    assert shares["tl_b200_vllm_eager"]["host"] > 0.99
    assert shares["hta_nccl_parser_config"]["host"] > 0.95
    assert paths["tl_h100_qwen"].launch_latency_ns == 6_769
