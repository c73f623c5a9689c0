"""What a host thread did during some stretches of time: the innermost call or operator, or nothing that is known."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from warpmeter.analysis.nesting import nest
from warpmeter.analysis.trace import Annotations, Calls, Int32s, Int64s, Operators, Places, Trace
from warpmeter.analysis.windows import PROFILER_STEP

OUTSIDE: Final = "outside operators"

_Host = Calls | Operators | Annotations


@dataclass(frozen=True, eq=False)
class Pieces:
    """Stretches cut by what was done: `of` is the stretch (they stand in its order), `label` has a text in `names`."""

    of: Places
    start: Int64s
    end: Int64s
    label: Int64s
    names: dict[int, str]


def host_work(trace: Trace, thread: Int32s, start: Int64s, end: Int64s) -> Pieces:
    """What was done in each stretch, piece by piece; neighbours of one name are one.

    A call of the runtime goes before the operator around it. Outside of both the innermost annotation says where.
    """
    found = [_on_thread(trace, int(each), np.flatnonzero(thread == each), start, end) for each in np.unique(thread)]
    if not found:
        nothing = np.empty(0, np.int64)
        return Pieces(np.empty(0, np.intp), nothing, nothing, nothing, {})
    of, begin, until, label = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.lexsort((begin, of))
    names = {each: _text(trace, each) for each in np.unique(label).tolist()}
    return _joined(Pieces(of[order], begin[order], until[order], label[order], names))


def _on_thread(
    trace: Trace, thread: int, where: Places, start: Int64s, end: Int64s
) -> tuple[Places, Int64s, Int64s, Int64s]:
    """The pieces of one thread's stretches."""
    start, end = start[where], end[where]
    at, label = _cuts(trace, thread, int(start.min()), int(end.max()))
    first = np.searchsorted(at, start, "right")
    count = np.maximum(np.searchsorted(at, end, "left") - first, 0) + 1
    of = np.repeat(np.arange(len(where)), count)
    cut = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count) + first[of] - 1
    at = np.concatenate([[np.iinfo(np.int64).min], at, [np.iinfo(np.int64).max]])
    label = np.concatenate([[-1], label])
    return where[of], np.maximum(at[cut + 1], start[of]), np.minimum(at[cut + 2], end[of]), label[cut + 1]


def _joined(pieces: Pieces) -> Pieces:
    fresh = np.ones(len(pieces.of), np.bool_)
    fresh[1:] = (pieces.of[1:] != pieces.of[:-1]) | (pieces.label[1:] != pieces.label[:-1])
    last = np.append(fresh[1:], True)
    return Pieces(pieces.of[fresh], pieces.start[fresh], pieces.end[last], pieces.label[fresh], pieces.names)


def _cuts(trace: Trace, thread: int, low: int, high: int) -> tuple[Int64s, Int64s]:
    """Moments at which something begins or ends on the thread, and what goes on after each: a label, -1 for nothing."""
    tables: tuple[_Host, ...] = (trace.calls, trace.operators, _without_steps(trace))
    here = [_within(table, thread, low, high) for table in tables]
    at = np.unique(np.concatenate([np.concatenate([table.start, table.end]) for table in here]))
    label = np.full(len(at), -1, np.int64)
    for rank, table in enumerate(here):
        tree = nest(np.zeros(len(table), np.int32), table.start, table.end)
        inner = tree.innermost(np.zeros(len(at), np.int32), at)
        fresh = (label < 0) & (inner >= 0)
        label[fresh] = table.name[inner[fresh]].astype(np.int64) * 2 + (rank == 2)
    return at, label


def _text(trace: Trace, label: int) -> str:
    if label < 0:
        return OUTSIDE
    name = trace.names[label // 2]
    return f"{OUTSIDE}, in {name}" if label % 2 else name


def _without_steps(trace: Trace) -> Annotations:
    steps = [i for i, name in enumerate(trace.names) if PROFILER_STEP.fullmatch(name)]
    return trace.annotations.take(~np.isin(trace.annotations.name, np.array(steps, np.int32)))


def _within(table: _Host, thread: int, low: int, high: int) -> _Host:
    return table.take((table.thread == thread) & (table.start < high) & (table.end > low))
