"""Which operators count, in any nesting, against an oracle that looks at each operator and each kernel by itself."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tracebuilder import TraceBuilder
from warpmeter.analysis.flops import cost
from warpmeter.analysis.links import Links, links
from warpmeter.analysis.roofline import roofline
from warpmeter.analysis.trace import Kind, Trace
from warpmeter.analysis.windows import windows

NAMES = ("aten::linear", "aten::addmm", "aten::mm", "aten::add", "aten::matmul")


@st.composite
def traces(draw: st.DrawFn) -> TraceBuilder:
    """Nested operators, known and not, with sizes and without, and kernels launched anywhere or nowhere."""
    builder = TraceBuilder()
    builder.device(0, "NVIDIA A100-SXM4-80GB")
    for number in range(draw(st.integers(0, 2))):
        builder.step(number, 500 * number, 500)
    spans = [(draw(st.integers(0, 900)), draw(st.integers(1, 200)), draw(st.integers(0, 1))) for _ in range(12)]
    for start, length, thread in draw(st.lists(st.sampled_from(spans), max_size=10)):
        name = draw(st.sampled_from(NAMES))
        rows = draw(st.integers(1, 3))
        dims = draw(st.sampled_from([None, [[rows, 4], [4, 4]], [[4], [rows, 4], [4, 4]], [[rows, 4], [5, 4]]]))
        types = [draw(st.sampled_from(["float", "c10::BFloat16"]))] * 3
        builder.operator(name, start, length, thread=thread, dims=dims, types=types if dims else None)
    for _ in range(draw(st.integers(0, 10))):
        call = (draw(st.integers(0, 1_000)), 1)
        kernel = (draw(st.integers(0, 2_000)), draw(st.integers(0, 50)))
        thread = draw(st.integers(0, 1))
        if draw(st.booleans()):
            builder.launch(draw(st.sampled_from(["gemm", "add"])), call, kernel, thread=thread)
        else:
            builder.copy(*kernel, correlation=builder.call("cudaMemcpyAsync", *call, thread=thread))
    return builder


class Oracle:
    """FLOPs and kernel time of each operator, one after the other."""

    def __init__(self, trace: Trace, joined: Links) -> None:
        self.trace, self.joined = trace, joined
        self.costs = [self.cost(i) for i in range(len(trace.operators))]
        count = range(len(trace.operators))
        self.counted = [
            i
            for i in count
            if self.costs[i] and not any(self.costs[j] and i in self.around(j) for j in count if j != i)
        ]

    def cost(self, i: int) -> int:
        place = int(self.trace.operators.inputs[i])
        known = (
            cost(self.trace.names[int(self.trace.operators.name[i])], self.trace.inputs[place]) if place >= 0 else None
        )
        return known.flops if known is not None else 0

    def around(self, i: int) -> set[int]:
        found = set()
        while (i := int(self.joined.operator_parent[i])) >= 0:
            found.add(i)
        return found

    def kernels(self, i: int) -> list[int]:
        below = {j for j in range(len(self.costs)) if j == i or i in self.around(j)}
        events = range(len(self.trace.gpu))
        return [g for g in events if int(self.joined.operator[g]) in below and self.trace.gpu.kind[g] == Kind.KERNEL]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(traces())
def test_any_nesting_counts_each_product_once(builder: TraceBuilder) -> None:
    trace = builder.build()
    joined = links(trace)
    steps = windows(trace, joined)
    whole = roofline(trace, joined, steps)
    oracle = Oracle(trace, joined)
    ran = [i for i in oracle.counted if oracle.kernels(i)]
    assert (whole.flops or 0) == sum(oracle.costs[i] for i in ran)
    assert (whole.flops is None) == (not ran)
    assert whole.unlaunched_flops == sum(oracle.costs[i] for i in oracle.counted if i not in ran)
    assert whole.gpu_ns == sum(int(trace.gpu.duration[g]) for i in ran for g in oracle.kernels(i))
    assert sum(row.count for row in whole.operators) == len(oracle.counted)
    assert sum(row.flops for row in whole.operators) == sum(oracle.costs[i] for i in oracle.counted)
    for step, row in enumerate(whole.steps):
        mine = [i for i in ran if int(steps.of_gpu[oracle.kernels(i)[0]]) == step]
        assert (row.flops or 0) == sum(oracle.costs[i] for i in mine)
