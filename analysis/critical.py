"""The critical path of each step: an unbroken chain of what waited for what, from the step's end back to its start.

Every nanosecond of a step's window lies in exactly one part of its path, so parts add up to its length. What waited for
what is in `dependencies`, the chains are in `chains`; docs/analysis.md has the rules in words.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from warpmeter.analysis.chains import Category, Spans, Stretches, chains, spans
from warpmeter.analysis.dependencies import Dependencies, dependencies
from warpmeter.analysis.hostwork import Pieces, host_work
from warpmeter.analysis.intervals import union
from warpmeter.analysis.links import Links
from warpmeter.analysis.trace import NONE, Int8s, Int32s, Int64s, Places, Trace
from warpmeter.analysis.trees import total
from warpmeter.analysis.windows import Windows

PARTS: Final = 2000
"""Parts of a path that are given; the rest is counted."""
GROUPS: Final = 50
"""Candidates for shortening that are given."""
GPU_WORK: Final = (Category.COMPUTATION, Category.COMMUNICATION, Category.MEMORY)

_BETWEEN = "between dependent events"
_IDLE = "stream idle though the next event was launched"
_RESUMING = "host resuming after a wait"
_HANDED = "work coming over to another thread"
_UNTOLD = "not in the trace"


@dataclass(frozen=True)
class PathPart:
    """One stretch of the path, in the trace's time; `device` and `stream` on the GPU, `thread` (index) on the host."""

    category: str
    name: str
    start_ns: int
    duration_ns: int
    device: int | None
    stream: int | None
    thread: int | None


@dataclass(frozen=True)
class Shortening:
    """All of a path's parts of one category (and name): what shortening them would save.

    `path_ns` is their time on the path, `share` that of the path's length. `saves_at_most_ns` is what the step would be
    shorter by if they took no time at all: no more than their time, nor than what the busiest stream leaves that still
    has to do all its other work.
    """

    category: str
    name: str
    count: int
    path_ns: int
    share: float
    saves_at_most_ns: int


@dataclass(frozen=True)
class StepPath:
    """One step's path.

    Its window begins when all steps before were done, or at its own beginning if that is later, and ends when all that
    it did and launched was. `length_ns` is the window's length and the sum of `by_category`.
    """

    name: str
    start_ns: int
    end_ns: int
    length_ns: int
    by_category: dict[str, int]


@dataclass(frozen=True)
class CriticalPath:
    """Paths of all steps, and one step's in detail: that of median length, `step`.

    Without steps there is one path, of the whole trace. `categories` and `shorten` (by category and name) have first
    what would shorten that step most. `launch_latency_ns` is how long a launch takes when its stream has nothing else
    to do (median, from the begin of the call); None where none was seen.
    """

    steps: list[StepPath]
    step: str | None = None
    categories: list[Shortening] = field(default_factory=list)
    shorten: list[Shortening] = field(default_factory=list)
    shorten_left_out: int = 0
    parts: list[PathPart] = field(default_factory=list)
    parts_left_out: int = 0
    launch_latency_ns: int | None = None


def critical_path(trace: Trace, links: Links, steps: Windows) -> CriticalPath:
    """The paths of all steps, n log n."""
    graph = dependencies(trace, links)
    windows = spans(trace, steps, graph)
    if not len(windows):
        return CriticalPath([], launch_latency_ns=graph.latency_ns)
    paths = chains(trace, graph, windows)
    found = _paths(paths, windows)
    chosen = _median(found)
    table = _table(trace, links, graph, paths.of(chosen))
    shorten = _shorten(trace, table, found[chosen])
    return CriticalPath(
        steps=found,
        step=found[chosen].name or None,
        categories=_whole_categories(trace, table, found[chosen]),
        shorten=shorten[:GROUPS],
        shorten_left_out=max(0, len(shorten) - GROUPS),
        parts=table.parts(PARTS),
        parts_left_out=max(0, len(table.start) - PARTS),
        launch_latency_ns=graph.latency_ns,
    )


