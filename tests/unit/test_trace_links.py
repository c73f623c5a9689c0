"""What launched what, in traces whose answers are known."""

from tests.tracebuilder import TraceBuilder
from warpmeter.analysis.breakdown import breakdown, devices, sorts
from warpmeter.analysis.kernels import Launcher, kernels
from warpmeter.analysis.launches import launches
from warpmeter.analysis.links import Links, links
from warpmeter.analysis.streams import streams
from warpmeter.analysis.trace import Trace


def called(trace: Trace, found: Links) -> dict[str, str | None]:
    """The call of each GPU event, by name."""
    return {
        trace.names[name]: trace.names[trace.calls.name[call]] if call >= 0 else None
        for name, call in zip(trace.gpu.name.tolist(), found.call.tolist(), strict=True)
    }


def operated(trace: Trace, found: Links) -> dict[str, str | None]:
    """The operator of each GPU event, by name."""
    return {
        trace.names[name]: trace.names[trace.operators.name[operator]] if operator >= 0 else None
        for name, operator in zip(trace.gpu.name.tolist(), found.operator.tolist(), strict=True)
    }


def test_a_kernel_belongs_to_the_innermost_operator_around_its_call() -> None:
    builder = TraceBuilder()
    builder.operator("aten::linear", 0, 100)
    builder.operator("aten::addmm", 10, 50)
    builder.launch("gemm", (20, 5), (200, 30))
    builder.launch("bias", (60, 5), (240, 10))
    builder.launch("elsewhere", (20, 5), (260, 10), thread=1)
    trace = builder.build()
    found = links(trace)

    assert operated(trace, found) == {"gemm": "aten::addmm", "bias": "aten::linear", "elsewhere": None}
    assert (found.operator_parent.tolist(), found.operator_depth.tolist()) == ([-1, 0], [0, 1])


def test_the_external_id_tells_where_the_place_does_not() -> None:
    builder = TraceBuilder()
    builder.operator("aten::mm", 0, 10, external=5)
    builder.operator("aten::add", 20, 10, external=6)
    builder.launch("late", (50, 5), (100, 10), external=5)
    builder.kernel("orphan", 200, 10, correlation=900, external=6)
    builder.call("cudaLaunchKernel", 300, 5, correlation=6, external=6)
    builder.kernel("old profiler", 400, 10, correlation=6, external=6)
    trace = builder.build()
    found = links(trace)

    assert operated(trace, found) == {"late": "aten::mm", "orphan": "aten::add", "old profiler": None}
    assert called(trace, found)["orphan"] is None


def test_of_calls_with_one_correlation_the_last_before_the_event_launched_it() -> None:
    builder = TraceBuilder()
    for name, start in (("cudaLaunchKernel", 0), ("cuLaunchKernel", 10), ("hipLaunchKernel", 500)):
        builder.call(name, start, 5, correlation=1)
    builder.kernel("after two", 50, 10, correlation=1)
    builder.kernel("at the third", 500, 10, correlation=1)
    builder.call("cudaLaunchKernel", 90, 5, correlation=2)
    builder.call("cuLaunchKernel", 95, 5, correlation=2)
    builder.kernel("before all", 80, 10, correlation=2)
    trace = builder.build()

    assert called(trace, links(trace)) == {
        "after two": "cuLaunchKernel",
        "at the third": "hipLaunchKernel",
        "before all": "cudaLaunchKernel",
    }
    assert launches(trace, links(trace)).duplicate_correlations == 3


def test_a_graph_launches_many_kernels_by_one_call() -> None:
    builder = TraceBuilder()
    builder.operator("CompiledFunction", 0, 50)
    graph = builder.call("cudaGraphLaunch", 10, 20)
    for place in range(4):
        builder.kernel(f"node{place}", 100 + 20 * place, 10, correlation=graph)
    trace = builder.build()
    found = launches(trace, links(trace))

    assert (found.matched, found.by_call[0].calls, found.by_call[0].gpu_events) == (4, 1, 4)
    assert found.from_end is not None
    assert (found.from_end.min_ns, found.from_end.max_ns) == (70, 130)
    assert (found.queues[0].max, found.queues[0].window_ns) == (4, 160)
    assert found.queues[0].mean == (90 + 110 + 130 + 150) / 160
    assert set(operated(trace, links(trace)).values()) == {"CompiledFunction"}


