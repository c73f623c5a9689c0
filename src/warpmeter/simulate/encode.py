"""Whole columns of numbers to serialised rows at once: what makes 100,000 rows a second possible in Python.

A row message is cut in three: bytes that stay the same for long (names), bytes of the tick (its time), and the
measured numbers, which are encoded for all rows together. Protobuf takes fields in any order.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from warpmeter import wire
from warpmeter.schemas.topics import Topic, row_type

Numbers = npt.NDArray[np.int64]

ABSENT: Final = -1
_NARROW: Final = 1 << 14  # two 7-bit groups hold it
_LIMIT: Final = 1 << 35  # five do
_KEEP_TAG: Final = 0x0101
_HEADS: Final = tuple(wire.varint(1 << 3 | 2) + wire.varint(length) for length in range(4096))


def _narrow_tables() -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """For each value its two varint bytes above two bytes for the tag, and which of the four are written."""
    value = np.arange(_NARROW + 1, dtype=np.uint32)
    more = value >= 0x80
    code = (value & 0x7F | more << 7) << 16 | (value >> 7) << 24
    kept = np.where(more, 0x01010000, 0x00010000) | _KEEP_TAG
    kept[ABSENT] = 0  # the last entry, where an index of -1 lands
    return code.astype("<u4"), kept.astype("<u4")


_CODE, _KEPT = _narrow_tables()


class Columns:
    """Encodes the unsigned integer fields `names` of a topic's rows.

    A number of up to 14 bits is looked up: four bytes (tag, varint) and four flags that say which of them are
    written. Larger ones are built from their groups, eight bytes each. One boolean index then drops what is unused.
    """

    def __init__(self, topic: Topic, names: Sequence[str]) -> None:
        fields = row_type(topic.envelope).fields_by_name
        tags = [wire.varint(fields[name].number << 3) for name in names]
        self._tag = np.array([int.from_bytes(tag, "little") for tag in tags], dtype="<u4")
        self._tag_kept = np.array([0x01010101 if len(tag) == 2 else 0x01010001 for tag in tags], dtype="<u4")
        self.names = tuple(names)

    def encode(self, values: Mapping[str, Numbers]) -> list[bytes]:
        """One piece of bytes a row; a value of `ABSENT` leaves its field out.

        Raises ValueError for a value that does not fit an unsigned field of 35 bits.
        """
        table = np.stack([values[name] for name in self.names], axis=1)
        if table.min(initial=0) < ABSENT or (top := table.max(axis=0, initial=0)).max() >= _LIMIT:
            raise ValueError("a simulated value lies outside of [-1, 2^35)")
        wide = top >= _NARROW
        pieces = (self._narrow(table, ~wide), self._wide(table, wide))
        code = np.concatenate([each[0] for each in pieces], axis=1)
        kept = np.concatenate([each[1] for each in pieces], axis=1)
        flat = code[kept].tobytes()
        ends = np.cumsum(kept.sum(axis=1)).tolist()
        return [flat[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]

    def _narrow(self, table: Numbers, which: npt.NDArray[np.bool_]) -> "_Pieces":
        chosen = np.ascontiguousarray(table[:, which])
        code = _CODE[chosen] | self._tag[which]
        kept = _KEPT[chosen] & self._tag_kept[which]
        return code.view(np.uint8), kept.view(np.bool_)

    def _wide(self, table: Numbers, which: npt.NDArray[np.bool_]) -> "_Pieces":
        chosen = np.ascontiguousarray(table[:, which])
        code = np.tile(self._tag[which].astype("<u8"), (len(chosen), 1))
        kept = np.tile((self._tag_kept[which] & 0x00010101).astype("<u8"), (len(chosen), 1))
        for group in range(5):
            rest = chosen >> (7 * group)
            more = (rest >= 0x80).astype(np.uint64)
            code |= ((rest & 0x7F).astype(np.uint64) | more << np.uint64(7)) << np.uint64(16 + 8 * group)
            kept |= more << np.uint64(24 + 8 * group)
        kept[chosen == ABSENT] = 0
        return code.view(np.uint8), kept.view(np.bool_)


_Pieces = tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]


def time_field(topic: Topic, ts: float) -> bytes:
    """The field `ts` of a topic's rows."""
    number = row_type(topic.envelope).fields_by_name["ts"].number
    return wire.varint(number << 3 | 1) + struct.pack("<d", ts)


def rows(names: Sequence[bytes], tick: bytes, numbers: Sequence[bytes]) -> list[bytes]:
    """Each row as a field of an Envelope, so that any of them joined are an Envelope."""
    extra = len(tick)
    return [
        _head(len(name) + extra + len(number)) + name + tick + number
        for name, number in zip(names, numbers, strict=True)
    ]


def row(payload: bytes) -> bytes:
    """One serialised row message as a field of an Envelope."""
    return _head(len(payload)) + payload


def _head(length: int) -> bytes:
    return _HEADS[length] if length < len(_HEADS) else wire.varint(1 << 3 | 2) + wire.varint(length)
