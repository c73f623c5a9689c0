"""From lists of decoded events to arrays: one handler for each category, called once a chunk."""

from collections import Counter as Counted
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import UNSET

from warpmeter.analysis import trace as columns
from warpmeter.analysis.read import shapes
from warpmeter.analysis.read.numbers import addresses, integers, nanoseconds, number, numbers, small
from warpmeter.analysis.read.shapes import Args, Span
from warpmeter.analysis.trace import NONE, Columns, Int32s, Int64s, Kind

Arrays = dict[str, Any]
GPU: Final = {
    "kernel": Kind.KERNEL,
    "mtia_ccp_events": Kind.KERNEL,
    "gpu_memcpy": Kind.MEMCPY,
    "memcpy": Kind.MEMCPY,
    "gpu_memset": Kind.MEMSET,
    "memset": Kind.MEMSET,
}
OTHERS: Final[Mapping[str, type[Columns]]] = {
    "cpu_op": columns.Operators,
    "operator": columns.Operators,
    "user_annotation": columns.Annotations,
    "gpu_user_annotation": columns.GpuAnnotations,
    "python_function": columns.Frames,
    "python": columns.Frames,
    "cuda_sync": columns.Waits,
    "runtime": columns.Calls,
}
LATEST: Final = 8_000_000_000_000_000_000
EARLIEST: Final = -100_000_000_000_000_000
LONGEST: Final = 366 * 86_400_000_000_000
"""Bounds of starts and durations: differences of any two times between them are exact in int64."""
NO_TIME: Final = "no time"
NO_EVENT: Final = "no event"
NO_INPUTS: Final = b"\0\0\0"
"""Dimensions, types, concrete inputs and strides, with a byte between that JSON cannot hold."""
NO_LAUNCH: Final = b"\0\0\0"
"""Grid, block, registers and shared memory, likewise."""
_ANY: Final = msgspec.json.Decoder()


