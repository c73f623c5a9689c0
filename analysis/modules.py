"""Modules: what each `nn.Module` took, with the backward pass of what it did given back to it.

From the Python frames of `with_stack=True`. Autograd runs backward operators on a thread of its own, below no module;
the profiler gives them the sequence number of the forward operator that they belong to, and by that they find home.
"""

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from warpmeter.analysis.links import Links
from warpmeter.analysis.nesting import Nesting, levels, nest
from warpmeter.analysis.stacks import MODULE, modules
from warpmeter.analysis.trace import NONE, Frames, Int32s, Int64s, Places, Trace
from warpmeter.analysis.trees import roots, total, tree

INSTANCE: Final = re.compile(r"_\d+$")
"""What the profiler puts behind a class's name to tell its modules apart."""

MODULES: Final = 2000
"""Rows that are given; the rest is counted."""


@dataclass(frozen=True)
class ModuleTime:
    """One module at one place in the model: `path` are the modules around it and itself, outermost first.

    `cpu_ns`: time of its calls on the host, `cpu_self_ns` without modules below it. `gpu_ns`: durations of the GPU
    events launched within it, `gpu_self_ns` without those of modules below it. `backward_gpu_ns`,
    `backward_gpu_self_ns`: the same of backward operators whose forward operators ran within it.
    """

    path: list[str]
    count: int
    cpu_ns: int
    cpu_self_ns: int
    gpu_ns: int
    gpu_self_ns: int
    backward_gpu_ns: int
    backward_gpu_self_ns: int


@dataclass(frozen=True)
class ClassTime:
    """All modules of one class (`Linear_0`, `Linear_1`, …), without the modules in them: figures as in `ModuleTime`."""

    name: str
    modules: int
    count: int
    cpu_self_ns: int
    gpu_self_ns: int
    backward_gpu_self_ns: int


@dataclass(frozen=True)
class ModuleTimes:
    """Modules in order of the model (each after the one around it), at most `MODULES`: those with most GPU time.

    `classes`: those with most GPU time of their own first, forward and backward together. `gpu_elsewhere_ns`: durations
    of GPU events that belong to no module, neither forward nor backward.
    """

    rows: list[ModuleTime]
    left_out: int
    classes: list[ClassTime]
    gpu_elsewhere_ns: int


def module_times(trace: Trace, links: Links) -> ModuleTimes | None:
    """What each module took, n log n; None where the trace has no modules."""
    frames = trace.frames.take(modules(trace))
    if not len(frames):
        return None
    nesting = nest(frames.thread, frames.start, frames.end)
    forward = nesting.innermost(*_launched(trace, links))
    backward = np.where(forward < 0, nesting.innermost(*_forward(trace, links)), NONE)
    elsewhere = int(trace.gpu.duration[(forward < 0) & (backward < 0)].sum())
    own = [total(each, trace.gpu.duration, len(frames)) for each in (forward, backward)]
    each = _each(trace, frames, nesting, own)
    keep = _largest(each)
    return ModuleTimes(
        [row for i, row in enumerate(each) if i in keep], len(each) - len(keep), _classes(each), elsewhere
    )


def _launched(trace: Trace, links: Links) -> tuple[Int32s, Int64s]:
    """Thread and time at which each GPU event was launched: its call's, else its operator's; thread -1 for none."""
    thread = np.full(len(trace.gpu), NONE, np.int32)
    at = np.zeros(len(trace.gpu), np.int64)
    for index, table in ((links.operator, trace.operators), (links.call, trace.calls)):
        there = index >= 0
        thread[there] = table.thread[index[there]]
        at[there] = table.start[index[there]]
    return thread, at


