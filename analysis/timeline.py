"""All events of a trace as a viewer draws them: each on a lane, at a depth, with what is known of it.

Lanes are numbered from 0: the streams of the devices, what waited on each, then the host's threads, and the Python
calls of each. On a lane events nest (`nesting.nest`): an event's depth is how many of its lane are around it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, overload

import msgspec
import numpy as np
import numpy.typing as npt

from warpmeter.analysis.nesting import nest
from warpmeter.analysis.trace import NONE, Annotations, GpuEvents, Int32s, Int64s, Kind, Operators, Spans, Trace

Group = Mapping[str, Sequence[Any] | np.ndarray[Any, Any]]
"""Columns of one length."""
Integers = npt.NDArray[np.integer[Any]]
MOST_LANES: Final = 65_535
"""What is more shares the last one."""
_CLASSES: Final = {"gpu": 0, "waits": 1, "calls": 2, "operators": 2, "annotations": 2, "frames": 3}
"""The order of lanes, and which tables share them."""


class Texts(Sequence[str]):
    """A column of texts that is kept as numbers of a few: 4 bytes a row until it is read."""

    def __init__(self, texts: Sequence[str], codes: npt.NDArray[np.integer[Any]]) -> None:
        self._texts = texts
        self._codes = codes

    def __len__(self) -> int:
        return len(self._codes)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        texts = self._texts
        if isinstance(index, int):
            return texts[int(self._codes[index])]
        return [texts[code] for code in self._codes[index].tolist()]


@dataclass(frozen=True, eq=False)
class _Placed:
    """Lane and depth of each event of a table."""

    lane: npt.NDArray[np.uint16]
    depth: npt.NDArray[np.uint16]


def timeline(trace: Trace, began: int) -> list[Group]:
    """All events, a group a table of the trace; times from `began`, nanoseconds."""
    placed = _placed(trace)
    groups = (*_on_devices(trace), *_on_host(trace))
    return [
        {**_event(trace, events, began), "lane": placed[table].lane, "depth": placed[table].depth, **more}
        for table, events, more in groups
        if len(events)
    ]


def _event(trace: Trace, events: Spans, began: int) -> dict[str, Any]:
    return {
        "start_ns": events.start - began,
        "duration_ns": events.duration,
        "name": Texts(trace.names, events.name),
    }


_Described = tuple[str, Spans, Mapping[str, Any]]


def _on_devices(trace: Trace) -> Iterator[_Described]:
    kinds = [kind.name.lower() for kind in Kind]
    yield (
        "gpu",
        trace.gpu,
        {
            "kind": Texts(kinds, trace.gpu.kind),
            **_of_device(trace.gpu),
            "external": trace.gpu.external,
            "arguments": _of_gpu(trace, trace.gpu),
        },
    )
    yield "waits", trace.waits, {"kind": _same("wait", trace.waits), **_of_device(trace.waits)}


def _of_device(events: Any) -> dict[str, Any]:
    return {"device": events.device, "stream": events.stream, "correlation": events.correlation}


def _on_host(trace: Trace) -> Iterator[_Described]:
    calls, operators = trace.calls, trace.operators
    yield "calls", calls, {**_of_thread(trace, "call", calls), "correlation": calls.correlation}
    yield (
        "operators",
        operators,
        {
            **_of_thread(trace, "operator", operators),
            "external": operators.external,
            "sequence": operators.sequence,
            "arguments": _of_inputs(trace, operators, operators.collective),
        },
    )
    marks = trace.annotations
    none = np.full(len(marks), NONE, np.int32)
    yield (
        "annotations",
        marks,
        {**_of_thread(trace, "annotation", marks), "arguments": _of_inputs(trace, marks, none)},
    )
    yield "frames", trace.frames, _of_thread(trace, "frame", trace.frames)


def _of_thread(trace: Trace, kind: str, events: Any) -> dict[str, Any]:
    return {
        "kind": _same(kind, events),
        "correlation": np.full(len(events), NONE, np.int64),
        "thread": Texts([f"{each.pid}/{each.tid}" for each in trace.threads], events.thread),
        "thread_name": Texts([each.name or each.process_name for each in trace.threads], events.thread),
    }


def _same(kind: str, events: Spans) -> Texts:
    return Texts([kind], np.zeros(len(events), np.int32))


# --- where it is drawn -------------------------------------------------------------------------------------------


def _placed(trace: Trace) -> dict[str, _Placed]:
    """Lanes of all tables, numbered together, and depths on them."""
    tables: dict[str, Any] = {name: getattr(trace, name) for name in _CLASSES}
    keys = {name: _keys(order, tables[name]) for name, order in _CLASSES.items()}
    _, lanes = _distinct([np.concatenate(column) for column in zip(*keys.values(), strict=True)])
    start = np.concatenate([table.start for table in tables.values()])
    end = np.concatenate([table.end for table in tables.values()])
    lanes = np.minimum(lanes, MOST_LANES - 1)
    depth = _depths(lanes, start, end)
    lane = lanes.astype(np.uint16)
    cuts = np.cumsum([len(table) for table in tables.values()])[:-1]
    split = zip(tables, np.split(lane, cuts), np.split(depth, cuts), strict=True)
    return {name: _Placed(of, deep) for name, of, deep in split}


def _keys(order: int, events: Any) -> tuple[Int64s, Int64s, Int64s]:
    """What names a lane: its class; device and stream, or the thread."""
    first = events.device if order < 2 else events.thread
    second = events.stream if order < 2 else np.zeros(len(events), np.int64)
    return np.full(len(events), order, np.int64), first.astype(np.int64), second


def _depths(lane: Int32s, start: Int64s, end: Int64s) -> npt.NDArray[np.uint16]:
    order = np.lexsort((start - end, start))
    found = np.empty(len(order), np.uint16)
    found[order] = np.minimum(nest(lane[order], start[order], end[order]).depth, 65_535)
    return found


# --- what is known of it -----------------------------------------------------------------------------------------


def _of_inputs(trace: Trace, events: Operators | Annotations, collective: Int32s) -> Texts:
    """Arguments of operators, as JSON: each that occurs is written once."""

    def told(inputs: int, met: int) -> Iterator[tuple[str, Any]]:
        if inputs != NONE:
            yield from ((name, value) for name, value in asdict(trace.inputs[inputs]).items() if value)
        yield from _collective(trace, met)

    return _written([events.inputs, collective], told)


def _of_gpu(trace: Trace, events: GpuEvents) -> Texts:
    """Arguments of GPU events, as JSON."""
    permille = np.where(np.isnan(events.occupancy), NONE, np.nan_to_num(events.occupancy) * 1000).astype(np.int64)

    def told(moved: int, occupancy: int, met: int, launch: int) -> Iterator[tuple[str, Any]]:
        if launch != NONE:
            yield from (
                (name, value) for name, value in asdict(trace.launches[launch]).items() if value not in ((), NONE)
            )
        if moved >= 0:
            yield "bytes", moved
        if occupancy >= 0:
            yield "occupancy", occupancy / 1000
        yield from _collective(trace, met)

    return _written([events.bytes, permille, events.collective, events.launch], told)


def _collective(trace: Trace, place: int) -> Iterable[tuple[str, Any]]:
    if place == NONE:
        return ()
    found = asdict(trace.collectives[place])
    return (("collective", {name: value for name, value in found.items() if value not in ("", 0, NONE, ())}),)


def _written(columns: Sequence[Integers], told: Callable[..., Iterable[tuple[str, Any]]]) -> Texts:
    distinct, codes = _distinct(columns)
    rows = zip(*(values.tolist() for values in distinct), strict=True)
    return Texts([_json(dict(told(*row))) for row in rows], codes)


def _distinct(columns: Sequence[Integers]) -> tuple[list[Integers], Int32s]:
    """The different rows of columns in ascending order, as columns, and which of them each row is."""
    codes = np.zeros(len(columns[0]), np.int64)
    for values in columns:
        found, code = np.unique(values, return_inverse=True)
        _, codes = np.unique(codes * (len(found) + 1) + code, return_inverse=True)
    _, first = np.unique(codes, return_index=True)
    return [values[first] for values in columns], codes.astype(np.int32)


def _json(told: Mapping[str, Any]) -> str:
    return msgspec.json.encode(told).decode() if told else ""
