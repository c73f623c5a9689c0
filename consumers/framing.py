"""Confluent Schema Registry's framing of a Protobuf value: magic byte 0, schema id, message indexes, payload.

https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
"""

from typing import Final

MAGIC: Final = 0
HEADER_BYTES: Final = 5


class FramingError(ValueError):
    """The value is not framed, or is framed for another message than the first of its schema."""


def _zigzag_varint(value: bytes, at: int) -> tuple[int, int]:
    """The number at `at` and the place after it."""
    number = shift = 0
    while True:
        if at >= len(value) or shift > 63:
            raise FramingError("the message indexes of the Schema Registry framing are cut off")
        byte = value[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at


def strip(value: bytes) -> bytes:
    """The bare Protobuf payload; raises FramingError, saying what is wrong.

    Only the schema's first message (indexes `[0]`, written as the single byte 0) is an Envelope of ours.
    """
    if len(value) < HEADER_BYTES or value[0] != MAGIC:
        raise FramingError("no Schema Registry framing (magic byte 0), though a registry is configured")
    count, at = _zigzag_varint(value, HEADER_BYTES)
    indexes = []
    for _ in range(max(count, 0)):
        index, at = _zigzag_varint(value, at)
        indexes.append(index)
    if count < 0 or indexes not in ([], [0]):
        raise FramingError(f"framed for message {indexes} of its schema, not for the Envelope")
    return value[at:]