def _forward(trace: Trace, links: Links) -> tuple[Int32s, Int64s]:
    """Thread and time of the forward operator to whose backward each GPU event belongs; thread -1 for none.

    Of forward operators of one sequence number the last one is it: only it makes the number's backward node.
    """
    operators = trace.operators
    outer = roots(links.operators.parent, links.operator)
    thread = np.full(len(outer), NONE, np.int32)
    at = np.zeros(len(outer), np.int64)
    ours = np.flatnonzero((operators.sequence >= 0) & (operators.forward_thread <= 0))
    theirs = np.flatnonzero(outer >= 0)
    theirs = theirs[(operators.sequence[outer[theirs]] >= 0) & (operators.forward_thread[outer[theirs]] > 0)]
    if len(ours) and len(theirs):
        ours = ours[np.argsort(operators.sequence[ours], kind="stable")]
        numbers = operators.sequence[ours]
        wanted = operators.sequence[outer[theirs]]
        last = np.maximum(np.searchsorted(numbers, wanted, "right") - 1, 0)
        hit = numbers[last] == wanted
        thread[theirs[hit]] = operators.thread[ours[last[hit]]]
        at[theirs[hit]] = operators.start[ours[last[hit]]]
    return thread, at


def _each(trace: Trace, frames: Frames, nesting: Nesting, own: list[Int64s]) -> list[ModuleTime]:
    """Calls at one place in the model together, whatever call and thread; in order of the model."""
    walk = tree(nesting)
    inside = nesting.end - nesting.start
    cpu_self = inside - walk.children(inside)
    node, parent, name = _nodes(frames, nesting, len(trace.names))
    columns = (inside, cpu_self, walk.descendants(own[0]), own[0], walk.descendants(own[1]), own[1])
    sums = [total(node, column, len(name)).tolist() for column in columns]
    count = np.bincount(node, minlength=len(name)).tolist()
    texts = [trace.names[i].removeprefix(MODULE) for i in name.tolist()]
    return [
        ModuleTime(_path(i, parent, texts), count[i], *(column[i] for column in sums)) for i in _by_model(parent, node)
    ]


def _largest(each: list[ModuleTime]) -> set[int]:
    """The places of those with most GPU time, then with most host time."""
    order = sorted(range(len(each)), key=lambda i: (-each[i].gpu_ns - each[i].backward_gpu_ns, -each[i].cpu_ns))
    return set(order[:MODULES])


def _classes(each: list[ModuleTime]) -> list[ClassTime]:
    rows: dict[str, list[ModuleTime]] = {}
    for row in each:
        rows.setdefault(INSTANCE.sub("", row.path[-1]), []).append(row)
    classes = [
        ClassTime(
            name=name,
            modules=len({row.path[-1] for row in those}),
            count=sum(row.count for row in those),
            cpu_self_ns=sum(row.cpu_self_ns for row in those),
            gpu_self_ns=sum(row.gpu_self_ns for row in those),
            backward_gpu_self_ns=sum(row.backward_gpu_self_ns for row in those),
        )
        for name, those in rows.items()
    ]
    return sorted(classes, key=lambda row: (-row.gpu_self_ns - row.backward_gpu_self_ns, -row.cpu_self_ns))


def _nodes(frames: Frames, nesting: Nesting, width: int) -> tuple[Places, Places, Places]:
    """The node of each call, and each node's parent (-1) and name: equal paths are one."""
    node = np.empty(len(frames), np.intp)
    parents: list[Places] = []
    names: list[Places] = []
    first = 0
    for here in levels(nesting.depth):
        parent = nesting.parent[here]
        above = np.where(parent >= 0, node[parent], NONE)
        keys, index = np.unique((above + 1) * width + frames.name[here].astype(np.intp), return_inverse=True)
        node[here] = first + index
        first += len(keys)
        parents.append((keys // width - 1).astype(np.intp))
        names.append((keys % width).astype(np.intp))
    return node, np.concatenate(parents), np.concatenate(names)


def _by_model(parent: Places, node: Places) -> list[int]:
    """Nodes as a walk of the model meets them: each before those in it, in order of their first calls."""
    _, first = np.unique(node, return_index=True)
    children: dict[int, list[int]] = {}
    for i in np.argsort(first, kind="stable").tolist():
        children.setdefault(int(parent[i]), []).append(i)
    walk: list[int] = []
    ahead = children.get(NONE, [])[::-1]
    while ahead:
        walk.append(ahead.pop())
        ahead += children.get(walk[-1], [])[::-1]
    return walk


def _path(node: int, parent: Places, texts: list[str]) -> list[str]:
    path = []
    while node >= 0:
        path.append(texts[node])
        node = int(parent[node])
    return path[::-1]
