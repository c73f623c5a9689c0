"""The spool's bytes: one record a message, with its length and checksum, found again behind a corrupt stretch.

    record = mark, length u32, crc32 u32 (of the body), body
    body   = index u32, written f64, rows u32, length of topic u16, of message u16, of key u32,
             topic, message, key, value

All numbers little-endian. The mark says whether the message waits or is delivered; it is overwritten in place, and no
bit of the two is the same, so that no single damaged byte makes one of the other. `index` counts the records of a file,
so that a gap tells how many are missing. `written` is in seconds of the monotonic clock of the boot that wrote it.
"""

import re
import struct
import zlib
from dataclasses import dataclass
from typing import Final

from warpmeter.wire import Envelope

WAITING: Final = b"\xf1wmr"
DELIVERED: Final = bytes(byte ^ 0xFF for byte in WAITING)
MARK: Final = re.compile(b"|".join(map(re.escape, (WAITING, DELIVERED))))
HEAD: Final = struct.Struct("<4sII")
BODY: Final = struct.Struct("<IdIHHI")
LARGEST: Final = 64 << 20
"""A length above this is no length of ours: it is a corrupt head."""


@dataclass(frozen=True)
class Record:
    """A message as the spool holds it. `index`: in its file. `start`, `end`: offsets of it and behind it."""

    envelope: Envelope
    index: int
    written: float
    start: int
    end: int
    delivered: bool


def encode(envelope: Envelope, index: int, written: float) -> bytes:
    """The bytes of one record that waits."""
    topic, message = envelope.topic.encode(), envelope.message.encode()
    numbers = BODY.pack(index, written, envelope.rows, len(topic), len(message), len(envelope.key))
    body = b"".join((numbers, topic, message, envelope.key, envelope.value))
    return HEAD.pack(WAITING, len(body), zlib.crc32(body)) + body


def decode(data: bytes, start: int) -> Record | None:
    """The record at `start`; None when what is there is no whole, sound record."""
    if start + HEAD.size > len(data):
        return None
    mark, length, crc = HEAD.unpack_from(data, start)
    begin = start + HEAD.size
    if mark not in (WAITING, DELIVERED) or not BODY.size <= length <= LARGEST or begin + length > len(data):
        return None
    body = data[begin : begin + length]
    return _record(body, start, mark == DELIVERED) if zlib.crc32(body) == crc else None


def _record(body: bytes, start: int, delivered: bool) -> Record | None:
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
    return Record(envelope, index, written, start, start + HEAD.size + len(body), delivered)


def resync(data: bytes, start: int) -> tuple[Record | None, int]:
    """The first sound record behind a corrupt stretch at `start`, and where it begins (the end when there is none)."""
    for found in MARK.finditer(data, start + 1):
        if (record := decode(data, found.start())) is not None:
            return record, record.start
    return None, len(data)


def lost(data: bytes, start: int, end: int, missing: int | None) -> int:
    """How many messages a corrupt stretch took. `missing`: records, by the indices around it; None when not known."""
    if missing is None:  # to the end of the file: by the marks that are still there
        return max(data.count(WAITING, start, end), not data.startswith(DELIVERED, start))
    return max(0, missing - data.count(DELIVERED, start, end))
