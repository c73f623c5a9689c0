"""The ways a body may be compressed: HTTP's encodings here, ClickHouse's own block frames in `frames`."""

import zlib
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, Final, Protocol

from warpmeter.engine.errors import CANNOT_DECOMPRESS, UNKNOWN_COMPRESSION_METHOD, refuse


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


def _zstd() -> Any:
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return import_module(name)
        except ImportError:
            continue
    raise refuse(UNKNOWN_COMPRESSION_METHOD, "zstd needs Python 3.14 or the package backports.zstd.")


def _library(name: str, package: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise refuse(UNKNOWN_COMPRESSION_METHOD, f"the package {package} is not installed.") from error


def _lz4_encoder() -> Encoder:
    compressor = _library("lz4.frame", "lz4").LZ4FrameCompressor()
    return _Compressor(compressor, compressor.begin())


# Fast levels: results go over loopback.
_ENCODERS: Final[dict[str, Callable[[], Encoder]]] = {
    "lz4": _lz4_encoder,
    "zstd": lambda: _Compressor(_zstd().ZstdCompressor(level=1)),
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
    "zstd": lambda: _zstd().ZstdDecompressor(),
    "lz4": lambda: _library("lz4.frame", "lz4").LZ4FrameDecompressor(),
    "br": lambda: _library("brotli", "brotli").Decompressor(),
}


def decoded(chunks: Iterable[bytes], encoding: str) -> Iterable[bytes]:
    """The chunks of a body without its `Content-Encoding`. Raises EngineError for an encoding it does not know."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return chunks
    if name not in _DECODERS:
        raise refuse(UNKNOWN_COMPRESSION_METHOD, f"Content-Encoding {name}: use one of {', '.join(_DECODERS)}.")
    return _decoded(chunks, name)


def _decoded(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    make = _DECODERS[name]
    decoder = make()
    try:
        for chunk in chunks:
            left = chunk
            while left:  # a body may be several members or frames on end
                if getattr(decoder, "eof", False):
                    decoder = make()
                yield _step(decoder, left, name)
                left = getattr(decoder, "unused_data", None) or b""
    except (zlib.error, RuntimeError, ValueError, EOFError) as error:
        raise refuse(CANNOT_DECOMPRESS, f"The body is not {name}: {error}.") from error
    except Exception as error:
        if type(error).__name__ in ("ZstdError", "error"):
            raise refuse(CANNOT_DECOMPRESS, f"The body is not {name}: {error}.") from error
        raise
    if getattr(decoder, "eof", True) is False:
        raise refuse(CANNOT_DECOMPRESS, f"The body ends in the middle of its {name}.")


def _step(decoder: Any, data: bytes, name: str) -> bytes:
    return bytes(decoder.process(data) if name == "br" else decoder.decompress(data))