def _median(found: list[StepPath]) -> int:
    order = sorted(range(len(found)), key=lambda i: found[i].length_ns)
    return order[(len(order) - 1) // 2]


def _paths(paths: Stretches, windows: Spans) -> list[StepPath]:
    wide = len(Category)
    key = paths.step * wide + paths.category
    sums = total(key, paths.end - paths.start, wide * len(windows)).reshape(-1, wide).tolist()
    labels = [category.name.lower() for category in Category]
    starts, ends = windows.start.tolist(), windows.end.tolist()
    return [
        StepPath(name, starts[i], ends[i], ends[i] - starts[i], dict(zip(labels, sums[i], strict=True)))
        for i, name in enumerate(windows.names)
    ]


@dataclass(frozen=True, eq=False)
class _Table:
    """One path's parts in order of time; `name` indexes `names`, -1 in the others is "none"."""

    category: Int8s
    name: Int64s
    start: Int64s
    end: Int64s
    device: Int64s
    stream: Int64s
    thread: Int64s
    names: list[str]

    def parts(self, most: int) -> list[PathPart]:
        """The first parts."""
        columns = (self.category, self.name, self.start, self.end - self.start, self.device, self.stream, self.thread)
        rows = zip(*(column[:most].tolist() for column in columns), strict=True)
        return [
            PathPart(Category(category).name.lower(), self.names[name], start, length, *_places(device, stream, thread))
            for category, name, start, length, device, stream, thread in rows
        ]


def _places(device: int, stream: int, thread: int) -> tuple[int | None, int | None, int | None]:
    on_gpu = thread == NONE and device != NONE
    return (device if on_gpu else None, stream if on_gpu else None, thread if thread != NONE else None)


def _table(trace: Trace, links: Links, graph: Dependencies, path: Stretches) -> _Table:
    """The path with names, its stretches on the host cut into what was done there."""
    host = np.flatnonzero(path.category == Category.HOST)
    pieces = host_work(trace, path.thread[host], path.start[host], path.end[host])
    other = np.flatnonzero(path.category != Category.HOST)
    names = _Names(trace.names)
    label = np.concatenate([_labels(trace, links, graph, path.take(other), names), names.of_pieces(pieces)])
    row = np.concatenate([other, host[pieces.of]])
    start = np.concatenate([path.start[other], pieces.start])
    end = np.concatenate([path.end[other], pieces.end])
    order = np.argsort(start, kind="stable")
    row = row[order]
    category = path.category[row]
    gpu = np.isin(category, GPU_WORK)
    event = np.where(gpu, path.node[row], 0)
    empty = np.full(len(row), NONE, np.int64)
    return _Table(
        category=category,
        name=label[order],
        start=start[order],
        end=end[order],
        device=np.where(gpu, trace.gpu.device[event], NONE) if len(trace.gpu) else empty,
        stream=np.where(gpu, trace.gpu.stream[event], NONE) if len(trace.gpu) else empty,
        thread=np.where(category == Category.LAUNCH, _launchers(graph, path.node[row]), path.thread[row]),
        names=names.texts,
    )


def _launchers(graph: Dependencies, node: Places) -> Int32s:
    if not len(graph.by_host):
        return np.full(len(node), NONE, np.int32)
    return np.where(
        (node >= 0) & (node < len(graph.by_host)), graph.thread[np.minimum(node, len(graph.by_host) - 1)], NONE
    )


class _Names:
    """The trace's names, and more behind them."""

    def __init__(self, names: Iterable[str]) -> None:
        self.texts = list(names)
        self._places: dict[str, int] = {}

    def place(self, text: str) -> int:
        """The index of a text that is not the trace's."""
        if text not in self._places:
            self._places[text] = len(self.texts)
            self.texts.append(text)
        return self._places[text]

    def of_pieces(self, pieces: Pieces) -> Int64s:
        """Indexes of what the host did: the trace's own names for operators and calls."""
        labels, index = np.unique(pieces.label, return_inverse=True)
        places = [
            label // 2 if label >= 0 and label % 2 == 0 else self.place(pieces.names[label])
            for label in labels.tolist()
        ]
        return np.array(places, np.int64)[index] if len(places) else np.empty(0, np.int64)


def _labels(trace: Trace, links: Links, graph: Dependencies, path: Stretches, names: _Names) -> Int64s:
    """The name of each stretch that is not the host's: the kernel, the launching call, or what kind of wait it is."""
    label = np.full(len(path.step), names.place(_UNTOLD), np.int64)
    fixed = {Category.SYNC: _RESUMING, Category.HANDOVER: _HANDED, Category.GPU_WAIT: _BETWEEN}
    for category, text in fixed.items():
        label[path.category == category] = names.place(text)
    long = (path.category == Category.GPU_WAIT) & (path.end - path.start > (graph.latency_ns or 0))
    label[long] = names.place(_IDLE)
    synced = np.flatnonzero((path.category == Category.SYNC) & (path.later >= len(trace.gpu)))
    label[synced] = trace.calls.name[graph.turns.call[path.later[synced] - len(trace.gpu)]]
    work = np.flatnonzero(np.isin(path.category, GPU_WORK))
    label[work] = trace.gpu.name[path.node[work]]
    launch = np.flatnonzero(path.category == Category.LAUNCH)
    call = links.call[path.node[launch]]
    label[launch] = trace.gpu.name[path.node[launch]]
    label[launch[call >= 0]] = trace.calls.name[call[call >= 0]]
    return label


def _shorten(trace: Trace, table: _Table, step: StepPath) -> list[Shortening]:
    """By category and name, what saves most first."""
    key = table.category.astype(np.int64) * len(table.names) + table.name
    keys, index, count = np.unique(key, return_inverse=True, return_counts=True)
    sums = total(index.astype(np.intp), table.end - table.start, len(keys)).tolist()
    work = _work_by_name(trace, step)
    found = []
    for each, number, ns in zip(keys.tolist(), count.tolist(), sums, strict=True):
        category, name = Category(each // len(table.names)), each % len(table.names)
        left = _busiest(work, {name} if category in GPU_WORK else set())
        found.append(_shortening(category, table.names[name], number, ns, step, left))
    return _sorted(found)


def _whole_categories(trace: Trace, table: _Table, step: StepPath) -> list[Shortening]:
    work = _work_by_name(trace, step)
    found = []
    for category in Category:
        mine = table.category == category
        if mine.any():
            names = set(table.name[mine].tolist()) if category in GPU_WORK else set()
            ns = int((table.end - table.start)[mine].sum())
            found.append(_shortening(category, "", int(mine.sum()), ns, step, _busiest(work, names)))
    return _sorted(found)


def _shortening(category: Category, name: str, count: int, ns: int, step: StepPath, left: int) -> Shortening:
    share = ns / step.length_ns if step.length_ns else 0.0
    return Shortening(category.name.lower(), name, count, ns, share, max(0, min(ns, step.length_ns - left)))


def _sorted(found: list[Shortening]) -> list[Shortening]:
    return sorted(found, key=lambda each: (-each.saves_at_most_ns, -each.path_ns, each.category, each.name))


@dataclass(frozen=True)
class _StreamWork:
    """A stream's work in a window: how long it was busy, and how long with each name."""

    busy_ns: int
    by_name: Mapping[int, int]


def _work_by_name(trace: Trace, step: StepPath) -> list[_StreamWork]:
    inside = np.flatnonzero((trace.gpu.start < step.end_ns) & (trace.gpu.end > step.start_ns))
    start = np.maximum(trace.gpu.start[inside], step.start_ns)
    end = np.minimum(trace.gpu.end[inside], step.end_ns)
    device, stream = trace.gpu.device[inside], trace.gpu.stream[inside]
    order = np.lexsort((start, stream, device))
    edges = np.flatnonzero((np.diff(device[order]) != 0) | (np.diff(stream[order]) != 0)) + 1
    found = []
    for here in np.split(order, edges) if len(order) else []:
        ids, index = np.unique(trace.gpu.name[inside[here]], return_inverse=True)
        sums = total(index.astype(np.intp), (end - start)[here], len(ids))
        by_name = dict(zip(ids.tolist(), sums.tolist(), strict=True))
        found.append(_StreamWork(union(start[here], end[here]).length, by_name))
    return found


def _busiest(work: list[_StreamWork], without: set[int]) -> int:
    """How long the stream is busy that has most to do, when some names take no time."""
    return max((each.busy_ns - sum(each.by_name.get(name, 0) for name in without) for each in work), default=0)
