"""Chains of dependent work, one for each step, as stretches of time that follow each other without a gap."""

from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np

from warpmeter.analysis.dependencies import Dependencies
from warpmeter.analysis.names import is_communication
from warpmeter.analysis.trace import NONE, Booleans, Int8s, Int32s, Int64s, Kind, Places, Trace
from warpmeter.analysis.windows import Windows


class Category(IntEnum):
    """What a stretch of a path is; docs/analysis.md says more."""

    COMPUTATION = 0
    COMMUNICATION = 1
    MEMORY = 2
    LAUNCH = 3
    GPU_WAIT = 4
    SYNC = 5
    HOST = 6
    HANDOVER = 7
    UNKNOWN = 8


@dataclass(frozen=True, eq=False)
class Spans:
    """Windows of the paths in order of time, none over another; `last` is the GPU event at which a path ends, -1 where
    it ends on the host's `thread`."""

    names: tuple[str, ...]
    start: Int64s
    end: Int64s
    last: Places
    thread: Int32s

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class Stretches:
    """Parts of paths, latest first. `step` is the place of the window, `node` the GPU event or (behind those) the turn
    below, `later` the node above (-1: none), `thread` the host's thread that was at work, waited or went on."""

    step: Places
    category: Int8s
    start: Int64s
    end: Int64s
    node: Places
    later: Places
    thread: Int32s

    def take(self, where: Places) -> "Stretches":
        """The chosen ones, in their order."""
        return Stretches(**{column.name: getattr(self, column.name)[where] for column in fields(self)})

    def of(self, step: int) -> "Stretches":
        """Those of one step, in order of time."""
        return self.take(np.flatnonzero(self.step == step)[::-1])


def spans(trace: Trace, steps: Windows, graph: Dependencies) -> Spans:
    """From when the steps before are done, or the step's own beginning if that is later, until the step is done.

    A step is done when its range has ended and all GPU events that it launched. Without steps: the whole trace.
    """
    if not len(steps):
        return _whole(trace, graph)
    low = np.iinfo(np.int64).min
    last = np.full(len(steps), NONE, np.intp)
    order = np.argsort(trace.gpu.end, kind="stable")
    order = order[steps.of_gpu[order] >= 0]
    last[steps.of_gpu[order]] = order
    gpu_end = np.full(len(steps), low)
    gpu_end[last >= 0] = trace.gpu.end[last[last >= 0]]
    done = np.maximum(steps.end, gpu_end)
    end = np.maximum.accumulate(done)
    start = np.maximum(steps.start, np.concatenate([[low], end[:-1]]))
    last[(gpu_end < steps.end) | (done < end)] = NONE
    thread = _annotating(trace, graph, steps.start, _host_threads(trace, graph, end))
    return Spans(steps.names, np.minimum(start, end), end, last, thread)


def _whole(trace: Trace, graph: Dependencies) -> Spans:
    tables = [table for table in (trace.gpu, trace.calls, trace.operators) if len(table)]
    if not tables:
        nothing = np.empty(0, np.int64)
        return Spans((), nothing, nothing, np.empty(0, np.intp), np.empty(0, np.int32))
    start = np.array([min(int(table.start.min()) for table in tables)], np.int64)
    end = np.array([max(int(table.end.max()) for table in tables)], np.int64)
    by_gpu = len(trace.gpu) > 0 and trace.gpu.end.max() == end[0]
    last = np.array([np.argmax(trace.gpu.end) if by_gpu else NONE], np.intp)
    return Spans(("",), start, end, last, _host_threads(trace, graph, end))


def _host_threads(trace: Trace, graph: Dependencies, end: Int64s) -> Int32s:
    """The thread that last launched something before each moment, else the last operator's, call's, annotation's.

    Not simply the last call's: threads that watch over collectives call the runtime all the time.
    """
    thread = np.full(len(end), NONE, np.int32)
    launched = np.flatnonzero(graph.thread >= 0)
    launched = launched[np.argsort(graph.launched[launched], kind="stable")]
    tables = [(each.start, each.thread) for each in (trace.annotations, trace.calls, trace.operators)]
    for start, threads in (*tables, (graph.launched[launched], graph.thread[launched])):
        where = np.searchsorted(start, end, "right") - 1
        there = where >= 0
        thread[there] = threads[where[there]]
    return thread


def _annotating(trace: Trace, graph: Dependencies, start: Int64s, otherwise: Int32s) -> Int32s:
    """The thread of the annotation that begins with each step, as the step's own does, if it does anything else.

    In containers the profiler may give its own annotations a thread's other number.
    """
    if not len(trace.annotations):
        return otherwise
    where = np.minimum(np.searchsorted(trace.annotations.start, start), len(trace.annotations) - 1)
    thread = trace.annotations.thread[where]
    at_work = np.isin(thread, np.union1d(graph.thread, trace.operators.thread))
    return np.where(at_work & (trace.annotations.start[where] == start), thread, otherwise)


