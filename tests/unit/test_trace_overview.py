"""The trace at a glance: nothing that ran is missing from its lane, nothing is in two parts of it."""

from typing import Any

import pytest

from tests.tracebuilder import TraceBuilder
from tests.traces import needs_traces, references
from warpmeter.analysis.breakdown import breakdown, sorts
from warpmeter.analysis.overview import LANES, Lane, Overview, overview
from warpmeter.analysis.read import read
from warpmeter.analysis.trace import Trace


def of(trace: Trace) -> Overview:
    found = overview(trace, sorts(trace.gpu, trace.names))
    assert found is not None
    return found


def lane(found: Overview, name: str) -> Lane:
    return next(each for each in found.lanes if each.name == name)


def test_lanes_of_devices_streams_and_threads() -> None:
    builder = TraceBuilder()
    builder.name(thread=0, text="main")
    builder.operator("aten::mm", 0, 100)
    builder.launch("gemm", (10, 20), (100, 100))
    builder.launch("ncclDevKernel_AllReduce", (40, 10), (150, 100), stream=9)
    builder.call("cudaDeviceSynchronize", 200, 100)
    found = of(builder.build())
    assert (found.start_ns, found.end_ns, found.stretch_ns, found.left_out) == (0, 300, 1, 0)
    assert [each.kind for each in found.lanes] == ["device", "stream", "stream", "thread"]
    device, main = lane(found, "GPU 0"), lane(found, "main")
    assert {part: sum(ns) for part, ns in device.parts.items()} == {"compute": 100, "comm": 50, "mem": 0}
    assert device.parts["comm"][200:250] == [1] * 50
    assert sum(lane(found, "stream 9").parts["comm"]) == 100
    assert {part: sum(ns) for part, ns in main.parts.items()} == {"wait": 100, "calls": 30, "operators": 70}
    assert (device.busy_ns, main.busy_ns) == (150, 200)


def test_only_the_busiest_streams_have_lanes() -> None:
    builder = TraceBuilder()
    for stream in range(40):
        builder.kernel("k", 0, 10 + stream, stream=stream)
    found = of(builder.build())
    assert found.left_out == 40 - LANES
    assert [each.name for each in found.lanes[1:]] == [f"stream {stream}" for stream in range(40 - LANES, 40)]


def test_nothing_to_see() -> None:
    trace = TraceBuilder().build()
    assert overview(trace, sorts(trace.gpu, trace.names)) is None
    builder = TraceBuilder()
    builder.kernel("k", 5, 0)
    assert of(builder.build()).lanes[0].parts == {"compute": [], "comm": [], "mem": []}


@needs_traces
@pytest.mark.parametrize(("path", "expected"), [pytest.param(p, e, id=i) for i, p, e in references()])
def test_real_traces(path: Any, expected: dict[str, Any]) -> None:
    trace = read(str(path))
    found = of(trace)
    assert sum(sum(ns) for each in found.lanes if each.kind == "device" for ns in each.parts.values()) == sum(
        breakdown(trace.gpu.take(here), sorts(trace.gpu, trace.names)[here]).busy_ns or 0
        for here in [trace.gpu.device == device for device in set(trace.gpu.device.tolist())]
    )
    for each in found.lanes:
        assert sum(sum(ns) for ns in each.parts.values()) == each.busy_ns
        for stretch in zip(*each.parts.values(), strict=True):
            assert sum(stretch) <= found.stretch_ns
    assert found.end_ns - found.start_ns >= (expected.get("span") or 0)
