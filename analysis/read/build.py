"""From decoded events to the columns of a trace."""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET

from warpmeter.analysis import trace as columns
from warpmeter.analysis.read.numbers import nanoseconds
from warpmeter.analysis.read.shapes import ABSENT, Args, Event
from warpmeter.analysis.trace import NONE, Collective, Inputs, Kind, Thread

T = TypeVar("T", bound=columns.Columns)
GPU: Final = {
    "kernel": Kind.KERNEL,
    "mtia_ccp_events": Kind.KERNEL,
    "gpu_memcpy": Kind.MEMCPY,
    "memcpy": Kind.MEMCPY,
    "gpu_memset": Kind.MEMSET,
    "memset": Kind.MEMSET,
}
CALLS: Final = {"cuda_runtime", "cuda_driver", "runtime", "mtia_runtime", "xpu_runtime", "privateuse1_runtime"}
_ARGS = msgspec.json.Decoder(Args, strict=False)
_ANY = msgspec.json.Decoder()
_NO_ARGS = Args()


class Index(dict[Any, int]):
    """Numbers each key when it is first asked for."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


class Build:
    """Takes events one by one; `table` gives the columns."""

    def __init__(self) -> None:
        self.names, self.threads, self.inputs, self.collectives = Index(), Index(), Index(), Index()
        self.rows: dict[type[columns.Columns], list[dict[str, Any]]] = {}
        self.process_names: dict[str, str] = {}
        self.thread_names: dict[tuple[str, str], str] = {}

    def add(self, event: Event) -> None:
        """Files one event in its table; those that no table takes are passed over."""
        cat = (event.cat or "").lower()
        if event.ph == "X" and event.dur is not UNSET and event.ts is not UNSET:
            self._span(cat, event)
        elif event.ph in ("i", "I") and event.name == "[memory]":
            self._allocation(event)
        elif event.ph in ("s", "f") and cat == "fwdbwd":
            self._row(columns.Flows, event, id=event.id, thread=self._thread(event), begins=event.ph == "s")
        elif event.ph == "C":
            self._counter(event)
        elif event.ph == "M":
            self._metadata(event)

    def _span(self, cat: str, event: Event) -> None:
        if cat in GPU:
            self._gpu(GPU[cat], event)
        elif cat in CALLS:
            a = _args(event)
            self._row(columns.Calls, event, thread=self._thread(event), correlation=a.correlation, external=a.external)
        elif cat in ("cpu_op", "operator"):
            self._operator(event)
        elif cat == "user_annotation":
            self._row(columns.Annotations, event, thread=self._thread(event), external=_args(event).external)
        elif cat == "gpu_user_annotation":
            self._row(columns.GpuAnnotations, event, device=_number(event.pid), stream=_number(event.tid))
        elif cat in ("python_function", "python"):
            a = _args(event)
            self._row(columns.Frames, event, thread=self._thread(event), id=a.id, parent=a.parent)
        elif cat == "cuda_sync":
            a = _args(event)
            self._row(
                columns.Waits,
                event,
                device=a.device,
                stream=a.stream,
                correlation=a.correlation,
                on_stream=a.on_stream,
                on_correlation=a.on_correlation,
            )

    def _gpu(self, kind: Kind, event: Event) -> None:
        a = _args(event)
        self._row(
            columns.GpuEvents,
            event,
            kind=int(kind),
            device=a.device if a.device != NONE else _number(event.pid),
            stream=a.stream if a.stream != NONE else _number(event.tid),
            correlation=a.correlation,
            external=a.external,
            bytes=a.bytes,
            occupancy=float("nan") if a.occupancy is None else a.occupancy / 100,
            collective=self._collective(a),
        )

    def _operator(self, event: Event) -> None:
        a = _args(event)
        self._row(
            columns.Operators,
            event,
            thread=self._thread(event),
            external=a.external,
            sequence=a.sequence,
            forward_thread=a.forward,
            inputs=self._inputs(a),
            collective=self._collective(a),
        )

    def _inputs(self, a: Args) -> int:
        if a.dims is UNSET and a.types is UNSET:
            return NONE
        return self.inputs[tuple(b"" if x is UNSET else bytes(x) for x in (a.dims, a.types, a.concrete, a.strides))]

    def _collective(self, a: Args) -> int:
        if a.collective is UNSET:
            return NONE
        ranks = _ANY.decode(a.group_ranks) if a.group_ranks is not UNSET else ()
        if isinstance(ranks, str):
            try:
                ranks = _ANY.decode(ranks)
            except msgspec.DecodeError:  # Kineto cuts long lists: "[0, 1, 2, ..., 63]"
                ranks = ()
        return self.collectives[
            Collective(
                name=a.collective,
                dtype=a.dtype,
                in_elements=a.inside or 0,
                out_elements=a.outside or 0,
                group_name=str(a.group or ""),
                group_description=a.group_description or "",
                group_size=a.group_size or 0,
                group_ranks=tuple(rank for rank in ranks if isinstance(rank, int)),
                source=ABSENT if a.source is None else a.source,
                target=ABSENT if a.target is None else a.target,
            )
        ]

    def _allocation(self, event: Event) -> None:
        a = _args(event)
        self._row(
            columns.Allocations,
            event,
            thread=self._thread(event),
            address=a.address,
            bytes=a.size,
            device_type=a.device_type,
            device=a.device_id,
            allocated=a.allocated,
            reserved=a.reserved,
        )

    def _counter(self, event: Event) -> None:
        values = _ANY.decode(event.args) if event.args is not UNSET else {}
        for series, value in values.items():
            if isinstance(value, int | float):
                name = self.names[f"{event.name} {series}"]
                self._row(columns.Counters, event, name=name, value=float(value))

    def _metadata(self, event: Event) -> None:
        values = _ANY.decode(event.args) if event.args is not UNSET else {}
        name = str(values.get("name", ""))
        if event.name == "process_name":
            self.process_names[str(event.pid)] = name
        elif event.name == "thread_name":
            self.thread_names[str(event.pid), str(event.tid)] = name

    def _thread(self, event: Event) -> int:
        return self.threads[str(event.pid), str(event.tid)]

    def _row(self, table: type[columns.Columns], event: Event, **values: Any) -> None:
        values |= {"start": event.ts}
        if issubclass(table, columns.Spans):
            values |= {"duration": event.dur, "name": self.names[event.name or ""]}
        self.rows.setdefault(table, []).append(values)

    def table(self, kind: type[T]) -> T:
        """The columns of one table, in the order that `trace` promises."""
        rows = self.rows.get(kind, [])
        arrays = {column.name: _array(column.name, column.type, rows) for column in fields(kind)}
        order = (
            np.lexsort((-arrays["duration"], arrays["start"])) if "duration" in arrays else arrays["start"].argsort()
        )
        return kind(**{name: array[order] for name, array in arrays.items()})

    def known_threads(self) -> list[Thread]:
        """Threads by their index, with the names that the trace gives them."""
        return [
            Thread(pid, tid, self.process_names.get(pid, ""), self.thread_names.get((pid, tid), ""))
            for pid, tid in self.threads
        ]

    def known_inputs(self) -> list[Inputs]:
        """Inputs by their index."""
        return [Inputs(*(tuple(_ANY.decode(text)) if text else () for text in key)) for key in self.inputs]


_TYPES: Final = {
    "kind": np.int8,
    "occupancy": np.float32,
    "begins": np.bool_,
    "value": np.float64,
    **dict.fromkeys(("name", "thread", "device", "device_type", "inputs", "collective"), np.int32),
}


def _array(name: str, _type: Any, rows: Sequence[dict[str, Any]]) -> Any:
    values = [row[name] for row in rows]
    if name in ("start", "duration"):
        return nanoseconds(values)
    return np.array([NONE if value is None else value for value in values], _TYPES.get(name, np.int64))


def _args(event: Event) -> Args:
    return _ARGS.decode(event.args) if event.args is not UNSET else _NO_ARGS


def _number(word: int | str | None) -> int:
    return word if isinstance(word, int) else int(word) if word and word.isdecimal() else NONE


def build(events: Iterable[Event]) -> Build:
    """All events filed."""
    filed = Build()
    for event in events:
        filed.add(event)
    return filed
