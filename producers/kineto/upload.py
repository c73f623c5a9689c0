"""From a process's file to the trace store: packed as it is read, counted, checksummed, and there as a whole or not.

The store is a local folder (or a shared mount), or any URL that fsspec knows. fsspec is loaded only for the latter: it
weighs as much as a third of the agent.
"""

import errno
import hashlib
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

from warpmeter.settings import Traces

CHUNK: Final = 1 << 20
ENDINGS: Final[Mapping[str, str]] = {"gzip": ".json.gz", "zstd": ".json.zst"}
PART: Final = ".part"
TAIL: Final = 64 << 10
"""Of its last bytes, which say over what time the trace goes, so much is looked at."""
HEAD: Final = 64 << 10
UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
NAME_MAX: Final = 100
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class TooLargeError(Exception):
    """The trace is larger than it may be; the message says by which limit."""


class StoreError(Exception):
    """The trace store cannot be used as it is set; the message says why and what to do."""


@dataclass(frozen=True)
class Place:
    """What a trace is named by. `at`: seconds since the epoch."""

    job_id: str
    capture_id: str
    sequence: int
    host: str
    pid: int
    rank: int | None
    at: float

    def name(self, compression: str) -> str:
        """`job/capture/host-rank-time`: whatever an id holds, no step of it leads out of the store."""
        time = datetime.fromtimestamp(self.at, UTC).strftime("%Y%m%dT%H%M%SZ")
        who = f"rank{self.rank}" if self.rank is not None else f"pid{self.pid}"
        last = f"{_safe(self.host)}_{who}_{self.pid}_{self.sequence}_{time}{ENDINGS[compression]}"
        return "/".join((_safe(self.job_id) or "no-job", _safe(self.capture_id) or "capture", last))


@dataclass(frozen=True)
class Stored:
    """A trace in the store. `bytes` and `sha256` are of what lies there, `raw_bytes` of what the process wrote.

    `traced_from`, `traced_until`: what it covers, in seconds since the epoch by the host's clock; None when it does not
    say. `stepped`, `memory`: whether an optimizer's step, or an allocation, is in it. `slowdown_permille`: what tracing
    cost in steps a second, None where nobody counts them.
    """

    url: str
    bytes: int
    raw_bytes: int
    sha256: str
    traced_from: float | None = None
    traced_until: float | None = None
    stepped: bool = False
    memory: bool = False
    slowdown_permille: int | None = None


class Store(Protocol):
    """Where traces lie."""

    def open(self, name: str) -> BinaryIO:
        """A new file of this name to write into, its folders made. Raises OSError."""

    def rename(self, name: str, to: str) -> str:
        """Give it its final name; the URL. Raises OSError."""

    def remove(self, name: str) -> None:
        """As far as that can be."""


