"""ClickHouse's own compressed blocks (`compress=1`, `decompress=1`), as JDBC and clickhouse-go's LZ4 and ZSTD use.

A block is a 16-byte checksum, a method byte, two little-endian 32-bit sizes (compressed with the 9 bytes of this
header, and plain), and the data. The checksum is CityHash128 of version 1.0.2, the one ClickHouse froze, over method,
sizes and data.
"""

import struct
from collections.abc import Iterator
from typing import Final

from clickhouse_cityhash import cityhash

from warpmeter.engine.compression import library, zstd_library
from warpmeter.engine.errors import CANNOT_DECOMPRESS, CHECKSUM_DOESNT_MATCH, refuse

_NONE: Final = 0x02
_LZ4: Final = 0x82
_ZSTD: Final = 0x90
_CHECKSUM: Final = 16
_BLOCK: Final = 1 << 20
_HEADER: Final = struct.Struct("<BII")


def city_hash_128(data: bytes) -> bytes:
    """The checksum as it stands in a block: both halves little-endian."""
    high, low = divmod(int(cityhash.CityHash128(data)), 1 << 64)
    return struct.pack("<QQ", high, low)


def _frame(plain: bytes, method: int) -> bytes:
    if method == _ZSTD:
        packed = zstd_library().compress(plain, level=1)
    else:
        packed = library("lz4.block", "lz4").compress(plain, store_size=False)
    block: bytes = _HEADER.pack(method, len(packed) + _HEADER.size, len(plain)) + packed
    return city_hash_128(block) + block


class FrameEncoder:
    """Packs a stream into blocks of up to 1 MiB; `method` as the setting `network_compression_method` names it."""

    def __init__(self, method: str) -> None:
        self._method = _ZSTD if method.upper() == "ZSTD" else _LZ4

    def add(self, chunk: bytes) -> bytes:
        """The chunk as blocks."""
        pieces = (chunk[at : at + _BLOCK] for at in range(0, len(chunk), _BLOCK))
        return b"".join(_frame(piece, self._method) for piece in pieces)

    def end(self) -> bytes:
        """Nothing is held back."""
        return b""


class FrameDecoder:
    """Unpacks a stream of blocks; raises EngineError when a block is damaged or the stream ends inside one.

    A block larger than `largest` bytes, packed or plain, is refused by its header.
    """

    def __init__(self, largest: int = 64 << 20) -> None:
        self._held = bytearray()
        self._largest = largest

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """The plain bytes of the blocks that are whole, a block at a time."""
        self._held += chunk
        while (size := self._block_size()) and len(self._held) >= _CHECKSUM + size:
            checksum, block = bytes(self._held[:_CHECKSUM]), bytes(self._held[_CHECKSUM : _CHECKSUM + size])
            del self._held[: _CHECKSUM + size]
            yield _unpacked(checksum, block)

    def _block_size(self) -> int:
        if len(self._held) < _CHECKSUM + _HEADER.size:
            return 0
        _, size, plain = _HEADER.unpack_from(self._held, _CHECKSUM)
        if size < _HEADER.size:
            raise refuse(CANNOT_DECOMPRESS, "decompress=1: the body is not ClickHouse's compressed blocks.")
        if max(size, plain) > self._largest:
            why = f"decompress=1: no compressed block, or one of more than {self._largest} bytes; send smaller ones."
            raise refuse(CANNOT_DECOMPRESS, why)
        return int(size)

    def end(self) -> None:
        """Check that no block is cut."""
        if self._held:
            raise refuse(CANNOT_DECOMPRESS, "decompress=1: the body ends in the middle of a block.")


def _unpacked(checksum: bytes, block: bytes) -> bytes:
    if city_hash_128(block) != checksum:
        raise refuse(CHECKSUM_DOESNT_MATCH, "Checksum doesn't match: corrupted data.")
    method, _, size = _HEADER.unpack_from(block)
    packed = block[_HEADER.size :]
    if method == _LZ4:
        return bytes(library("lz4.block", "lz4").decompress(packed, uncompressed_size=size))
    if method == _ZSTD:
        return _sized(bytes(zstd_library().ZstdDecompressor().decompress(packed, size + 1)), size)
    if method == _NONE:
        return _sized(packed, size)
    raise refuse(CANNOT_DECOMPRESS, f"decompress=1: method 0x{method:02x} is none of LZ4, ZSTD and NONE.")


def _sized(plain: bytes, size: int) -> bytes:
    if len(plain) != size:
        raise refuse(CANNOT_DECOMPRESS, f"decompress=1: a block is not of the {size} bytes that its header says.")
    return plain
