"""Files and what they are packed in."""

import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from glob import iglob
from itertools import chain
from pathlib import Path
from typing import IO, Any, ClassVar, Final

from isal import isal_zlib

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Progress = Callable[[int, int], None]
ENDINGS: Final = (".json", ".json.gz", ".json.zst", ".json.zstd")
BLOCK: Final = 1 << 19


class TraceError(Exception):
    """A file that is no trace, holds nothing, or cannot be read; says which and why."""


def traces_in(patterns: Iterable[str]) -> list[str]:
    """The files that are meant: each pattern is a file, a folder, a glob or a URL that fsspec knows.

    In the order of the patterns, each pattern's own sorted, each file once. `TraceError` for one that means none.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        matching = sorted(_remote(pattern) if "://" in pattern else _local(pattern))
        if not matching:
            raise TraceError(f"{pattern}: there is no such file, and no folder or pattern with traces ({_endings()})")
        found |= dict.fromkeys(matching)
    return list(found)


def _endings() -> str:
    return ", ".join(f"*{ending}" for ending in ENDINGS)


def _local(pattern: str) -> list[str]:
    path = Path(pattern)
    if path.is_dir():
        return [str(file) for file in path.rglob("*") if file.name.endswith(ENDINGS) and file.is_file()]
    if path.exists():
        return [pattern]
    return [name for name in iglob(pattern, recursive=True) if Path(name).is_file()]  # noqa: PTH207  # absolute ones too


def _remote(pattern: str) -> list[str]:
    import fsspec  # here, as it takes longer to import than a small trace to read

    try:
        filesystem, path = fsspec.url_to_fs(pattern)
        if any(sign in path for sign in "*?["):
            paths = filesystem.glob(path)
        elif filesystem.isdir(path):
            paths = [name for name in filesystem.find(path) if name.endswith(ENDINGS)]
        else:
            return [pattern]
    except _faults(pattern) as error:
        raise TraceError(f"{pattern} cannot be looked up: {_reason(error)}") from error
    return [str(filesystem.unstrip_protocol(name)) for name in paths]


class File:
    """One trace file, opened: its text in blocks, unpacked. `damage` says how the packing was broken, if it was."""

    def __init__(self, path: str, progress: Progress | None = None) -> None:
        self.path, self.damage = path, ""
        self._progress = progress
        try:
            self._file: IO[bytes] = _open(path)
            self.size = _size(self._file)
        except _faults(path) as error:
            raise TraceError(f"{path} cannot be opened: {_reason(error)}") from error

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def blocks(self) -> Iterator[bytes]:
        """The text from the beginning. `TraceError` where reading fails."""
        packed = self._packed()
        first = next(packed, b"")
        kind = next((kind for kind in (_Gzip, _Zstd) if first.startswith(kind.MAGIC)), None)
        return self._unpacked(first, packed, kind) if kind else chain((first,) if first else (), packed)

    def _packed(self) -> Iterator[bytes]:
        done = 0
        while True:
            try:
                block = self._file.read(BLOCK)
            except _faults(self.path) as error:
                raise TraceError(f"{self.path} cannot be read: {_reason(error)}") from error
            if not block:
                return
            done += len(block)
            if self._progress:
                self._progress(done, max(done, self.size))
            yield block

    def _unpacked(self, block: bytes, packed: Iterator[bytes], kind: "type[_Gzip | _Zstd]") -> Iterator[bytes]:
        """All members or frames one after the other; nothing from where they are damaged."""
        member, begun = kind(), False
        while block:
            if not begun and not block.startswith(kind.MAGIC):
                self.damage = f"other data follows its {kind.NAME} data"
                return
            try:
                yield from member.texts(block)
            except kind.ERRORS as error:
                self.damage = f"its {kind.NAME} data is damaged ({error})"
                return
            begun, block = not member.eof, member.unused.lstrip(b"\0")
            if member.eof:
                member = kind()
            block = block or next(packed, b"")
        if begun:
            self.damage = f"its {kind.NAME} data breaks off"


_ISAL_ERROR: Final[type[Exception]] = isal_zlib.IsalError  # type: ignore[assignment]  # its stub makes it no class


class _Gzip:
    """One member of a gzip file."""

    NAME: Final = "gzip"
    MAGIC: Final = b"\x1f\x8b"
    ERRORS: ClassVar[tuple[type[Exception], ...]] = (_ISAL_ERROR, OSError, ValueError, EOFError)
    _AT_ONCE: Final = 64 << 10
    """Packed bytes at once: they may be a thousand times as many unpacked."""

    def __init__(self) -> None:
        self._unpacker = isal_zlib.decompressobj(wbits=31)
        self.eof, self.unused = False, b""

    def texts(self, block: bytes) -> Iterator[bytes]:
        """What the block holds, until the member ends: then `unused` is what follows it."""
        for at in range(0, len(block), self._AT_ONCE):
            yield self._unpacker.decompress(block[at : at + self._AT_ONCE])
            if self._unpacker.eof:
                self.eof, self.unused = True, self._unpacker.unused_data + block[at + self._AT_ONCE :]
                return


class _Zstd:
    """One frame of a zstd file."""

    NAME: Final = "zstd"
    MAGIC: Final = b"\x28\xb5\x2f\xfd"
    ERRORS: ClassVar[tuple[type[Exception], ...]] = (zstd.ZstdError, OSError, ValueError, EOFError)

    def __init__(self) -> None:
        self._unpacker = zstd.ZstdDecompressor()
        self.eof, self.unused = False, b""

    def texts(self, block: bytes) -> Iterator[bytes]:
        """What the block holds, until the frame ends: then `unused` is what follows it."""
        yield self._unpacker.decompress(block, BLOCK)
        while not self._unpacker.needs_input and not self._unpacker.eof:
            yield self._unpacker.decompress(b"", BLOCK)
        if self._unpacker.eof:
            self.eof, self.unused = True, self._unpacker.unused_data


def _open(path: str) -> Any:
    if "://" in path:
        import fsspec

        return fsspec.open(path, "rb").open()
    if Path(path).is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return Path(path).open("rb", buffering=0)


def _size(file: Any) -> int:
    told = getattr(file, "size", None)
    if isinstance(told, int):
        return told
    try:
        return os.fstat(file.fileno()).st_size
    except (OSError, AttributeError, ValueError):
        return 0


def _faults(path: str) -> tuple[type[Exception], ...]:
    """What opening and reading may raise; the file systems behind URLs have exceptions of all kinds."""
    return (Exception,) if "://" in path else (OSError, ValueError, EOFError)


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and not error.strerror:  # of a URL: its words are the URL again
        return "there is no such file"
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
