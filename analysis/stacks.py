"""Stacks: who called whom on each host thread, with the time spent there and the GPU time that came of it.

Annotations, Python frames, modules, operators and calls of the GPU's library are laid over each other by time, thread
by thread, and equal stacks are added up; objects that differ in their address only are one. GPU events hang below what
launched them. The profiler's step ranges are left out: steps have figures of their own.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal, Self

import numpy as np

from warpmeter.analysis.links import Links
from warpmeter.analysis.nesting import Nesting, levels, nest
from warpmeter.analysis.trace import NONE, Int64s, Places, Trace
from warpmeter.analysis.trees import total, tree

KINDS: Final = ("thread", "annotation", "python", "module", "operator", "call", "gpu", "rest")
"""What a node of the tree is; `rest` are small nodes put together."""

NODES: Final = 20_000
"""Nodes that a tree keeps; smaller ones become one `rest` a parent."""

MODULE: Final = "nn.Module: "

ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")

UNKNOWN: Final = "launch not recorded"
"""The root of GPU events that neither a call nor an operator is known of."""

SMALLER: Final = "(smaller)"


@dataclass(frozen=True)
class Stacks:
    """A calling tree in columns, one entry a node, each after its parent (-1: a root, one a thread).

    `name` indexes `names`, `kind` indexes `KINDS`. `cpu_ns` is the time on the thread in the node but in none below it,
    waiting included; `gpu_ns` the duration of GPU events that are the node (kind `gpu`). `count` is how many spans or
    GPU events it stands for.
    """

    names: list[str]
    name: list[int]
    parent: list[int]
    kind: list[int]
    cpu_ns: list[int]
    gpu_ns: list[int]
    count: list[int]


def folded(stacks: Stacks, weight: Literal["cpu", "gpu"]) -> Iterator[str]:
    """Lines `outer;inner;innermost 1234` (ns) as flame graph tools read them, for nodes with a weight of their own."""
    texts = [stacks.names[name].replace(";", ":").replace("\n", " ") for name in stacks.name]
    for node, own in enumerate(stacks.cpu_ns if weight == "cpu" else stacks.gpu_ns):
        if own > 0:
            yield f"{';'.join(reversed([texts[up] for up in _upwards(stacks, node)]))} {own}"


def _upwards(stacks: Stacks, node: int) -> Iterator[int]:
    while node >= 0:
        yield node
        node = stacks.parent[node]


def stacks(trace: Trace, links: Links, most: int = NODES) -> Stacks:
    """The calling tree of all threads, n log n; where it has more than about `most` nodes the smallest go together."""
    host = _Host.of(trace)
    nodes, node_of = _host_nodes(trace, host)
    nodes = _and_gpu(trace, nodes, _launching(trace, links, host, node_of))
    nodes = _without_small(nodes, most, trace)
    return _report(trace, nodes)


@dataclass(frozen=True, eq=False)
class _Host:
    """All host spans of all tables as one: kinds, names, the tree, and where each table's spans went."""

    kind: Int64s
    name: Int64s
    nesting: Nesting
    operator: Places
    call: Places

    @classmethod
    def of(cls, trace: Trace) -> Self:
        annotations = trace.annotations.take(_no_steps(trace))
        tables = (annotations, trace.frames, trace.operators, trace.calls)
        kinds = [
            np.full(len(table), KINDS.index(kind), np.int64)
            for table, kind in zip(tables, ("annotation", "python", "operator", "call"), strict=True)
        ]
        kinds[1][modules(trace)] = KINDS.index("module")
        start, duration, name, thread = (
            np.concatenate([getattr(table, column) for table in tables])
            for column in ("start", "duration", "name", "thread")
        )
        name = _without_addresses(trace)[name]
        order = by_start(start, duration)
        where = np.empty(len(order), np.intp)
        where[order] = np.arange(len(order))
        nesting = nest(thread[order], start[order], (start + duration)[order])
        first = len(annotations) + len(trace.frames)
        calls = first + len(trace.operators)
        return cls(
            np.concatenate(kinds)[order], name[order].astype(np.int64), nesting, where[first:calls], where[calls:]
        )