class Index(dict[Any, int]):
    """Numbers each key when it is first asked for."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number

    def of(self, keys: Sequence[Any]) -> Int32s:
        """The number of each."""
        return np.fromiter(map(self.__getitem__, keys), np.int32, len(keys))


class _Kinds(dict[str | None, int]):
    """A small number for each category as it is written; 0 for those that nobody reads."""

    def __missing__(self, cat: str | None) -> int:
        lower = (cat or "").lower()
        call = lower.endswith(("_runtime", "_driver"))
        table = columns.GpuEvents if lower in GPU else columns.Calls if call else OTHERS.get(lower)
        self[cat] = code = 0 if table is None else 1 + _TABLES.index(table)
        return code


_TABLES: Final[tuple[type[Columns], ...]] = (columns.GpuEvents, columns.Calls, *dict.fromkeys(OTHERS.values()))


class _GpuKinds(dict[str | None, int]):
    """What a GPU event is, by its category as it is written."""

    def __missing__(self, cat: str | None) -> int:
        self[cat] = kind = GPU[(cat or "").lower()]
        return kind


_OTHER_KINDS: Final = {kind for kind in shapes.READ.values() if kind is not Span}


class Tables:
    """Arrays of each table, in pieces: one of each chunk of the file that has events for it."""

    def __init__(self) -> None:
        self.pieces: dict[type[Columns], list[tuple[int, Arrays]]] = {}
        self.joined: dict[type[Columns], tuple[list[int], Int64s, Arrays]] = {}
        self.names, self.threads, self.collectives = Index(), Index(), Index()
        self.inputs, self.launches = Index({NO_INPUTS: 0}), Index({NO_LAUNCH: 0})
        self.process_names: dict[str, str] = {}
        self.thread_names: dict[tuple[str, str], str] = {}
        self.events = 0
        self.chunks = 0
        """Of the whole file, not of the share: readers that saw different files tell it by this."""
        self.odd: Counted[str] = Counted()
        self._kinds, self._gpu_kinds = _Kinds(), _GpuKinds()
        self._chunk = 0

    def add(self, chunk: int, events: Sequence[Any]) -> None:
        """Files the events of one chunk. Chunks may come in any order; `chunk` is their place in the file."""
        self._chunk = chunk
        self.events += len(events)
        spans = [event for event in events if event.__class__ is Span]
        if len(spans) < len(events):
            self._others([event for event in events if event.__class__ in _OTHER_KINDS])
        if spans:
            self._spans(spans)

    def _spans(self, spans: list[Span]) -> None:
        """Files events with a duration: their times all at once, the rest table by table."""
        codes = np.fromiter(map(self._kinds.__getitem__, [span.cat for span in spans]), np.int8, len(spans))
        times = nanoseconds([span.ts for span in spans] + [span.dur for span in spans])
        for code in np.flatnonzero(np.bincount(codes)[1:]) + 1:
            chosen = codes == code
            those = list(compress(spans, chosen.tobytes()))
            arrays: Arrays = {
                "start": times[: len(spans)][chosen],
                "duration": times[len(spans) :][chosen],
                "name": self.names.of([span.name for span in those]),
            }
            table = _TABLES[code - 1]
            args = [span.args or shapes.NO_ARGS for span in those]
            self._keep(table, arrays | _HANDLERS[table](self, those, args))

    def _keep(self, table: type[Columns], arrays: Arrays) -> None:
        """Keeps what has a time, and a duration where it should have one."""
        sound = (arrays["start"] >= EARLIEST) & (arrays["start"] <= LATEST)
        if "duration" in arrays:
            sound &= (arrays["duration"] >= 0) & (arrays["duration"] <= LONGEST)
        if not sound.all():
            self.odd[NO_TIME] += int(np.count_nonzero(~sound))
            arrays = {name: values[sound] for name, values in arrays.items()}
        self.pieces.setdefault(table, []).append((self._chunk, arrays))

    def join_pieces(self) -> None:
        """Makes one array a column of the pieces, the pieces views of it: what goes to another process goes at once."""
        for table, pieces in self.pieces.items():
            ends = np.cumsum([len(arrays["start"]) for _, arrays in pieces])
            whole = {name: np.concatenate([arrays[name] for _, arrays in pieces]) for name in pieces[0][1]}
            self.joined[table] = ([chunk for chunk, _ in pieces], ends[:-1], whole)
        self.pieces = {}

    def parts(self, table: type[Columns]) -> list[tuple[int, Arrays]]:
        """The pieces of a table, with the place of their chunks; they are let go."""
        if table not in self.joined:
            return self.pieces.pop(table, [])
        chunks, cuts, whole = self.joined.pop(table)
        split = {name: np.split(values, cuts) for name, values in whole.items()}
        return [(chunk, {name: split[name][at] for name in split}) for at, chunk in enumerate(chunks)]

    def _thread(self, events: Sequence[Any]) -> Int32s:
        return self.threads.of([(event.pid, event.tid) for event in events])

    def _gpu(self, spans: Sequence[Span], args: Sequence[Args]) -> Arrays:
        return {
            "kind": np.fromiter(map(self._gpu_kinds.__getitem__, [span.cat for span in spans]), np.int8, len(spans)),
            "device": _placed(small([a.device for a in args]), [span.pid for span in spans]),
            "stream": _placed(integers([a.stream for a in args]), [span.tid for span in spans]),
            "correlation": integers([a.correlation for a in args]),
            "external": _external(args),
            "bytes": integers([a.bytes for a in args]),
            "occupancy": _occupancy([a.occupancy for a in args]),
            "collective": self._collective(args),
            "launch": self._launch(args),
        }

    def _launch(self, args: Sequence[Args]) -> Int32s:
        return self.launches.of([b"\0".join((a.grid, a.block, a.registers, a.shared)) for a in args]) - np.int32(1)

    def _calls(self, spans: Sequence[Span], args: Sequence[Args]) -> Arrays:
        correlation = integers([a.correlation for a in args])
        return {"thread": self._thread(spans), "correlation": correlation, "external": _external(args)}

    def _operators(self, spans: Sequence[Span], args: Sequence[Args]) -> Arrays:
        return {
            "thread": self._thread(spans),
            "external": _external(args),
            "sequence": integers([a.sequence for a in args]),
            "forward_thread": integers([a.forward for a in args]),
            "inputs": self._inputs(args),
            "collective": self._collective(args),
        }

    def _inputs(self, args: Sequence[Args]) -> Int32s:
        keys = [b"\0".join((a.dims, a.types, a.concrete, a.strides)) for a in args]
        if NO_INPUTS in keys:
            keys = [_old_inputs(a) if key == NO_INPUTS else key for a, key in zip(args, keys, strict=True)]
        return self.inputs.of(keys) - np.int32(1)

    def _collective(self, args: Sequence[Args]) -> Int32s:
        told = [a.collective is not UNSET for a in args]
        indexes = np.full(len(args), NONE, np.int32)
        if any(told):
            keys = [(*_COLLECTIVE(a), bytes(a.group_ranks)) for a in compress(args, told)]
            indexes[told] = self.collectives.of(keys)
        return indexes

    def _annotations(self, spans: Sequence[Span], args: Sequence[Args]) -> Arrays:
        return {"thread": self._thread(spans), "external": _external(args), "inputs": self._inputs(args)}

    def _gpu_annotations(self, spans: Sequence[Span], args: Sequence[Args]) -> Arrays:
        return {
            "device": _placed(small([a.device for a in args]), [span.pid for span in spans]),
            "stream": _placed(integers([a.stream for a in args]), [span.tid for span in spans]),
        }

    def _frames(self, spans: Sequence[Span], args: Sequence[Args]) -> Arrays:
        parent = integers([a.parent for a in args])
        return {"thread": self._thread(spans), "id": integers([a.id for a in args]), "parent": parent}

    def _waits(self, spans: Sequence[Span], args: Sequence[Args]) -> Arrays:
        return {
            "device": _placed(small([a.device for a in args]), [span.pid for span in spans]),
            "stream": integers([a.stream for a in args]),
            "correlation": integers([a.correlation for a in args]),
            "on_stream": integers([a.on_stream for a in args]),
            "on_correlation": integers([a.on_correlation for a in args]),
        }

    def _others(self, events: Iterable[Any]) -> None:
        instants: list[shapes.Instant] = []
        arrows: list[shapes.Arrow] = []
        for event in events:
            match event:
                case shapes.Instant(name="[memory]"):
                    instants.append(event)
                case shapes.Arrow(cat="fwdbwd"):
                    arrows.append(event)
                case shapes.Metadata():
                    self._metadata(event)
                case shapes.Counter():
                    self._counter(event)
        if instants:
            self._allocations(instants)
        if arrows:
            self._arrows(arrows)

    def _allocations(self, instants: Sequence[shapes.Instant]) -> None:
        args = [instant.args or shapes.NO_MEMORY_ARGS for instant in instants]
        arrays = {
            "start": nanoseconds([instant.ts for instant in instants]),
            "thread": self._thread(instants),
            "address": addresses([a.address for a in args]),
            "bytes": integers([a.bytes if a.bytes is not None else 0 for a in args]),
            "device_type": small([a.device_type for a in args]),
            "device": small([a.device for a in args]),
            "allocated": integers([a.allocated for a in args]),
            "reserved": integers([a.reserved for a in args]),
        }
        self._keep(columns.Allocations, arrays)

    def _arrows(self, arrows: Sequence[shapes.Arrow]) -> None:
        arrays = {
            "start": nanoseconds([arrow.ts for arrow in arrows]),
            "id": numbers(arrow.id for arrow in arrows),
            "thread": self._thread(arrows),
            "begins": np.array([not isinstance(arrow, shapes.ArrowEnd) for arrow in arrows], np.bool_),
        }
        self._keep(columns.Flows, arrays)

    def _counter(self, event: shapes.Counter) -> None:
        values = _object(event.args)
        told = {key: value for key, value in values.items() if _is_number(value)}
        if not told:
            return
        arrays = {
            "start": np.repeat(nanoseconds([event.ts]), len(told)),
            "name": self.names.of([f"{event.name} {series}".strip() for series in told]),
            "value": np.array([float(value) for value in told.values()], np.float64),
        }
        self._keep(columns.Counters, arrays)

    def _metadata(self, event: shapes.Metadata) -> None:
        if event.name in ("process_name", "thread_name"):
            name = _object(event.args).get("name", "")
            if isinstance(name, str) and event.name == "process_name":
                self.process_names[str(event.pid)] = name
            elif isinstance(name, str):
                self.thread_names[str(event.pid), str(event.tid)] = name


_COLLECTIVE: Final = attrgetter(
    "collective", "dtype", "inside", "outside", "group", "group_description", "group_size", "first_rank",
    "rank_stride", "source", "target",
)  # fmt: skip
_Handler = Callable[[Tables, Sequence[Span], Sequence[Args]], Arrays]
_HANDLERS: Final[Mapping[type[Columns], _Handler]] = {
    columns.GpuEvents: Tables._gpu,
    columns.Calls: Tables._calls,
    columns.Operators: Tables._operators,
    columns.Annotations: Tables._annotations,
    columns.GpuAnnotations: Tables._gpu_annotations,
    columns.Frames: Tables._frames,
    columns.Waits: Tables._waits,
}


def _external(args: Sequence[Args]) -> Int64s:
    found = integers([a.external for a in args])
    missing = np.flatnonzero(found == NONE)
    if len(missing):
        found[missing] = integers([args[place].old_external for place in missing.tolist()])
    return found


def _old_inputs(a: Args) -> bytes:
    return b"\0".join((a.old_dims, a.types, a.concrete, a.strides))


def _placed(values: Any, words: Sequence[shapes.Word]) -> Any:
    """The values, and where there is none the number that the event's process or thread stands for."""
    missing = np.flatnonzero(values == NONE)
    if len(missing):
        values[missing] = small([number(words[place]) for place in missing.tolist()])
    return values


def _occupancy(percents: Sequence[float | None]) -> Any:
    """Percents as ratios; NaN for none, and for what is no percent."""
    ratios = np.array(percents, np.float64) / 100
    ratios[~((ratios >= 0) & (ratios <= 1))] = np.nan
    return ratios.astype(np.float32)


def _object(text: bytes) -> dict[str, Any]:
    try:
        value = _ANY.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300
