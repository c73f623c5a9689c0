"""From the tables of one or more readers to a trace."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, Final, TypeVar, get_args, get_type_hints, overload

import msgspec
import numpy as np
from msgspec import DecodeError

from warpmeter.analysis import trace as columns
from warpmeter.analysis.read.decode import MENDED
from warpmeter.analysis.read.head import devices, distributed, whole
from warpmeter.analysis.read.reader import Document
from warpmeter.analysis.read.tables import NO_EVENT, NO_TIME, Index, Tables
from warpmeter.analysis.trace import NONE, Collective, Columns, Inputs, Launch, Thread, Trace

T = TypeVar("T", bound=Columns)
_ANY: Final = msgspec.json.Decoder()
_KNOWN: Final = ("deviceProperties", "distributedInfo", "baseTimeNanoseconds")


def build(path: str, parts: Sequence[Tables], document: Document) -> Trace:
    """One trace of what the readers of a file found."""
    joined = Joined(parts)
    head = document.head
    return Trace(
        file=path.encode("utf-8", "replace").decode(),  # a name of other bytes could be written nowhere
        gpu=joined.table(columns.GpuEvents),
        calls=joined.table(columns.Calls),
        operators=joined.table(columns.Operators),
        annotations=joined.table(columns.Annotations),
        gpu_annotations=joined.table(columns.GpuAnnotations),
        frames=joined.table(columns.Frames),
        waits=joined.table(columns.Waits),
        allocations=joined.table(columns.Allocations),
        flows=joined.table(columns.Flows),
        counters=joined.table(columns.Counters),
        names=list(joined.names),
        threads=joined.known_threads(),
        inputs=KnownInputs(list(joined.inputs)),
        collectives=list(joined.collectives),
        launches=list(map(_launch, joined.launches)),
        devices=devices(head.get("deviceProperties")),
        distributed=distributed(head.get("distributedInfo")),
        epoch_ns=whole(head.get("baseTimeNanoseconds"), 0),
        events=sum(part.events for part in parts),
        metadata={key: value for key, value in head.items() if key not in _KNOWN},
        notes=(*document.notes, *_odd(parts)),
    )


_NOTES: Final = {
    NO_EVENT: "left out, as they are no events or not whole: {:,} or more",
    NO_TIME: "events left out, as their time or duration is no number or out of range: {:,}",
    MENDED: "places that are no JSON (NaN, infinity, bad characters) and were mended: {:,} or more",
}


def _odd(parts: Sequence[Tables]) -> list[str]:
    counts: dict[str, int] = {}
    for part in parts:
        for what, count in part.odd.items():
            counts[what] = counts.get(what, 0) + count
    return [text.format(counts[what]) for what, text in _NOTES.items() if what in counts]


class Joined:
    """Tables of several readers under one set of indexes."""

    def __init__(self, parts: Sequence[Tables]) -> None:
        self._parts = parts
        self.names, self.threads, self.inputs, self.collectives = Index(), Index(), Index(), Index()
        self.launches = Index()
        self._maps = [self._map(part) for part in parts]

    def _map(self, part: Tables) -> Mapping[str, Any]:
        """New indexes by old ones; the last entry is `NONE`'s, which is -1."""
        threads = [(_text(pid), _text(tid)) for pid, tid in part.threads]
        inputs, launches = list(part.inputs)[1:], list(part.launches)[1:]
        return {
            "name": self.names.of(list(part.names)),
            "thread": self.threads.of(threads),
            "launch": np.append(self.launches.of(launches), np.int32(NONE)),
            "inputs": np.append(self.inputs.of(inputs), np.int32(NONE)),
            "collective": np.append(self.collectives.of(list(map(_collective, part.collectives))), np.int32(NONE)),
        }

    def table(self, kind: type[T]) -> T:
        """All events of a table, in the order that `trace` promises."""
        pieces = sorted(
            ((chunk, arrays, maps) for part, maps in zip(self._parts, self._maps, strict=True)
             for chunk, arrays in part.parts(kind)),
            key=lambda piece: piece[0],
        )  # fmt: skip
        found = {name: _joined(name, dtype, pieces) for name, dtype in _dtypes(kind.__name__).items()}
        order = _order(found["start"], found.get("duration"))
        return kind(**(found if order is None else {name: values[order] for name, values in found.items()}))

    def known_threads(self) -> list[Thread]:
        """Threads by their index, with the names that the trace gives them."""
        processes: dict[str, str] = {}
        threads: dict[tuple[str, str], str] = {}
        for part in self._parts:
            processes |= part.process_names
            threads |= part.thread_names
        return [Thread(pid, tid, processes.get(pid, ""), threads.get((pid, tid), "")) for pid, tid in self.threads]


