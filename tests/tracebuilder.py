"""Kineto's JSON with known answers: events given in integer nanoseconds, written as the profiler writes them.

Every method adds one event and answers its place or number where something else may name it. Arguments of an event that
analysis knows have a word of their own (`correlation=5`, `external=3`); any other is passed on under its given name.
"""

import gzip
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from warpmeter.analysis.read import read
from warpmeter.analysis.trace import Trace

PID: Final = 100
"""The process of every event on the host; threads are PID, PID + 1, … by their index here."""

ARGUMENTS: Final[Mapping[str, str]] = {
    "external": "External id",
    "sequence": "Sequence number",
    "forward_thread": "Fwd thread id",
    "dims": "Input Dims",
    "types": "Input type",
    "concrete": "Concrete Inputs",
    "strides": "Input Strides",
    "occupancy_percent": "est. achieved occupancy %",
    "collective": "Collective name",
    "dtype": "dtype",
    "in_elements": "In msg nelems",
    "out_elements": "Out msg nelems",
    "group": "Process Group Name",
    "group_description": "Process Group Description",
    "group_ranks": "Process Group Ranks",
    "group_size": "Group size",
    "source": "Src Rank",
    "target": "Dst Rank",
}


def microseconds(ns: int) -> msgspec.Raw:
    """The decimal text of a time, exact: 1,234 ns is 1.234."""
    sign = "-" if ns < 0 else ""
    whole, rest = divmod(abs(ns), 1000)
    return msgspec.Raw(f"{sign}{whole}.{rest:03d}".encode() if rest else f"{sign}{whole}".encode())


def _arguments(more: Mapping[str, Any]) -> dict[str, Any]:
    return {ARGUMENTS.get(key, key): value for key, value in more.items() if value is not None}


