"""Modules: their place in the model, own time and that of modules in them, the backward pass brought home."""

import pytest

from tests.tracebuilder import TraceBuilder
from tests.traces import FOLDER, needs_traces
from warpmeter.analysis.links import links
from warpmeter.analysis.modules import ModuleTimes, module_times
from warpmeter.analysis.read import read
from warpmeter.analysis.trace import Trace


def of(trace: Trace) -> ModuleTimes:
    found = module_times(trace, links(trace))
    assert found is not None
    return found


def trained() -> TraceBuilder:
    """An MLP of two Linear layers, called twice; autograd runs the backward of the second layer, and of a loss."""
    builder = TraceBuilder()
    for call in range(2):
        at = 1000 * call
        builder.frame("nn.Module: MLP_0", at, 500, id=10 * call + 1)
        builder.frame("torch/nn/modules/module.py(1): _call_impl", at + 5, 490, id=10 * call + 2)
        for layer in range(2):
            begin, number = at + 10 + 200 * layer, 10 * call + layer
            builder.frame(f"nn.Module: Linear_{layer}", begin, 100, id=10 * call + 3 + layer)
            builder.operator("aten::linear", begin + 10, 60, sequence=number, forward_thread=0)
            builder.operator("aten::addmm", begin + 20, 40, sequence=number, forward_thread=0)
            builder.launch("gemm", (begin + 30, 5), (begin + 2000, 20 + layer))
        builder.launch("gelu", (at + 450, 5), (at + 3000, 7))
        builder.operator("aten::mse_loss", at + 600, 50, sequence=10 * call + 2, forward_thread=0)
        for number, duration in ((10 * call + 2, 3), (10 * call + 1, 50)):
            begin = at + 5000 + 100 * duration
            builder.operator(
                "autograd::engine::evaluate_function: X", begin, 50, thread=1, sequence=number, forward_thread=1
            )
            builder.operator("XBackward0", begin + 1, 40, thread=1, sequence=number, forward_thread=1)
            builder.operator("aten::mm", begin + 2, 30, thread=1)
            builder.launch("gemm", (begin + 3, 5), (begin + 6000, duration), thread=1)
    builder.kernel("before", 100, 1000)
    return builder


def test_forward_and_backward() -> None:
    found = of(trained().build())
    rows = {"/".join(row.path): row for row in found.rows}
    assert list(rows) == ["MLP_0", "MLP_0/Linear_0", "MLP_0/Linear_1"]
    model, first, second = rows.values()
    assert (model.count, model.cpu_ns, model.cpu_self_ns) == (2, 1000, 600)
    assert (model.gpu_ns, model.gpu_self_ns, model.backward_gpu_ns, model.backward_gpu_self_ns) == (96, 14, 100, 0)
    assert (first.gpu_ns, first.backward_gpu_ns) == (40, 0)
    assert (second.gpu_ns, second.backward_gpu_self_ns, second.count) == (42, 100, 2)
    assert found.gpu_elsewhere_ns == 1000 + 6
    assert sum(row.gpu_self_ns + row.backward_gpu_self_ns for row in found.rows) + found.gpu_elsewhere_ns == 1202


def test_classes() -> None:
    linear, model = of(trained().build()).classes
    assert (linear.name, linear.modules, linear.count) == ("Linear", 2, 4)
    assert (linear.gpu_self_ns, linear.backward_gpu_self_ns, linear.cpu_self_ns) == (82, 100, 400)
    assert (model.name, model.modules, model.gpu_self_ns) == ("MLP", 1, 14)


def test_without_modules() -> None:
    builder = TraceBuilder()
    builder.frame("train.py(1): main", 0, 10, id=1)
    trace = builder.build()
    assert module_times(trace, links(trace)) is None


@needs_traces
@pytest.mark.parametrize(
    ("name", "rows", "elsewhere"), [("tl_h100_qwen", 316, 13741827), ("tl_b200_vllm_eager", 436, 35104)]
)
def test_real_traces_lose_no_time(name: str, rows: int, elsewhere: int) -> None:
    trace = read(str(FOLDER / f"{name}.json.gz"))
    found = of(trace)
    assert (len(found.rows), found.left_out, found.gpu_elsewhere_ns) == (rows, 0, elsewhere)
    assert sum(row.gpu_self_ns for row in found.rows) + elsewhere == int(trace.gpu.duration.sum())
    outer = [row for row in found.rows if len(row.path) == 1]
    assert sum(row.gpu_ns for row in outer) + elsewhere == int(trace.gpu.duration.sum())
    assert sum(row.gpu_self_ns for row in found.classes) + elsewhere == int(trace.gpu.duration.sum())
