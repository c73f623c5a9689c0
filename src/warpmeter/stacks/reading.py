"""A profile out of a file, whichever profiler wrote it: the format is told by what is in it, not by its name."""

import re
import zlib
from pathlib import Path
from typing import Final, Literal

from warpmeter.stacks import Unit, folded, perfscript, pprof, speedscope
from warpmeter.stacks.profile import Profile, StacksError

Format = Literal["folded", "speedscope", "pprof", "perf script"]

LIMIT: Final = 1 << 30
"""Bytes of a profile, unpacked: it is read into memory as a whole."""
_GZIP: Final = b"\x1f\x8b"
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_BINARY: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")  # a text has none; ESC may colour it
_LOOK: Final = 50


def read(path: Path, unit: Unit | None = None, limit: int = LIMIT) -> tuple[Format, Profile]:
    """The format of a file and what it holds; `unit` says what is meant where it is weighed in several.

    Raises StacksError, which names the file and the place in it, and OSError.
    """
    if not path.is_file():
        raise StacksError(f"{path}: it is no file" if path.exists() else f"{path}: there is no such file")
    if path.stat().st_size > limit:
        raise StacksError(f"{path}: it has {path.stat().st_size:,} bytes, and {limit:,} can be read: give it in parts")
    return parse(path.read_bytes(), str(path), unit, limit)


def parse(data: bytes, name: str, unit: Unit | None = None, limit: int = LIMIT) -> tuple[Format, Profile]:
    """The same of bytes; `name` is what errors call them."""
    try:
        plain = _text(unpacked(data, limit))
        kind = told(plain)
        return kind, _parsed(kind, plain, unit)
    except ValueError as error:
        raise StacksError(f"{name}: {error}") from None


def unpacked(data: bytes, limit: int = LIMIT) -> bytes:
    """Bytes out of gzip, where they are in it, member after member; raises ValueError."""
    parts, left = list[bytes](), limit
    while data.startswith(_GZIP):
        unpacker = zlib.decompressobj(wbits=31)
        try:
            part = unpacker.decompress(data, left + 1)
        except zlib.error as error:
            raise ValueError(f"its gzip is broken ({error})") from None
        if len(part) > left:
            raise ValueError(f"unpacked it has more than {limit:,} bytes, which is what can be read: give it in parts")
        if not unpacker.eof:
            raise ValueError("its gzip is cut off: copy it again")
        left -= len(part)
        parts.append(part)
        data = unpacker.unused_data
    if parts and data.strip(b"\0"):  # tape drives pad with those
        raise ValueError("after its gzip follows what is none: copy it again")
    return b"".join(parts) if parts else data


def _text(data: bytes) -> bytes:
    """As UTF-8, what a shell of Windows wrote."""
    if not data.startswith(_UTF_16):
        return data
    try:
        return data.decode("utf-16").encode()
    except UnicodeDecodeError as error:
        raise ValueError(f"it begins as UTF-16 and is none at byte {error.start:,}") from None


def told(data: bytes) -> Format:
    """Which format it is; raises ValueError where there is nothing."""
    if not data.strip():
        raise ValueError("it is empty")
    if _BINARY.search(data[:65536]):
        return "pprof"
    head = data[:65536].decode("utf-8", "replace").removeprefix("\ufeff")
    if head.lstrip().startswith("{"):
        return "speedscope"
    lines = [line for line in head.split("\n") if line.strip() and not line.startswith("#")][:_LOOK]
    return "perf script" if any(perfscript.HEAD.fullmatch(line) for line in lines) else "folded"


def _parsed(kind: Format, data: bytes, unit: Unit | None) -> Profile:
    if kind == "pprof":
        return pprof.parse(data, unit)
    text = data.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if kind == "speedscope":
        return speedscope.parse(text, unit)
    return folded.parse(text) if kind == "folded" else perfscript.parse(text)