def _without_addresses(trace: Trace) -> Int64s:
    """For each name the first that is the same but for an object's address."""
    found: dict[str, int] = {}
    plain = [ADDRESS.sub("", name) if " at 0x" in name else name for name in trace.names]
    return np.array([found.setdefault(name, i) for i, name in enumerate(plain)], np.int64)


def by_start(start: Int64s, duration: Int64s) -> Places:
    """The order of starts, of equal ones the longer first, else as they came; quick when long runs are sorted."""
    order = np.argsort(start, kind="stable")
    same = np.diff(start[order]) == 0
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    among = order[tied]
    order[tied] = among[np.lexsort((-duration[among], start[among]))]
    return order


def modules(trace: Trace) -> Places:
    """The frames that are calls of an `nn.Module`."""
    names = np.array([i for i, name in enumerate(trace.names) if name.startswith(MODULE)], np.int32)
    return np.flatnonzero(np.isin(trace.frames.name, names))


def _no_steps(trace: Trace) -> Places:
    steps = np.array([i for i, name in enumerate(trace.names) if name.startswith("ProfilerStep")], np.int32)
    return np.flatnonzero(~np.isin(trace.annotations.name, steps))


@dataclass(frozen=True, eq=False)
class _Nodes:
    """Nodes in columns, parents first. Names past the trace's own are those of `_labels`."""

    name: Int64s
    parent: Int64s
    kind: Int64s
    depth: Int64s
    cpu: Int64s
    gpu: Int64s
    count: Int64s

    def __len__(self) -> int:
        return len(self.name)

    @property
    def columns(self) -> tuple[Int64s, ...]:
        """All columns, in their order."""
        return self.name, self.parent, self.kind, self.depth, self.cpu, self.gpu, self.count

    @classmethod
    def joined(cls, parts: Iterable["_Nodes"]) -> "_Nodes":
        """The nodes of all parts, one after the other."""
        return cls(*(np.concatenate(column) for column in zip(*(part.columns for part in parts), strict=True)))

    def take(self, where: Places) -> "_Nodes":
        """Some of them, with their parents' numbers among them (a parent that is not there becomes -1)."""
        number = np.full(len(self) + 1, NONE, np.int64)
        number[where] = np.arange(len(where))
        taken = _Nodes(*(column[where] for column in self.columns))
        return replace(taken, parent=number[taken.parent])

    def below(self) -> tuple[Int64s, Int64s]:
        """Host and GPU time of each node and all below it."""
        cpu, gpu = self.cpu.copy(), self.gpu.copy()
        for here in levels(self.depth.astype(np.int32))[:0:-1]:
            np.add.at(cpu, self.parent[here], cpu[here])
            np.add.at(gpu, self.parent[here], gpu[here])
        return cpu, gpu


def _labels(trace: Trace) -> list[str]:
    """Names of nodes that the trace has no name for: its threads, what no launch is known of, what is too small."""
    threads = [thread.name or f"thread {thread.tid}" for thread in trace.threads]
    return [*threads, UNKNOWN, SMALLER]


def _roots(trace: Trace) -> _Nodes:
    """One node a thread, and one for GPU events whose launch is not known."""
    count = len(trace.threads) + 1
    zero = np.zeros(count, np.int64)
    return _Nodes(len(trace.names) + np.arange(count), zero - 1, zero, zero, zero, zero, zero + 1)


