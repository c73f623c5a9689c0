"""The spool's bytes: one record a message, with its length and checksum, found again behind a corrupt stretch.

    record = MAGIC, length u32, crc32 u32 (of the body), body
    body   = index u32, written f64, rows u32, length of topic u16, of message u16, of key u32,
             topic, message, key, value

All numbers little-endian. `index` counts the records of a file, so that a gap tells how many are missing.
"""

import struct
import zlib
from dataclasses import dataclass
from typing import Final

from warpmeter.wire import Envelope

MAGIC: Final = b"\xf1wmr"
HEAD: Final = struct.Struct("<4sII")
BODY: Final = struct.Struct("<IdIHHI")
LARGEST: Final = 64 << 20
"""A length above this is no length of ours: it is a corrupt head."""


@dataclass(frozen=True)
class Record:
    """A message as the spool holds it. `index`: in its file. `written`: UTC seconds. `end`: offset behind it."""

    envelope: Envelope
    index: int
    written: float
    end: int


def encode(envelope: Envelope, index: int, written: float) -> bytes:
    """The bytes of one record."""
    topic, message = envelope.topic.encode(), envelope.message.encode()
    numbers = BODY.pack(index, written, envelope.rows, len(topic), len(message), len(envelope.key))
    body = b"".join((numbers, topic, message, envelope.key, envelope.value))
    return HEAD.pack(MAGIC, len(body), zlib.crc32(body)) + body


def decode(data: bytes, start: int) -> Record | None:
    """The record at `start`; None when what is there is no whole, sound record."""
    if start + HEAD.size > len(data):
        return None
    magic, length, crc = HEAD.unpack_from(data, start)
    begin = start + HEAD.size
    if magic != MAGIC or not BODY.size <= length <= LARGEST or begin + length > len(data):
        return None
    body = data[begin : begin + length]
    return _body(body, begin + length) if zlib.crc32(body) == crc else None


def _body(body: bytes, end: int) -> Record | None:
    index, written, rows, topic, message, key = BODY.unpack_from(body)
    names = BODY.size
    value = names + topic + message + key
    if value > len(body):
        return None
    try:
        envelope = Envelope(
            topic=body[names : names + topic].decode(),
            key=body[value - key : value],
            value=body[value:],
            message=body[names + topic : names + topic + message].decode(),
            rows=rows,
        )
    except UnicodeDecodeError:
        return None
    return Record(envelope, index, written, end)


def resync(data: bytes, start: int) -> tuple[Record | None, int]:
    """The first sound record behind a corrupt stretch at `start`, and where it begins (the end when there is none)."""
    at = data.find(MAGIC, start + 1)
    while at >= 0:
        if (record := decode(data, at)) is not None:
            return record, at
        at = data.find(MAGIC, at + 1)
    return None, len(data)