def _text(word: object) -> str:
    return "" if word is None else str(word)


@cache
def _dtypes(kind: str) -> Mapping[str, Any]:
    """The columns of a table and their types, as `trace` declares them."""
    table = getattr(columns, kind)
    hints = get_type_hints(table)
    return {column.name: get_args(get_args(hints[column.name])[1])[0] for column in fields(table)}


def _joined(name: str, dtype: Any, pieces: Sequence[tuple[int, Mapping[str, Any], Mapping[str, Any]]]) -> Any:
    """One column of all pieces, each piece's own let go."""
    arrays = [maps[name][values[name]] if name in maps else values[name] for _, values, maps in pieces]
    return np.concatenate(arrays).astype(dtype, copy=False) if arrays else np.empty(0, dtype)


def _order(start: Any, duration: Any) -> Any:
    """By start; those that start together the longer first, then as in the file. None if they stand so."""
    rising = np.diff(start)
    ties = np.flatnonzero(rising == 0)
    if (rising >= 0).all() and (duration is None or not (duration[ties + 1] > duration[ties]).any()):
        return None
    order = np.argsort(start, kind="stable")
    if duration is None:
        return order
    sorted_start = start[order]
    same = sorted_start[1:] == sorted_start[:-1]
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    among = order[tied]
    order[tied] = among[np.lexsort((-duration[among], start[among]))]
    return order


def _collective(values: tuple[Any, ...]) -> Collective:
    name, dtype, inside, outside, group, description, size, first, stride, source, target, ranks = values
    return Collective(
        name=name,
        dtype=dtype,
        in_elements=inside or 0,
        out_elements=outside or 0,
        group_name=_text(group),
        group_description=description or "",
        group_size=size or 0,
        group_ranks=_ranks(ranks, size or 0, first, stride),
        source=NONE if source is None else source,
        target=NONE if target is None else target,
    )


def _launch(text: bytes) -> Launch:
    grid, block, registers, shared = map(_decoded, text.split(b"\0"))
    return Launch(_sizes(grid), _sizes(block), _size(registers), _size(shared))


def _sizes(value: Any) -> tuple[int, ...]:
    return tuple(map(_size, value)) if isinstance(value, list) else ()


def _size(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 53 else NONE


def _ranks(text: bytes, size: int, first: int | None, stride: int | None) -> tuple[int, ...]:
    """Ranks of a group: a list, or its text, or (long ones are cut short) from the first rank and the stride."""
    ranks = _decoded(text)
    if isinstance(ranks, str):
        ranks = _decoded(ranks.encode())
    if isinstance(ranks, list) and all(isinstance(rank, int) for rank in ranks):
        return tuple(ranks)
    if first is not None and first >= 0 and stride and stride > 0 and 0 < size <= 1 << 20:
        return tuple(range(first, first + size * stride, stride))
    return ()


def _decoded(text: bytes) -> Any:
    try:
        return _ANY.decode(text)
    except (DecodeError, RecursionError):
        return None


class KnownInputs(Sequence[Inputs]):
    """Inputs by their index, decoded when asked for: their text may be of as many kinds as there are operators."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, index: int) -> Inputs: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Inputs]: ...
    def __getitem__(self, index: int | slice) -> Inputs | Sequence[Inputs]:
        if isinstance(index, slice):
            return KnownInputs(self._texts[index])
        dims, types, concrete, strides = map(_list, self._texts[index].split(b"\0"))
        return Inputs(dims, tuple(kind if isinstance(kind, str) else "" for kind in types), concrete, strides)


def _list(text: bytes) -> tuple[Any, ...]:
    value = _decoded(text)
    if isinstance(value, str):
        value = _decoded(value.encode())
    return tuple(value) if isinstance(value, list) else ()