def _host_nodes(trace: Trace, host: _Host) -> tuple[_Nodes, Int64s]:
    """Equal stacks of host spans as one node, level by level; and the node of each span."""
    nesting, width = host.nesting, len(trace.names)
    inside = nesting.end - nesting.start
    own = inside - tree(nesting).children(inside)
    parts = [_roots(trace)]
    node_of = np.empty(len(host.name), np.int64)
    first = len(parts[0])
    for depth, here in enumerate(levels(nesting.depth), start=1):
        parent = nesting.parent[here]
        above = np.where(parent >= 0, node_of[parent], nesting.thread[here])
        key = (above * len(KINDS) + host.kind[here]) * width + host.name[here]
        keys, index, count = np.unique(key, return_inverse=True, return_counts=True)
        node_of[here] = first + index
        first += len(keys)
        above, name = np.divmod(keys, width)
        above, kind = np.divmod(above, len(KINDS))
        zero = np.zeros_like(keys)
        parts.append(_Nodes(name, above, kind, zero + depth, total(index, own[here], len(keys)), zero, count))
    return _Nodes.joined(parts), node_of


def _launching(trace: Trace, links: Links, host: _Host, node_of: Int64s) -> Int64s:
    """The node below which each GPU event hangs: what made its call, else its operator, else that of unknown ones."""
    above = np.full(len(trace.gpu), len(trace.threads), np.int64)
    by_operator = links.operator >= 0
    above[by_operator] = node_of[host.operator[links.operator[by_operator]]]
    by_call = np.flatnonzero(links.call >= 0)
    call = links.call[by_call]
    caller = host.nesting.parent[host.call[call]]
    above[by_call] = np.where(caller >= 0, node_of[caller] if len(node_of) else 0, trace.calls.thread[call])
    return above


def _and_gpu(trace: Trace, nodes: _Nodes, above: Int64s) -> _Nodes:
    """The nodes with GPU events below them, equal names of one parent together."""
    key = above * len(trace.names) + trace.gpu.name
    keys, index, count = np.unique(key, return_inverse=True, return_counts=True)
    parent, name = np.divmod(keys, max(1, len(trace.names)))
    zero = np.zeros_like(keys)
    kind, depth = zero + KINDS.index("gpu"), nodes.depth[parent] + 1
    gpu = _Nodes(name, parent, kind, depth, zero, total(index, trace.gpu.duration, len(keys)), count)
    return _Nodes.joined([nodes, gpu])


def _without_small(nodes: _Nodes, most: int, trace: Trace) -> _Nodes:
    """The roots and `most` nodes with most of either time; what is left out is one node below each parent."""
    cpu, gpu = nodes.below()
    share = np.maximum(cpu / max(1, nodes.cpu.sum()), gpu / max(1, nodes.gpu.sum()))
    largest = np.argsort(-share, kind="stable")[:most]
    keep = np.union1d(largest, np.flatnonzero(nodes.parent < 0))
    keep = keep[share[keep] > 0]
    kept = np.zeros(len(nodes) + 1, np.bool_)
    kept[keep] = True
    cut = np.flatnonzero(~kept[:-1] & kept[nodes.parent] & (share > 0))
    parents, index, count = np.unique(nodes.parent[cut], return_inverse=True, return_counts=True)
    name = np.full(len(parents), len(trace.names) + len(trace.threads) + 1, np.int64)
    cpu_, gpu_ = (total(index, column[cut], len(parents)) for column in (cpu, gpu))
    kind, depth = np.full_like(name, KINDS.index("rest")), nodes.depth[parents] + 1
    rest = _Nodes(name, parents, kind, depth, cpu_, gpu_, count)
    return _Nodes.joined([nodes, rest]).take(np.concatenate([keep, len(nodes) + np.arange(len(parents))]))


def _report(trace: Trace, nodes: _Nodes) -> Stacks:
    used, name = np.unique(nodes.name, return_inverse=True)
    labels = _labels(trace)
    texts = [
        ADDRESS.sub("", trace.names[i]) if i < len(trace.names) else labels[i - len(trace.names)] for i in used.tolist()
    ]
    columns = (nodes.parent, nodes.kind, nodes.cpu, nodes.gpu, nodes.count)
    return Stacks(texts, name.tolist(), *(column.tolist() for column in columns))