def chains(trace: Trace, graph: Dependencies, windows: Spans) -> Stretches:
    """All paths, from the last step's end backwards: each node gives the moments between which its parts lie."""
    nodes, step = _walk(trace, graph, windows)
    later = np.concatenate([[NONE], nodes[:-1]])
    fresh = np.ones(len(nodes), np.bool_)
    fresh[1:] = step[1:] != step[:-1]
    later[fresh] = NONE
    times = _moments(trace, graph, nodes, windows.start[step])
    wide = times.shape[1]
    inside = np.clip(times, windows.start[step][:, None], windows.end[step][:, None])
    lower = np.minimum.accumulate(inside.ravel())
    upper = np.concatenate([windows.end[step[:1]], lower[:-1]])
    upper[::wide][fresh] = windows.end[step[fresh]]
    keep = np.flatnonzero(upper > lower)
    node, which = keep // wide, keep % wide
    category = _categories(trace, graph, nodes, later, windows.thread[step])
    threads = np.full(times.shape, NONE, np.int32)
    threads[:, 0] = _threads(graph, later, windows.thread[step])
    took = np.flatnonzero(nodes >= len(trace.gpu))
    threads[took, 1] = graph.turns.thread[nodes[took] - len(trace.gpu)]
    return Stretches(
        step=step[node],
        category=category[node, which],
        start=lower[keep],
        end=upper[keep],
        node=nodes[node],
        later=later[node],
        thread=threads[node, which],
    )


def _walk(trace: Trace, graph: Dependencies, windows: Spans) -> tuple[Places, Places]:
    """The nodes of all paths, latest first, each path closed by -1, and the step of each."""
    events = len(trace.gpu)
    before = graph.before.tolist()
    begin = np.concatenate([trace.gpu.start, graph.turns.at]).tolist()
    host = graph.turns.before(windows.thread, windows.end)
    first = np.where(windows.last >= 0, windows.last, np.where(host >= 0, host + events, NONE))
    path: list[int] = []
    lengths = []
    for start, node in zip(windows.start[::-1].tolist(), first[::-1].tolist(), strict=True):
        length = len(path)
        while node >= 0 and len(path) - length <= len(before):  # garbled times could lead in a circle
            path.append(node)
            node = before[node] if begin[node] > start else NONE
        path.append(NONE)
        lengths.append(len(path) - length)
    return np.array(path, np.intp), np.repeat(np.arange(len(lengths))[::-1], lengths)


def _moments(trace: Trace, graph: Dependencies, nodes: Places, start: Int64s) -> Int64s:
    """Three moments of each node in descending order; above each lies what `_categories` says.

    A GPU event: its end, its start, its launch. A turn: its own moment, then where it came from. The closing -1: the
    window's start.
    """
    events = len(trace.gpu)
    gpu, turn = (nodes >= 0) & (nodes < events), nodes >= events
    times = np.repeat(start[:, None], 3, axis=1)
    event = nodes[gpu]
    launched = np.where(graph.by_host[event], graph.launched[event], trace.gpu.start[event])
    times[gpu] = np.stack([trace.gpu.end[event], trace.gpu.start[event], launched], axis=1)
    which = nodes[turn] - events
    at = graph.turns.at[which]
    source = np.where(graph.turns.target[which] < 0, graph.turns.other_at[which], at)
    times[turn] = np.stack([at, source, source], axis=1)
    return times


def _categories(trace: Trace, graph: Dependencies, nodes: Places, later: Places, thread: Int32s) -> Int8s:
    """What lies above each of a node's moments."""
    events = len(trace.gpu)
    category = np.full((len(nodes), 3), Category.UNKNOWN, np.int8)
    category[:, 0] = _above(trace, graph, nodes, later, thread)
    gpu, turn = (nodes >= 0) & (nodes < events), nodes >= events
    category[gpu, 1] = _work(trace)[nodes[gpu]]
    category[gpu, 2] = Category.LAUNCH
    category[turn, 1] = Category.HANDOVER
    return category


def _above(trace: Trace, graph: Dependencies, nodes: Places, later: Places, thread: Int32s) -> Int8s:
    """What lies between each node and the later one that waited for it."""
    events = len(trace.gpu)
    from_gpu, from_turn = (later >= 0) & (later < events), later >= events
    above = np.where((later < 0) & (thread < 0), Category.UNKNOWN, Category.HOST).astype(np.int8)
    waiting = np.flatnonzero(from_gpu)
    waiting = waiting[~graph.by_host[later[waiting]]]
    above[waiting] = Category.GPU_WAIT
    unexplained = graph.thread[later[waiting]] < 0
    gap = trace.gpu.start[later[waiting]] - np.where(nodes[waiting] >= 0, _ends(trace, nodes[waiting]), 0)
    unexplained &= gap > (graph.latency_ns or 0)
    above[waiting[unexplained | (nodes[waiting] < 0)]] = Category.UNKNOWN
    turned = np.flatnonzero(from_turn)
    waited = graph.turns.target[later[turned] - events] >= 0
    above[turned[waited]] = Category.SYNC
    return above


def _ends(trace: Trace, nodes: Places) -> Int64s:
    return trace.gpu.end[np.clip(nodes, 0, len(trace.gpu) - 1)]


def _threads(graph: Dependencies, later: Places, thread: Int32s) -> Int32s:
    """The host thread that was at work below each later node."""
    events = len(graph.by_host)
    found = np.where(later < 0, thread, NONE).astype(np.int32)
    from_gpu, from_turn = (later >= 0) & (later < events), later >= events
    found[from_gpu] = graph.thread[later[from_gpu]]
    which = later[from_turn] - events
    came = graph.turns.target[which] < 0
    found[from_turn] = np.where(came, graph.turns.other[which], graph.turns.thread[which])
    return found


def _work(trace: Trace) -> Int8s:
    """The category of each GPU event's own time."""
    work = np.where(_communication(trace)[trace.gpu.name], Category.COMMUNICATION, Category.COMPUTATION)
    return np.where(trace.gpu.kind == Kind.KERNEL, work, Category.MEMORY).astype(np.int8)


def _communication(trace: Trace) -> Booleans:
    communication = np.zeros(len(trace.names), np.bool_)
    for name in np.unique(trace.gpu.name).tolist():
        communication[name] = is_communication(trace.names[name])
    return communication
