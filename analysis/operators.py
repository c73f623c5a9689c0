"""Operators: their own time and all time below them, on the host and on the device, by name and by shapes of inputs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from warpmeter.analysis.links import Links
from warpmeter.analysis.trace import NONE, Inputs, Int64s, Places, Trace
from warpmeter.analysis.trees import Tree, total, tree

SHAPES: Final = 2000
"""Rows by shape that are given; the rest is counted."""


@dataclass(frozen=True)
class OperatorTime:
    """One operator by name. Times are sums over all calls.

    `cpu_total_ns`: time within it, a call within a call of the same name counted once. `cpu_self_ns`: the same without
    the operators it called. `calls_ns`: of its own time that within the GPU's runtime. `gpu_self_ns`, `gpu_events`:
    duration and number of the GPU events that it launched itself, `gpu_total_ns` also of those below it (durations
    add up over streams). `gpu_share`: its own share of the durations of all GPU events; None without any.
    """

    name: str
    count: int
    cpu_total_ns: int
    cpu_self_ns: int
    cpu_max_ns: int
    calls_ns: int
    gpu_total_ns: int
    gpu_self_ns: int
    gpu_events: int
    gpu_share: float | None


@dataclass(frozen=True)
class ShapeTime:
    """One operator by name, sizes and types of its inputs (None where the trace has none); figures as by name."""

    name: str
    dims: list[Any] | None
    types: list[str] | None
    count: int
    cpu_total_ns: int
    cpu_self_ns: int
    gpu_total_ns: int
    gpu_self_ns: int
    gpu_events: int


@dataclass(frozen=True)
class OperatorTimes:
    """All operators, those with most GPU time of their own first, then those with most host time.

    `by_shape` holds at most `SHAPES` rows, `by_shape_left_out` the number of the others; it is empty where no operator
    tells its inputs. `cpu_ns` is the sum of own times, `gpu_ns` that of all GPU events' durations, `gpu_elsewhere_ns`
    what of it no operator launched.
    """

    by_name: list[OperatorTime]
    by_shape: list[ShapeTime]
    by_shape_left_out: int
    cpu_ns: int
    gpu_ns: int
    gpu_elsewhere_ns: int


@dataclass(frozen=True, eq=False)
class Costs:
    """Figures of each single operator, by its place in `Trace.operators`."""

    cpu_total: Int64s
    cpu_self: Int64s
    calls: Int64s
    gpu_total: Int64s
    gpu_self: Int64s
    gpu_events: Int64s


@dataclass(frozen=True, eq=False)
class _Groups:
    """Costs by group: an operator of each, how many there are, sums by field."""

    first: Places
    count: Int64s
    sums: dict[str, Int64s]
    longest: Int64s
    order: list[int]


def operators(trace: Trace, links: Links) -> OperatorTimes:
    """Times of all operators by name and by shapes, n log n."""
    walk = tree(links.operators)
    each = costs(trace, links, walk)
    gpu_ns = int(trace.gpu.duration.sum())
    by_shape = _by_shape(trace, walk, each)
    return OperatorTimes(
        by_name=_by_name(trace, walk, each, gpu_ns),
        by_shape=by_shape[0],
        by_shape_left_out=by_shape[1],
        cpu_ns=int(each.cpu_self.sum()),
        gpu_ns=gpu_ns,
        gpu_elsewhere_ns=gpu_ns - int(each.gpu_self.sum()),
    )


def costs(trace: Trace, links: Links, walk: Tree) -> Costs:
    """What each operator took. Own times end where the parent does: they add up to the time within operators."""
    count = len(trace.operators)
    inside = links.operators.end - trace.operators.start
    gpu_self = total(links.operator, trace.gpu.duration, count)
    return Costs(
        cpu_total=trace.operators.duration,
        cpu_self=inside - walk.children(inside),
        calls=total(links.call_operator, trace.calls.duration, count),
        gpu_total=walk.descendants(gpu_self),
        gpu_self=gpu_self,
        gpu_events=total(links.operator, np.ones(len(trace.gpu), np.int64), count),
    )


def _by_name(trace: Trace, walk: Tree, each: Costs, gpu_ns: int) -> list[OperatorTime]:
    groups = _grouped(walk, each, trace.operators.name.astype(np.int64))
    sums = {f"{field}_ns": values.tolist() for field, values in groups.sums.items() if field != "gpu_events"}
    names = trace.operators.name[groups.first].tolist()
    return [
        OperatorTime(
            name=trace.names[names[i]],
            count=int(groups.count[i]),
            cpu_max_ns=int(groups.longest[i]),
            gpu_events=int(groups.sums["gpu_events"][i]),
            gpu_share=sums["gpu_self_ns"][i] / gpu_ns if gpu_ns else None,
            **{field: values[i] for field, values in sums.items()},
        )
        for i in groups.order
    ]


def _by_shape(trace: Trace, walk: Tree, each: Costs) -> tuple[list[ShapeTime], int]:
    if not len(trace.inputs):
        return [], 0
    shape, shapes = _shapes(trace.inputs)
    of_operator = np.append(shape, NONE)[trace.operators.inputs] + 1
    groups = _grouped(walk, each, trace.operators.name.astype(np.int64) * (len(shapes) + 1) + of_operator)
    sums = {f"{field}_ns": values for field, values in groups.sums.items() if field not in ("gpu_events", "calls")}
    rows = [
        ShapeTime(
            name=trace.names[int(trace.operators.name[groups.first[i]])],
            dims=list(shapes[known].dims) if (known := int(of_operator[groups.first[i]]) - 1) >= 0 else None,
            types=list(shapes[known].types) if known >= 0 else None,
            count=int(groups.count[i]),
            gpu_events=int(groups.sums["gpu_events"][i]),
            **{field: int(values[i]) for field, values in sums.items()},
        )
        for i in groups.order[:SHAPES]
    ]
    return rows, len(groups.order) - len(rows)


def _shapes(inputs: Sequence[Inputs]) -> tuple[Int64s, list[Inputs]]:
    """Inputs alike but for their values and strides: the number of each, and one of each number."""
    found: dict[str, int] = {}
    one_of: list[Inputs] = []
    index = np.empty(len(inputs), np.int64)
    for i, each in enumerate(inputs):
        index[i] = found.setdefault(f"{each.dims}{each.types}", len(found))
        if len(found) > len(one_of):
            one_of.append(each)
    return index, one_of


def _grouped(walk: Tree, each: Costs, key: Int64s) -> _Groups:
    """Costs by key; totals leave out operators within one of the same key."""
    keys, first, index, count = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    once = np.where(walk.outermost(key), index, NONE)
    sums = {name: total(once, getattr(each, name), len(keys)) for name in ("cpu_total", "gpu_total")}
    for name in ("cpu_self", "calls", "gpu_self", "gpu_events"):
        sums[name] = total(index, getattr(each, name), len(keys))
    longest = np.zeros(len(keys), np.int64)
    np.maximum.at(longest, index, each.cpu_total)
    order = np.lexsort((keys, -sums["cpu_self"], -sums["gpu_self"])).tolist()
    return _Groups(first, count, sums, longest, order)