class TraceBuilder:
    """One trace file in the making. `base_ns` is its `baseTimeNanoseconds` (None: not there)."""

    def __init__(self, *, base_ns: int | None = None) -> None:
        self.events: list[dict[str, Any]] = []
        self.head: dict[str, Any] = {"schemaVersion": 1}
        if base_ns is not None:
            self.head["baseTimeNanoseconds"] = base_ns
        self._correlation = 0

    def kernel(self, name: str, start: int, duration: int, *, stream: int = 7, device: int = 0, **more: Any) -> None:
        """A kernel; `correlation`, `external`, `collective` and the like as further words."""
        self._gpu("kernel", name, (start, duration), {"device": device, "stream": stream, **more})

    def copy(
        self, start: int, duration: int, *, kind: str = "HtoD (Pinned -> Device)", bytes: int | None = 0, **more: Any
    ) -> None:
        """A copy of memory; `stream` 7 and `device` 0 unless told."""
        self._gpu("gpu_memcpy", f"Memcpy {kind}", (start, duration), {"bytes": bytes, **more})

    def set(self, start: int, duration: int, *, bytes: int | None = 0, **more: Any) -> None:
        """A set of memory; `stream` 7 and `device` 0 unless told."""
        self._gpu("gpu_memset", "Memset (Device)", (start, duration), {"bytes": bytes, **more})

    def call(self, name: str, start: int, duration: int, *, thread: int = 0, **more: Any) -> int:
        """A call of the runtime (of the driver when named cu…); its correlation is new unless told."""
        more.setdefault("correlation", self.correlation())
        driver = name.startswith("cu") and not name.startswith("cuda")
        self._host("cuda_driver" if driver else "cuda_runtime", name, (start, duration), thread, more)
        return int(more["correlation"])

    def launch(self, name: str, call: tuple[int, int], kernel: tuple[int, int], *, thread: int = 0, **more: Any) -> int:
        """A call and its kernel, each (start, duration), joined by a new correlation, which is the answer."""
        correlation = self.call("cudaLaunchKernel", *call, thread=thread, external=more.get("external"))
        self.kernel(name, *kernel, correlation=correlation, **more)
        return correlation

    def operator(self, name: str, start: int, duration: int, *, thread: int = 0, **more: Any) -> None:
        """A `cpu_op`; `dims`, `types`, `concrete`, `sequence`, `forward_thread`, `external`, `collective`… beside."""
        self._host("cpu_op", name, (start, duration), thread, more)

    def annotation(self, name: str, start: int, duration: int, *, thread: int = 0, **more: Any) -> None:
        """A `user_annotation`."""
        self._host("user_annotation", name, (start, duration), thread, more)

    def step(self, number: int, start: int, duration: int, *, thread: int = 0) -> None:
        """The profiler's own annotation of step `number`."""
        self.annotation(f"ProfilerStep#{number}", start, duration, thread=thread)

    def gpu_annotation(self, name: str, start: int, duration: int, *, stream: int = 7, device: int = 0) -> None:
        """A `gpu_user_annotation`."""
        self._complete("gpu_user_annotation", name, (start, duration), (device, stream), {})

    def frame(self, name: str, start: int, duration: int, *, id: int, parent: int | None = None, **more: Any) -> None:
        """A `python_function`; `thread` 0 unless told."""
        thread = more.pop("thread", 0)
        self._host(
            "python_function", name, (start, duration), thread, {"Python id": id, "Python parent id": parent, **more}
        )
        self.events[-1]["args"]["Python parent id"] = parent

    def memory(self, at: int, bytes: int, *, address: int, thread: int = 0, **more: Any) -> None:
        """A `[memory]` instant on device 0 of type CUDA; `device`, `device_type`, `allocated`, `reserved` beside."""
        arguments = {
            "Bytes": bytes,
            "Addr": address,
            "Device Type": more.pop("device_type", 1),
            "Device Id": more.pop("device", 0),
            "Total Allocated": more.pop("allocated", None),
            "Total Reserved": more.pop("reserved", None),
        }
        event = {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "ts": microseconds(at)}
        self.events.append(event | self._place(thread) | {"args": _arguments(arguments | more)})

    def wait(self, name: str, start: int, duration: int, *, stream: int = 7, device: int = 0, **more: Any) -> None:
        """A `cuda_sync`: `Stream Wait Event`, `Stream Synchronize`, …; `on_stream`, `on_correlation` beside."""
        arguments = {
            "cuda_sync_kind": name,
            "device": device,
            "stream": stream,
            "wait_on_stream": more.pop("on_stream", None),
            "wait_on_cuda_event_record_corr_id": more.pop("on_correlation", None),
        }
        self._complete("cuda_sync", name, (start, duration), (device, stream), arguments | more)

    def flow(self, id: int, begins: tuple[int, int], ends: tuple[int, int]) -> None:
        """A `fwdbwd` arrow between two places, each (time, thread)."""
        for phase, (at, thread), more in (("s", begins, {}), ("f", ends, {"bp": "e"})):
            event = {"ph": phase, "id": id, "ts": microseconds(at), "cat": "fwdbwd", "name": "fwdbwd"}
            self.events.append(event | self._place(thread) | more)

    def counter(self, name: str, at: int, values: Mapping[str, float]) -> None:
        """A counter's values."""
        self.events.append({"ph": "C", "name": name, "pid": 0, "tid": 0, "ts": microseconds(at), "args": dict(values)})

    def name(self, *, thread: int | None = None, text: str) -> None:
        """Metadata: the name of a thread, or of the process."""
        place = {"pid": PID, "tid": 0} if thread is None else self._place(thread)
        what = "process_name" if thread is None else "thread_name"
        self.events.append({"ph": "M", "name": what, "ts": microseconds(0), **place, "args": {"name": text}})

    def device(self, id: int, name: str, **more: Any) -> None:
        """One of `deviceProperties`, as `device(0, "NVIDIA H100", numSms=132, totalGlobalMem=…)`."""
        self.head.setdefault("deviceProperties", []).append({"id": id, "name": name, **more})

    def distributed(self, rank: int, world: int, groups: Sequence[Mapping[str, Any]] = (), **more: Any) -> None:
        """`distributedInfo`; each group as Kineto writes it (`pg_name`, `pg_desc`, `ranks`, …)."""
        self.head["distributedInfo"] = {
            "backend": "nccl",
            "rank": rank,
            "world_size": world,
            "pg_count": len(groups),
            "pg_config": [dict(group) for group in groups],
            **more,
        }

    def correlation(self) -> int:
        """A correlation that no other event has."""
        self._correlation += 1
        return self._correlation

    def shuffled(self, seed: int) -> "TraceBuilder":
        """The same events in another order of the file."""
        other = TraceBuilder()
        other.head = self.head
        other.events = random.Random(seed).sample(self.events, len(self.events))
        return other

    def json(self) -> bytes:
        """The file's text."""
        return msgspec.json.encode({**self.head, "traceEvents": self.events})

    def write(self, path: Path) -> Path:
        """The file, compressed when the path ends in .gz."""
        path.write_bytes(gzip.compress(self.json(), 1) if path.suffix == ".gz" else self.json())
        return path

    def build(self) -> Trace:
        """The trace as the reader gives it."""
        with tempfile.TemporaryDirectory() as folder:
            return read(str(self.write(Path(folder, "trace.json"))))

    def _gpu(self, category: str, name: str, span: tuple[int, int], more: dict[str, Any]) -> None:
        arguments = {"device": 0, "stream": 7, **more}
        self._complete(category, name, span, (arguments["device"], arguments["stream"]), arguments)

    def _host(self, category: str, name: str, span: tuple[int, int], thread: int, more: Mapping[str, Any]) -> None:
        place = self._place(thread)
        self._complete(category, name, span, (place["pid"], place["tid"]), more)

    def _complete(
        self, category: str, name: str, span: tuple[int, int], place: tuple[int, int], more: Mapping[str, Any]
    ) -> None:
        start, duration = span
        self.events.append(
            {
                "ph": "X",
                "cat": category,
                "name": name,
                "pid": place[0],
                "tid": place[1],
                "ts": microseconds(start),
                "dur": microseconds(duration),
                "args": _arguments(more),
            }
        )

    @staticmethod
    def _place(thread: int) -> dict[str, int]:
        return {"pid": PID, "tid": PID + thread}
