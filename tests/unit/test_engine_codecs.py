"""Compression of bodies: HTTP's encodings and ClickHouse's own blocks."""

import gzip
import random
import struct
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpmeter.engine.compression import PIECE, Chain, decoded, decoder, encoder, zstd_library
from warpmeter.engine.errors import EngineError
from warpmeter.engine.frames import FrameDecoder, FrameEncoder, city_hash_128

# Of bytes (i * 7 + size) % 256, made by go-faster/city, the implementation in clickhouse-go.
HASHES = {
    0: "2b9ac064fc9df03d291ee592c340b53c",
    3: "8669a11d6bfa08312d6150c2f01b3032",
    5: "7150bf97ad547b05645beb6e7dfbc0b5",
    8: "985ae3e86c34eb9fbad8455518f1f9f2",
    15: "ffc7a10a47b64314594c685a8398f970",
    16: "3d930c8990287e4ec7770444d611659b",
    33: "11ffe63b615e068a46a80c8146255435",
    100: "cfc6d68ac781d6ce9c0a577e78ef2285",
    144: "227fbc9d0276a19b08a16461a4ae9ca9",
    145: "1adfb6aebd2142592527e0ec8ba6b49e",
    272: "0933d0de8406b248c29112ef6d3f1610",
    300: "1c08189ada619b3c7b5c95315c97d9f9",
    4111: "5d2b3ffcf9c7a08120e77914a76d057e",
}


@pytest.mark.parametrize(("size", "expected"), HASHES.items())
def test_the_checksum_is_the_one_clickhouse_froze(size: int, expected: str) -> None:
    assert city_hash_128(bytes((i * 7 + size) % 256 for i in range(size))).hex() == expected


@pytest.mark.parametrize("name", ["gzip", "deflate", "zstd", "lz4"])
def test_what_is_encoded_decodes_in_pieces_of_any_size(name: str) -> None:
    body = random.Random(1).randbytes(5000) + b"a" * 300_000
    chosen, packer = encoder(f"x-unknown, {name};q=0.9")
    packed = packer.add(body[:1000]) + packer.add(body[1000:]) + packer.end()
    pieces = [packed[at : at + 777] for at in range(0, len(packed), 777)]
    assert chosen == name
    assert b"".join(decoded(pieces, decoder(name))) == body


def test_a_body_may_be_several_members() -> None:
    assert b"".join(decoded([gzip.compress(b"one ") + gzip.compress(b"two")], decoder("gzip"))) == b"one two"


@pytest.mark.parametrize("name", ["gzip", "deflate", "zstd", "lz4"])
def test_a_bomb_is_unpacked_no_further_than_it_is_taken(name: str) -> None:
    _, packer = encoder(name)
    packed = packer.add(bytes(4 << 20)) + packer.end()
    tracemalloc.start()
    try:
        pieces = decoder(name).pieces(packed)
        sizes = [len(next(pieces)) for _ in range(8)]
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()
    assert max(sizes) <= PIECE
    assert sum(sizes) + sum(map(len, pieces)) == 4 << 20


@pytest.mark.parametrize("method", ["LZ4", "ZSTD"])
def test_a_block_that_says_it_is_large_is_refused_by_its_header(method: str) -> None:
    packed = FrameEncoder(method).add(bytes(1 << 20))
    with pytest.raises(EngineError, match="more than 262144 bytes"):
        list(FrameDecoder(256 << 10).pieces(packed[:64]))


def test_a_block_of_another_size_than_it_says_is_refused() -> None:
    packed = zstd_library().compress(bytes(1 << 20))
    block = struct.pack("<BII", 0x90, len(packed) + 9, 10) + packed
    with pytest.raises(EngineError, match="10 bytes"):
        list(FrameDecoder().pieces(city_hash_128(block) + block))


def test_nothing_offered_is_nothing_encoded() -> None:
    name, packer = encoder("br, identity")
    assert (name, packer.add(b"x"), packer.end()) == ("", b"x", b"")


@pytest.mark.parametrize(
    ("encoding", "body", "code"),
    [("gzip", gzip.compress(b"x" * 999)[:-3], 271), ("deflate", b"not deflate", 271), ("zstd", b"not zstd", 271)],
    ids=["gzip", "deflate", "zstd"],  # gzip's bytes hold the second, and would differ from worker to worker
)
def test_damage_is_an_exception(encoding: str, body: bytes, code: int) -> None:
    with pytest.raises(EngineError) as refused:
        b"".join(decoded([body], decoder(encoding)))
    assert refused.value.code == code


def test_an_unknown_encoding_is_an_exception() -> None:
    with pytest.raises(EngineError) as refused:
        decoder("snappy")
    assert refused.value.code == 89


@pytest.mark.parametrize("method", ["LZ4", "ZSTD"])
@given(body=st.binary(max_size=3000))
def test_blocks_unpack_to_what_was_packed(method: str, body: bytes) -> None:
    packed = FrameEncoder(method).add(body)
    pieces = [packed[at : at + 100] for at in range(0, len(packed), 100)]
    assert b"".join(decoded(pieces, FrameDecoder())) == body


def test_a_flipped_bit_fails_the_checksum() -> None:
    packed = bytearray(FrameEncoder("LZ4").add(b"some rows " * 50))
    packed[30] ^= 1
    with pytest.raises(EngineError) as refused:
        b"".join(FrameDecoder().pieces(bytes(packed)))
    assert refused.value.code == 40


@pytest.mark.parametrize("body", [b"short", b"\xff" * 100])
def test_what_is_no_block_is_an_exception(body: bytes) -> None:
    with pytest.raises(EngineError) as refused:
        b"".join(decoded([body], FrameDecoder()))
    assert refused.value.code == 271


def test_both_layers_at_once() -> None:
    body = b"row\n" * 1000
    packed = zlib.compress(FrameEncoder("LZ4").add(body))
    assert b"".join(decoded([packed], Chain(decoder("deflate"), FrameDecoder()))) == body
