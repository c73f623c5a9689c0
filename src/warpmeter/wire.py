"""What travels on the bus: an `Envelope` of rows with its key and headers, and Protobuf's few bytes of framing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from google.protobuf.message import Message

from warpmeter.schemas.topics import Topic


@dataclass(frozen=True)
class Envelope:
    """The rows of one tick of one key, serialised: what one Kafka message carries."""

    topic: str
    key: bytes
    value: bytes
    message: str
    rows: int

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        """`type` and `rows`: what a consumer checks the value against before it lets it join a batch."""
        return [("type", self.message.encode()), ("rows", str(self.rows).encode())]


def pack(topic: Topic, key: str, rows: Sequence[Message]) -> Envelope:
    """Serialise `rows` (row messages of `topic`) into one Envelope; raises ValueError when there are none."""
    if not rows:
        raise ValueError(f"an Envelope of {topic.name} needs at least one row")
    value = b"".join(field(1, row.SerializeToString()) for row in rows)
    return Envelope(topic.name, key.encode(), value, topic.message, len(rows))


def unpack(topic: Topic, value: bytes) -> list[Message]:
    """The row messages of a value; raises google.protobuf.message.DecodeError on corrupt bytes."""
    envelope = topic.envelope()
    envelope.ParseFromString(value)
    return list(envelope.rows)  # type: ignore[attr-defined]


def varint(number: int) -> bytes:
    """`number` >= 0 as a Protobuf varint."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number: int, payload: bytes) -> bytes:
    """A length-delimited field: tag, length, payload."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def joined(values: Iterable[bytes]) -> bytes:
    """Many values as ClickHouse's `ProtobufList` reads them: concatenated (an Envelope again) behind one length."""
    body = b"".join(values)
    return varint(len(body)) + body
