"""Critical paths of any trace: what always holds, and the same figures as the slow oracle's."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.paths import Oracle, check, found
from tests.tracebuilder import TraceBuilder
from warpmeter.analysis.critical import critical_path
from warpmeter.analysis.links import links
from warpmeter.analysis.windows import windows

KERNELS = ("gemm", "add", "ncclDevKernel_AllReduce")
CALLS = ("cudaDeviceSynchronize", "cudaStreamWaitEvent", "cudaEventRecord", "cudaMalloc")
BACKWARD = "autograd::engine::evaluate_function: MulBackward0"
times = st.integers(0, 300)
lengths = st.integers(0, 60)


@st.composite
def traces(draw: st.DrawFn) -> TraceBuilder:
    """Launches, lost launches, copies, waits and operators on two threads of each sort, in any order and overlap."""
    builder = TraceBuilder()
    for number in range(draw(st.integers(0, 3))):
        builder.step(number, 100 * number, draw(st.integers(1, 100)), thread=draw(st.sampled_from([0, 0, 3])))
    for _ in range(draw(st.integers(0, 8))):
        call = (draw(times), draw(lengths))
        start = draw(st.one_of(times, st.integers(call[0], call[0] + 50)))
        place = {"stream": draw(st.sampled_from([7, 20])), "device": draw(st.sampled_from([0, 0, 0, 1]))}
        what = draw(st.sampled_from(["launch", "launch", "launch", "graph", "copy", "lost"]))
        thread = draw(st.sampled_from([0, 0, 1, 2]))
        if what == "launch":
            name = draw(st.sampled_from(KERNELS))
            builder.launch(name, call, (start, draw(lengths)), thread=thread, **place)
        elif what == "graph":
            graph = builder.call("cudaGraphLaunch", *call, thread=thread)
            for _ in range(draw(st.integers(2, 3))):
                stream = draw(st.sampled_from([7, 20]))
                builder.kernel("add", draw(times), draw(lengths), stream=stream, correlation=graph)
        elif what == "copy":
            correlation = builder.call("cudaMemcpyAsync", *call, thread=thread)
            builder.copy(start, draw(lengths), correlation=correlation, stream=place["stream"], device=place["device"])
        else:
            builder.kernel(draw(st.sampled_from(KERNELS)), start, draw(lengths), **place)
    for _ in range(draw(st.integers(0, 5))):
        builder.call(draw(st.sampled_from(CALLS)), draw(times), draw(lengths), thread=draw(st.sampled_from([0, 1, 2])))
    for _ in range(draw(st.sampled_from([0, 0, 1, 3]))):
        between_streams(draw, builder)
    for _ in range(draw(st.integers(0, 5))):
        thread = draw(st.sampled_from([0, 1, 2]))
        builder.operator(BACKWARD if thread == 2 else "aten::mul", draw(times), draw(lengths), thread=thread)
    return builder


def between_streams(draw: st.DrawFn, builder: TraceBuilder) -> None:
    """A stream waits for what was recorded on another, and the profiler says so."""
    record = builder.call("cudaEventRecord", draw(times), 1)
    wait = builder.call("cudaStreamWaitEvent", draw(times), 1)
    stream, other = draw(st.sampled_from([(7, 20), (20, 7), (7, 7)]))
    builder.wait("Stream Wait Event", 0, 1, stream=stream, correlation=wait, on_stream=other, on_correlation=record)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(traces())
def test_any_path_is_whole(builder: TraceBuilder) -> None:
    check(found(builder.build()))


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(traces())
def test_any_path_is_the_oracles(builder: TraceBuilder) -> None:
    trace = builder.build()
    joined = links(trace)
    steps = windows(trace, joined)
    paths = critical_path(trace, joined, steps).steps
    if not len(steps):
        return
    oracle, done = Oracle(trace, joined), None
    for step, path in enumerate(paths):
        start, end, sums = oracle.walk(steps, step, done)
        done = end if done is None else max(done, end)
        assert (path.start_ns, path.end_ns) == (start, end)
        assert {category: ns for category, ns in path.by_category.items() if ns} == sums, path.name
