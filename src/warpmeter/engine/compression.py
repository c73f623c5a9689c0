"""The ways a body may be compressed: HTTP's encodings here, ClickHouse's own block frames in `frames`."""

import zlib
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, Final, Protocol

from warpmeter.engine.errors import CANNOT_DECOMPRESS, UNKNOWN_COMPRESSION_METHOD, refuse

PIECE: Final = 64 << 10


class Encoder(Protocol):
    """Compresses a stream: `add` what comes, `end` it once."""

    def add(self, chunk: bytes) -> bytes:
        """The compressed bytes that are ready."""
        ...

    def end(self) -> bytes:
        """What is left."""
        ...


class Plain:
    """No compression."""

    def add(self, chunk: bytes) -> bytes:
        """The same bytes."""
        return chunk

    def end(self) -> bytes:
        """Nothing."""
        return b""


class _Compressor:
    """A library's compressor with `compress` and `flush`, behind an optional start."""

    def __init__(self, compressor: Any, start: bytes = b"") -> None:
        self._compressor = compressor
        self._start = start

    def add(self, chunk: bytes) -> bytes:
        start, self._start = self._start, b""
        return start + bytes(self._compressor.compress(chunk))

    def end(self) -> bytes:
        return self._start + bytes(self._compressor.flush())


def zstd_library() -> Any:
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return import_module(name)
        except ImportError:
            continue
    raise refuse(UNKNOWN_COMPRESSION_METHOD, "zstd needs Python 3.14 or the package backports.zstd.")


def library(name: str, package: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise refuse(UNKNOWN_COMPRESSION_METHOD, f"the package {package} is not installed.") from error


def _lz4_encoder() -> Encoder:
    compressor = library("lz4.frame", "lz4").LZ4FrameCompressor()
    return _Compressor(compressor, compressor.begin())


# Fast levels: results go over loopback.
_ENCODERS: Final[dict[str, Callable[[], Encoder]]] = {
    "lz4": _lz4_encoder,
    "zstd": lambda: _Compressor(zstd_library().ZstdCompressor(level=1)),
    "gzip": lambda: _Compressor(zlib.compressobj(1, zlib.DEFLATED, 31)),
    "deflate": lambda: _Compressor(zlib.compressobj(1, zlib.DEFLATED, 15)),
}


def encoder(accepted: str) -> tuple[str, Encoder]:
    """The first encoding this endpoint has among those of an `Accept-Encoding`; "" and `Plain` when none."""
    offered = {each.split(";")[0].strip().lower() for each in accepted.split(",")}
    for name, make in _ENCODERS.items():
        if name in offered:
            return name, make()
    return "", Plain()


def _inflater(bits: int) -> Callable[[], Any]:
    return lambda: zlib.decompressobj(bits)


_DECODERS: Final[dict[str, Callable[[], Any]]] = {
    "gzip": _inflater(31),
    "x-gzip": _inflater(31),
    "deflate": _inflater(15),
    "zstd": lambda: zstd_library().ZstdDecompressor(),
    "lz4": lambda: library("lz4.frame", "lz4").LZ4FrameDecompressor(),
}


class Decoder(Protocol):
    """Gives back a compressed stream: `pieces` of what comes, `end` when no more comes. Both raise EngineError."""

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """The plain bytes that are ready, unpacked as they are taken; take all before the next chunk."""
        ...

    def end(self) -> None:
        """Check that the stream is whole."""
        ...


class NoDecoder:
    """The stream is plain already."""

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """The same bytes."""
        yield chunk

    def end(self) -> None:
        """Nothing to check."""


class _Decompressor:
    """A library's decompressor; a stream may be several members or frames on end."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._make = _DECODERS[name]
        self._current = self._make()
        self._begun = False

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """The plain bytes, at most 64 KiB at a time."""
        for at in range(0, len(chunk), PIECE):
            yield from self._unpacked(chunk[at : at + PIECE])

    def _unpacked(self, packed: bytes) -> Iterator[bytes]:
        more = True
        while packed or more:
            if getattr(self._current, "eof", False):
                if not packed:
                    return
                self._current = self._make()
            self._begun = True
            plain, packed, more = self._step(packed)
            if plain:
                yield plain

    def _step(self, packed: bytes) -> tuple[bytes, bytes, bool]:
        """Plain bytes, what of the packed ones is left, and whether more comes without any."""
        current = self._current
        try:
            plain = bytes(current.decompress(packed, PIECE))
        except Exception as error:  # each library has an error class of its own
            raise refuse(CANNOT_DECOMPRESS, f"The body is not {self._name}: {error}.") from error
        left = getattr(current, "unconsumed_tail", b"") or getattr(current, "unused_data", b"") or b""
        return plain, left, bool(plain) and not getattr(current, "needs_input", len(plain) < PIECE)

    def end(self) -> None:
        if self._begun and getattr(self._current, "eof", True) is False:
            raise refuse(CANNOT_DECOMPRESS, f"The body ends in the middle of its {self._name}.")


def decoder(encoding: str) -> Decoder:
    """The decoder of a `Content-Encoding`. Raises EngineError for one that it does not know."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return NoDecoder()
    if name not in _DECODERS:
        raise refuse(UNKNOWN_COMPRESSION_METHOD, f"Content-Encoding {name}: use one of {', '.join(_DECODERS)}.")
    return _Decompressor(name)


class Chain:
    """Two decoders, the outer one first."""

    def __init__(self, outer: Decoder, inner: Decoder) -> None:
        self._outer = outer
        self._inner = inner

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """The plain bytes that are ready."""
        for piece in self._outer.pieces(chunk):
            yield from self._inner.pieces(piece)

    def end(self) -> None:
        """Check both."""
        self._outer.end()
        self._inner.end()


def decoded(chunks: Iterable[bytes], through: Decoder) -> Iterator[bytes]:
    """The chunks of a body through a decoder that may have seen its beginning."""
    for chunk in chunks:
        yield from through.pieces(chunk)
    through.end()
