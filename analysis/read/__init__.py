"""Reading of trace files: `read` one into a `Trace`, `traces_in` for those that a command line means."""

from collections.abc import Callable, Iterable, Mapping
from glob import glob
from pathlib import Path
from typing import Any

import fsspec
import msgspec
from isal import igzip
from msgspec import Raw

from warpmeter.analysis import trace as columns
from warpmeter.analysis.read.build import build
from warpmeter.analysis.read.shapes import Event
from warpmeter.analysis.trace import Device, Distributed, ProcessGroup, Trace

ENDINGS = (".json", ".json.gz", ".json.zst")


class TraceError(Exception):
    """A file that is no trace, holds nothing, or cannot be read; says which and why."""


def traces_in(patterns: Iterable[str]) -> list[str]:
    """The files that are meant: each pattern is a file, a folder, a glob or a URL that fsspec knows. Sorted, each once."""
    found: dict[str, None] = {}
    for pattern in patterns:
        for path in sorted(_matching(pattern)) or [pattern]:
            found[path] = None
    return list(found)


def _matching(pattern: str) -> list[str]:
    if "://" in pattern:
        filesystem, _, paths = fsspec.get_fs_token_paths(pattern)
        return [filesystem.unstrip_protocol(path) for path in paths]
    if Path(pattern).is_dir():
        return [str(path) for path in Path(pattern).rglob("*") if path.name.endswith(ENDINGS)]
    return glob(pattern)


def read(path: str, progress: Callable[[int, int], None] | None = None) -> Trace:
    """Decodes one file. `progress(done, total)` is told bytes of the file. `TraceError` for what is no trace."""
    try:
        with fsspec.open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror or error}") from error
    if progress:
        progress(len(data), len(data))
    return _decode(path, _inflate(data))


def _inflate(data: bytes) -> bytes:
    if data.startswith(b"\x1f\x8b"):
        return igzip.decompress(data)
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        from backports import zstd

        return zstd.decompress(data)
    return data


def _decode(path: str, data: bytes) -> Trace:
    if not data.strip():
        raise TraceError(f"{path} is empty")
    try:
        document = msgspec.json.decode(data, type=dict[str, Raw] | list[Raw])
        head = document if isinstance(document, dict) else {}
        raw = msgspec.json.decode(document["traceEvents"], type=list[Raw]) if isinstance(document, dict) else document
        decoder = msgspec.json.Decoder(Event, strict=False)
        events = [decoder.decode(item) for item in raw]
    except (msgspec.DecodeError, KeyError) as error:
        raise TraceError(f"{path} is not a trace: {error}") from error
    return _trace(
        path, {key: msgspec.json.decode(value) for key, value in head.items() if key != "traceEvents"}, events
    )


def _trace(path: str, head: Mapping[str, Any], events: list[Event]) -> Trace:
    filed = build(events)
    return Trace(
        file=path,
        gpu=filed.table(columns.GpuEvents),
        calls=filed.table(columns.Calls),
        operators=filed.table(columns.Operators),
        annotations=filed.table(columns.Annotations),
        gpu_annotations=filed.table(columns.GpuAnnotations),
        frames=filed.table(columns.Frames),
        waits=filed.table(columns.Waits),
        allocations=filed.table(columns.Allocations),
        flows=filed.table(columns.Flows),
        counters=filed.table(columns.Counters),
        names=list(filed.names),
        threads=filed.known_threads(),
        inputs=filed.known_inputs(),
        collectives=list(filed.collectives),
        devices=[_device(item) for item in head.get("deviceProperties") or ()],
        distributed=_distributed(head.get("distributedInfo")),
        epoch_ns=int(head.get("baseTimeNanoseconds") or 0),
        events=len(events),
        metadata={key: value for key, value in head.items() if key not in ("deviceProperties", "distributedInfo")},
    )


def _device(item: Mapping[str, Any]) -> Device:
    return Device(
        id=item.get("id", 0),
        name=item.get("name", ""),
        memory_bytes=item.get("totalGlobalMem", 0),
        processors=item.get("numSms", 0),
        compute_capability=(item.get("computeMajor", 0), item.get("computeMinor", 0)),
    )


def _distributed(item: Mapping[str, Any] | None) -> Distributed | None:
    if not item:
        return None
    groups = tuple(
        ProcessGroup(
            name=str(group.get("pg_name", "")),
            description=group.get("pg_desc", ""),
            backend=group.get("backend_config", ""),
            ranks=tuple(group.get("ranks", ())),
            size=group.get("pg_size", 0),
        )
        for group in item.get("pg_config", ())
    )
    return Distributed(item.get("backend", ""), item.get("rank", 0), item.get("world_size", 1), groups)
