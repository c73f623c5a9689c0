"""Operators: own and total time on host and device, recursion, shapes."""

import random
from typing import Any

import numpy as np
import pytest

from tests.tracebuilder import TraceBuilder
from tests.traces import needs_traces, references
from warpmeter.analysis.links import links
from warpmeter.analysis.operators import OperatorTimes, operators
from warpmeter.analysis.read import read
from warpmeter.analysis.trace import Trace


def times(trace: Trace) -> OperatorTimes:
    return operators(trace, links(trace))


def linear() -> TraceBuilder:
    """`linear` calls `addmm`, which launches two kernels; `add` launches one; one kernel is nobody's."""
    builder = TraceBuilder()
    builder.operator("aten::linear", 0, 100, dims=[[8, 4], [4, 4]], types=["float", "float"])
    builder.operator("aten::addmm", 20, 60, dims=[[8, 4], [4, 4]], types=["float", "float"])
    builder.launch("gemm", (30, 10), (200, 50))
    builder.launch("splitk", (45, 5), (250, 20))
    builder.operator("aten::add", 150, 40, dims=[[8, 4]], types=["float"])
    builder.launch("add", (160, 10), (300, 30))
    builder.launch("nobody's", (200, 10), (340, 100))
    return builder


def test_own_and_total_times() -> None:
    found = times(linear().build())
    assert [row.name for row in found.by_name] == ["aten::addmm", "aten::add", "aten::linear"]
    addmm, add, outer = found.by_name
    assert (addmm.cpu_total_ns, addmm.cpu_self_ns, addmm.calls_ns, addmm.cpu_max_ns) == (60, 60, 15, 60)
    assert (addmm.gpu_self_ns, addmm.gpu_total_ns, addmm.gpu_events, addmm.gpu_share) == (70, 70, 2, 0.35)
    assert (outer.cpu_total_ns, outer.cpu_self_ns, outer.calls_ns) == (100, 40, 0)
    assert (outer.gpu_self_ns, outer.gpu_total_ns, outer.gpu_events) == (0, 70, 0)
    assert (add.gpu_self_ns, add.count) == (30, 1)
    assert (found.cpu_ns, found.gpu_ns, found.gpu_elsewhere_ns) == (140, 200, 100)


def test_a_call_within_one_of_the_same_name_is_counted_once_in_totals() -> None:
    builder = TraceBuilder()
    for depth in range(3):
        builder.operator("checkpoint", 10 * depth, 100 - 20 * depth)
    builder.operator("checkpoint", 200, 50)
    builder.launch("k", (25, 5), (300, 7))
    (row,) = times(builder.build()).by_name
    assert (row.count, row.cpu_total_ns, row.cpu_self_ns, row.cpu_max_ns) == (4, 150, 150, 100)
    assert (row.gpu_total_ns, row.gpu_self_ns) == (7, 7)


def test_a_child_that_sticks_out_counts_to_its_parents_end() -> None:
    builder = TraceBuilder()
    builder.operator("parent", 0, 100)
    builder.operator("child", 50, 53)
    by_name = {row.name: row for row in times(builder.build()).by_name}
    assert (by_name["parent"].cpu_self_ns, by_name["child"].cpu_self_ns, by_name["child"].cpu_total_ns) == (50, 50, 53)


def test_shapes_are_told_apart_by_sizes_and_types_not_by_values() -> None:
    builder = TraceBuilder()
    for i, (dims, concrete) in enumerate([([[8]], ["1"]), ([[8]], ["2"]), ([[16]], ["1"])]):
        builder.operator("aten::mul", 100 * i, 10, dims=dims, types=["float"], concrete=concrete)
        builder.launch("mul", (100 * i + 2, 2), (1000 + 100 * i, 10 + i))
    builder.operator("bare", 500, 10)
    rows = {str(row.dims): row for row in times(builder.build()).by_shape}
    assert (rows["[[8]]"].count, rows["[[8]]"].gpu_self_ns, rows["[[8]]"].types) == (2, 21, ["float"])
    assert (rows["[[16]]"].count, rows["[[16]]"].gpu_self_ns) == (1, 12)
    assert (rows["None"].name, rows["None"].types) == ("bare", None)


def test_without_shapes_operators_or_gpu_work() -> None:
    assert times(TraceBuilder().build()) == OperatorTimes([], [], 0, 0, 0, 0)
    builder = TraceBuilder()
    builder.operator("aten::empty", 0, 10)
    found = times(builder.build())
    assert (found.by_shape, found.by_name[0].gpu_share) == ([], None)


def grown(seed: int) -> TraceBuilder:
    """A random forest of operators on two threads, in which names recur, some without length, with kernels below."""
    chance, builder = random.Random(seed), TraceBuilder()

    def grow(start: int, end: int, thread: int, depth: int) -> None:
        while start < end and chance.random() < 0.8:
            at = chance.randint(start, end)
            length = chance.randint(0, end - at)
            builder.operator(chance.choice("abc"), at, length, thread=thread)
            if length > 4 and depth < 5:
                if chance.random() < 0.5:
                    builder.launch("k", (at + 1, 1), (chance.randint(0, 5000), chance.randint(0, 50)), thread=thread)
                grow(at + 2, at + length, thread, depth + 1)
            start = at + length + 1

    for thread in range(2):
        grow(0, 1000, thread, 0)
    return builder


@pytest.mark.parametrize("seed", range(40))
def test_against_walking_the_tree(seed: int) -> None:
    trace = grown(seed).build()
    joined = links(trace)
    parent = joined.operators.parent.tolist()
    count = len(parent)
    gpu = [int(trace.gpu.duration[joined.operator == i].sum()) for i in range(count)]
    expected: dict[str, list[int]] = {}
    for i in range(count):
        name = trace.names[int(trace.operators.name[i])]
        row = expected.setdefault(name, [0, 0, 0, 0, 0])
        inside = int(trace.operators.duration[i]), gpu[i]
        children = [child for child in range(count) if parent[child] == i]
        row[0] += 1
        row[1] += inside[0] - sum(int(trace.operators.duration[child]) for child in children)
        row[2] += gpu[i]
        if not any(trace.operators.name[up] == trace.operators.name[i] for up in _above(parent, i)):
            row[3] += inside[0]
            row[4] += sum(gpu[below] for below in range(count) if below == i or i in _above(parent, below))
    found = {
        row.name: [row.count, row.cpu_self_ns, row.gpu_self_ns, row.cpu_total_ns, row.gpu_total_ns]
        for row in operators(trace, joined).by_name
    }
    assert found == expected


def _above(parent: list[int], place: int) -> list[int]:
    found = []
    while (place := parent[place]) >= 0:
        found.append(place)
    return found


@needs_traces
@pytest.mark.parametrize(("path", "expected"), [pytest.param(p, e, id=i) for i, p, e in references()])
def test_real_traces_lose_no_time(path: Any, expected: dict[str, Any]) -> None:
    trace = read(str(path))
    found = times(trace)
    assert found.gpu_ns == (expected.get("gpu_sum_all_durations") or 0)
    assert sum(row.gpu_self_ns for row in found.by_name) + found.gpu_elsewhere_ns == found.gpu_ns
    assert sum(row.count for row in found.by_name) == len(trace.operators)
    assert all(row.cpu_self_ns >= 0 and row.calls_ns <= row.cpu_self_ns for row in found.by_name)
    assert found.cpu_ns <= int(np.sum(trace.operators.duration))
    if found.by_shape and not found.by_shape_left_out:
        assert sum(row.gpu_self_ns for row in found.by_shape) == found.gpu_ns - found.gpu_elsewhere_ns