class LocalStore:
    """A folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def open(self, name: str) -> BinaryIO:
        """A file that only its owner and group may read: a trace names files and functions of a job."""
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.fdopen(os.open(path, flags, 0o640), "wb")

    def rename(self, name: str, to: str) -> str:
        """Atomic, and on the disk before."""
        descriptor = os.open(self._root / name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        (self._root / name).replace(self._root / to)
        return str(self._root / to)

    def remove(self, name: str) -> None:
        """Remove it."""
        with suppress(OSError):
            (self._root / name).unlink(missing_ok=True)


class RemoteStore:
    """What fsspec knows: S3 and what is compatible with it, and others."""

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        """Raises StoreError when fsspec, or what it needs for this kind of URL, is not installed or refuses it."""
        try:
            import fsspec

            self._files, root = fsspec.core.url_to_fs(url, **options)
        except ImportError as error:
            raise StoreError(f"traces.url {_kind(url)}://… needs more: {error}") from error
        except Exception as error:  # every store has its own ways to refuse
            raise StoreError(f"traces.url {_kind(url)}://… cannot be used: {error}") from error
        self._root = str(root).rstrip("/")

    def open(self, name: str) -> BinaryIO:
        """Folders are made where the store has such."""
        path = f"{self._root}/{name}"
        self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
        opened: BinaryIO = self._files.open(path, "wb")
        return opened

    def rename(self, name: str, to: str) -> str:
        """As the store does it: most copy."""
        self._files.mv(f"{self._root}/{name}", f"{self._root}/{to}")
        return str(self._files.unstrip_protocol(f"{self._root}/{to}"))

    def remove(self, name: str) -> None:
        """Remove it."""
        with suppress(Exception):  # every store has its own errors
            self._files.rm(f"{self._root}/{name}")


def _kind(url: str) -> str:
    return url.partition("://")[0]


def store_of(traces: Traces) -> Store:
    """The store of the settings; raises StoreError."""
    scheme, found, path = traces.url.partition("://")
    if not found:
        return LocalStore(Path(traces.url))
    return LocalStore(Path(path)) if scheme == "file" else RemoteStore(traces.url, traces.options)


class _Packer(Protocol):
    def compress(self, data: bytes) -> bytes: ...
    def flush(self) -> bytes: ...


def _packer(compression: str) -> _Packer:
    if compression == "gzip":
        return zlib.compressobj(1, zlib.DEFLATED, 31)
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        try:
            from backports import zstd
        except ImportError as error:
            raise StoreError("traces.compression = 'zstd' needs backports.zstd: install warpmeter[agent]") from error
    packer: _Packer = zstd.ZstdCompressor()
    return packer


def upload(file: BinaryIO, limit: int, store: Store, name: str, stop: Callable[[], bool], compression: str) -> Stored:
    """Bring a file into the store under `name`, or nothing of it.

    `limit`: bytes that it may have, at the most. `stop`: asked now and then whether to give up (raises TimeoutError).
    Raises TooLargeError, StoreError, OSError and what else a store raises.
    """
    part = name + PART
    seen = _Seen()
    try:
        with store.open(part) as out:
            for block in _packed(file, limit, seen, stop, _packer(compression)):
                out.write(block)
                seen.digest.update(block)
                seen.packed += len(block)
        url = store.rename(part, name)
    except BaseException:
        store.remove(part)
        raise
    start, end = covered(seen.head, seen.tail)
    return Stored(
        url, seen.packed, seen.raw, seen.digest.hexdigest(), start, end, STEP in seen.found, MEMORY in seen.found
    )


class _Seen:
    """Of a file under way: how much, its sum, its first and last bytes."""

    def __init__(self) -> None:
        self.digest: Any = hashlib.sha256()
        self.packed = self.raw = 0
        self.head = self.tail = b""
        self.found: set[bytes] = set()

    def take(self, block: bytes) -> None:
        """What was read next."""
        self.raw += len(block)
        around = self.tail[-len(STEP) :] + block
        self.found |= {mark for mark in (STEP, MEMORY) if mark not in self.found and mark in around}
        self.head += block[: HEAD - len(self.head)]
        self.tail = (self.tail + block)[-TAIL:]


def _packed(file: BinaryIO, limit: int, seen: _Seen, stop: Callable[[], bool], packer: _Packer) -> Iterator[bytes]:
    while block := file.read(CHUNK):
        seen.take(block)
        if seen.raw > limit:
            raise TooLargeError(f"it is larger than {limit} bytes; trace for a shorter time, or raise the limit")
        if stop():
            raise TimeoutError("no time is left")
        yield packer.compress(block)
    yield packer.flush()


BASE: Final = re.compile(rb'"baseTimeNanoseconds":\s*(\d{1,20})\D')
BEGIN: Final = re.compile(rb'"name":\s*"process_sort_index",\s*"ts":\s*(\d{1,17}\.?\d{0,6})\D')
END: Final = re.compile(rb'"name":\s*"Record Window End",[^{}]{0,200}?"ts":\s*(\d{1,17}\.?\d{0,6})\D')
STEP: Final = b"Optimizer.step#"
"""The annotation that each step of an optimizer leaves in a trace."""
MEMORY: Final = b'"[memory]"'


def covered(head: bytes, tail: bytes) -> tuple[float | None, float | None]:
    """From when to when a trace goes: None where it does not say.

    Kineto stamps what it tells of processes with the beginning of its window, and marks the end ("Record Window End");
    both in microseconds from the trace's base time.
    """
    base = BASE.search(head) or BASE.search(tail)
    if base is None:
        return None, None
    start, end = BEGIN.search(tail), END.search(tail)
    at = [None if found is None else int(base[1]) / 1e9 + float(found[1]) / 1e6 for found in (start, end)]
    return at[0], at[1]


def _safe(text: str) -> str:
    """A plain name: no '/', no '..', nothing hidden, and not too long."""
    return UNSAFE.sub("-", text).strip(".-")[:NAME_MAX]


def no_room(error: BaseException) -> bool:
    """Whether a store said that it is full."""
    return isinstance(error, OSError) and error.errno in NO_ROOM