def test_a_kernel_that_begins_before_its_call_ends_or_even_begins() -> None:
    builder = TraceBuilder()
    builder.launch("during the call", (100, 20), (110, 5))
    builder.launch("before the call", (200, 20), (190, 5))
    trace = builder.build()
    found = launches(trace, links(trace))

    assert found.from_end is not None
    assert found.from_start is not None
    assert (found.from_end.negative, found.from_end.min_ns) == (2, -30)
    assert (found.from_start.negative, found.from_start.min_ns) == (1, -10)
    assert (found.queues[0].max, found.queues[0].empty_ns) == (1, 90)


def test_kernels_without_length_and_of_one_nanosecond() -> None:
    builder = TraceBuilder()
    for name, start, length in (("nothing", 0, 0), ("tick", 10, 1), ("tick", 11, 1), ("nothing", 20, 0)):
        builder.kernel(name, start, length)
    trace = builder.build()
    sort = sorts(trace.gpu, trace.names)

    whole = breakdown(trace.gpu, sort)
    assert (whole.gpu_events, whole.span_ns, whole.busy_ns, whole.idle_ns, whole.compute_ns) == (4, 20, 2, 18, 2)
    tick, nothing = kernels(trace, links(trace), sort)
    assert (tick.count, tick.total_ns, tick.min_ns, tick.max_ns, tick.share) == (2, 2, 1, 1, 1.0)
    assert (nothing.count, nothing.total_ns, nothing.share) == (2, 0, 0.0)
    assert streams(trace, links(trace), sort).streams[0].idle.idle_ns == 18


def test_a_trace_of_one_event_without_length_has_shares_of_nothing() -> None:
    builder = TraceBuilder()
    builder.launch("nothing", (5, 0), (5, 0))
    trace = builder.build()
    sort = sorts(trace.gpu, trace.names)

    assert breakdown(trace.gpu, sort).span_ns == 0
    assert kernels(trace, links(trace), sort)[0].share is None
    assert launches(trace, links(trace)).queues[0].mean is None


def test_several_devices_are_one_union_and_each_its_own() -> None:
    builder = TraceBuilder()
    builder.kernel("gemm", 0, 100, device=0)
    builder.kernel("ncclDevKernel_AllReduce", 50, 100, device=1)
    trace = builder.build()
    sort = sorts(trace.gpu, trace.names)

    whole = breakdown(trace.gpu, sort)
    assert (whole.busy_ns, whole.comm_compute_overlap_ns, whole.exposed_comm_ns) == (150, 50, 50)
    assert [one.totals.exposed_comm_ns for one in devices(trace.gpu, sort)] == [0, 100]
    assert [one.totals.busy_ns for one in devices(trace.gpu, sort)] == [100, 100]


def test_the_operators_of_a_kernel_come_by_their_time() -> None:
    builder = TraceBuilder()
    for start, name, length in ((0, "aten::mm", 10), (100, "aten::bmm", 70), (200, "aten::mm", 20)):
        builder.operator(name, start, 50)
        builder.launch("gemm", (start + 10, 5), (start + 20, length), occupancy_percent=length)
    trace = builder.build()
    (gemm,) = kernels(trace, links(trace), sorts(trace.gpu, trace.names))

    assert gemm.operators == (Launcher("aten::bmm", 1, 70), Launcher("aten::mm", 2, 30))
    assert gemm.occupancy is not None
    assert abs(gemm.occupancy - (0.10 * 10 + 0.70 * 70 + 0.20 * 20) / 100) < 1e-6


def test_a_gap_waits_for_the_host_when_the_call_came_after_the_stream_ran_dry() -> None:
    builder = TraceBuilder()
    builder.launch("first", (0, 10), (20, 100))
    builder.launch("host wait", (200, 10), (50_000, 100))
    builder.launch("kernel wait", (300, 10), (50_200, 100))
    builder.launch("other", (400, 10), (80_300, 100))
    builder.kernel("unknown launch", 80_450, 10)
    trace = builder.build()
    (one,) = streams(trace, links(trace), sorts(trace.gpu, trace.names)).streams

    assert (one.idle.host_wait_gaps, one.idle.host_wait_ns) == (1, 50_000 - 120)
    assert (one.idle.kernel_wait_gaps, one.idle.kernel_wait_ns) == (2, 100 + 50)
    assert (one.idle.other_gaps, one.idle.other_ns) == (1, 30_000)
