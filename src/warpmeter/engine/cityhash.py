"""CityHash128 of version 1.0.2, the version that ClickHouse froze for its checksums (later ones differ).

Geoff Pike and Jyrki Alakuijala's algorithm; the names are theirs.
"""

import struct
from collections.abc import Sequence
from typing import Final

_MASK: Final = (1 << 64) - 1
_K0: Final = 0xC3A5C85C97CB3127
_K1: Final = 0xB492B66FBE98F273
_K2: Final = 0x9AE16A3B2F90404F
_K3: Final = 0xC949D7C7509E6557
_MUL: Final = 0x9DDFEA08EB382D69
_TWO: Final = struct.Struct("<QQ")
_FOUR: Final = struct.Struct("<4Q")
_EIGHT: Final = struct.Struct("<8Q")

Pair = tuple[int, int]


def _rotate(value: int, shift: int) -> int:
    return ((value >> shift) | (value << (64 - shift))) & _MASK


def _shift_mix(value: int) -> int:
    return value ^ (value >> 47)


def _hash_16(low: int, high: int) -> int:
    a = ((low ^ high) * _MUL) & _MASK
    a ^= a >> 47
    b = ((high ^ a) * _MUL) & _MASK
    b ^= b >> 47
    return (b * _MUL) & _MASK


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _hash_0_to_16(data: bytes) -> int:
    size = len(data)
    if size > 8:
        a, b = _u64(data, 0), _u64(data, size - 8)
        return _hash_16(a, _rotate((b + size) & _MASK, size)) ^ b
    if size >= 4:
        a = int.from_bytes(data[:4], "little")
        return _hash_16((size + (a << 3)) & _MASK, int.from_bytes(data[size - 4 :], "little"))
    if size > 0:
        y = (data[0] + (data[size >> 1] << 8)) & 0xFFFFFFFF
        z = (size + (data[size - 1] << 2)) & 0xFFFFFFFF
        return (_shift_mix((y * _K2 ^ z * _K3) & _MASK) * _K2) & _MASK
    return _K2


def _weak_hash(words: Sequence[int], a: int, b: int) -> Pair:
    w, x, y, z = words
    a = (a + w) & _MASK
    b = _rotate((b + a + z) & _MASK, 21)
    c = a
    a = (a + x + y) & _MASK
    b = (b + _rotate(a, 44)) & _MASK
    return (a + z) & _MASK, (b + c) & _MASK


def _murmur(data: bytes, seed: Pair) -> Pair:
    a, b = seed
    size = len(data)
    if size <= 16:
        a = (_shift_mix((a * _K1) & _MASK) * _K1) & _MASK
        c = (b * _K1 + _hash_0_to_16(data)) & _MASK
        d = _shift_mix((a + (_u64(data, 0) if size >= 8 else c)) & _MASK)
    else:
        c = _hash_16((_u64(data, size - 8) + _K1) & _MASK, a)
        d = _hash_16((b + size) & _MASK, (c + _u64(data, size - 16)) & _MASK)
        a = (a + d) & _MASK
        for at in range(0, size - 16, 16):
            first, second = _TWO.unpack_from(data, at)
            a = ((a ^ (_shift_mix((first * _K1) & _MASK) * _K1)) * _K1) & _MASK
            b ^= a
            c = ((c ^ (_shift_mix((second * _K1) & _MASK) * _K1)) * _K1) & _MASK
            d ^= c
    a, b = _hash_16(a, c), _hash_16(d, b)
    return a ^ b, _hash_16(b, a)


def _long(data: bytes, seed: Pair) -> Pair:
    size = len(data)
    x, y = seed
    z = (size * _K1) & _MASK
    v0 = (_rotate(y ^ _K1, 49) * _K1 + _u64(data, 0)) & _MASK
    v = (v0, (_rotate(v0, 42) * _K1 + _u64(data, 8)) & _MASK)
    w = ((_rotate((y + z) & _MASK, 35) * _K1 + x) & _MASK, (_rotate((x + _u64(data, 88)) & _MASK, 53) * _K1) & _MASK)
    whole = size - size % 128
    for at in range(0, whole, 64):
        words = _EIGHT.unpack_from(data, at)
        x = (_rotate((x + y + v[0] + words[2]) & _MASK, 37) * _K1) & _MASK
        y = (_rotate((y + v[1] + words[6]) & _MASK, 42) * _K1) & _MASK
        x ^= w[1]
        y ^= v[0]
        z = _rotate(z ^ w[0], 33)
        v = _weak_hash(words[:4], (v[1] * _K1) & _MASK, (x + w[0]) & _MASK)
        w = _weak_hash(words[4:], (z + w[1]) & _MASK, y)
        z, x = x, z
    y = (y + _rotate(w[0], 37) * _K0 + z) & _MASK
    x = (x + _rotate((v[0] + z) & _MASK, 49) * _K0) & _MASK
    for done in range(32, size - whole + 32, 32):
        words = _FOUR.unpack_from(data, size - done)
        y = (_rotate((y - x) & _MASK, 42) * _K0 + v[1]) & _MASK
        w = ((w[0] + words[2]) & _MASK, w[1])
        x = (_rotate(x, 49) * _K0 + w[0]) & _MASK
        w = ((w[0] + v[0]) & _MASK, w[1])
        v = _weak_hash(words, *v)
    x, y = _hash_16(x, v[0]), _hash_16(y, w[0])
    return (_hash_16((x + v[1]) & _MASK, w[1]) + y) & _MASK, _hash_16((x + w[1]) & _MASK, (y + v[1]) & _MASK)


def _seeded(data: bytes, seed: Pair) -> Pair:
    return _murmur(data, seed) if len(data) < 128 else _long(data, seed)


def city_hash_128(data: bytes) -> bytes:
    """The hash as ClickHouse writes it: low word first, little-endian."""
    size = len(data)
    if size >= 16:
        low, high = _seeded(data[16:], (_u64(data, 0) ^ _K3, _u64(data, 8)))
    elif size >= 8:
        low, high = _seeded(b"", (_u64(data, 0) ^ ((size * _K0) & _MASK), _u64(data, size - 8) ^ _K1))
    else:
        low, high = _seeded(data, (_K0, _K1))
    return _TWO.pack(low, high)
