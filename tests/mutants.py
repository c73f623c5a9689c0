"""Mutated messages for the fuzz test: what a broken producer, disk or wire may make of a good one. By seed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from warpmeter import wire
from warpmeter.consumers.message import Headers
from warpmeter.schemas.topics import Topic, row_type

T0: Final = 1_800_000_000
NEEDED: Final = {
    "host": "", "topic": "", "job_id": "", "capture_id": "", "alert_id": "", "subject": "", "report_id": "",
    "name": "metric", "kind": "xid", "state": "raised", "action": "start", "unit": "bytes",
}  # fmt: skip
WORDS: Final = {
    "capture-schedules": {"action": "set"}, "alert-words": {"action": "silence"}, "alerts": {"state": "firing"},
    "report-events": {"state": "rendered"},
}  # fmt: skip
"""Of the topics that know other words."""
Value = bytes | None
Mutation = Callable[[Random, bytes, bytes], Value]


@dataclass(frozen=True)
class Sent:
    """One message and how it was made; `kind` is `good` for what nobody touched."""

    kind: str
    value: Value
    headers: Headers | None


def good(topic: Topic, number: int, rng: Random) -> wire.Envelope:
    """A good message of one to four rows with random fields; its rows say `number`."""
    rows = []
    for index in range(rng.randrange(1, 5)):
        row = topic.envelope().rows.add()  # type: ignore[attr-defined]
        for field in row_type(topic.envelope).fields:
            if not field.has_presence or field.message_type or rng.random() < 0.5:
                _fill(row, field, rng)
        _say(row, number, index)
        for name, word in WORDS.get(topic.name, {}).items():
            setattr(row, name, word)
        rows.append(row)
    return wire.pack(topic, f"h{number}", rows)


def _say(row: Message, number: int, index: int) -> None:
    """Host and time, and what the tables' constraints ask for."""
    named = row.DESCRIPTOR.fields_by_name
    for name in NEEDED.keys() & named.keys():
        setattr(row, name, NEEDED[name] or f"h{number}")
    if "job_share_permille" in named:
        row.ClearField("job_share_permille")  # one for each of the jobs, or none
    if "sampled_ms" in named:
        row.sampled_ms = min(row.sampled_ms, row.period_ms)  # type: ignore[attr-defined]
    row.ts = T0 + number + index * 0.25  # type: ignore[attr-defined]


def _fill(row: Message, field: FieldDescriptor, rng: Random) -> None:
    if field.message_type is not None:
        getattr(row, field.name)[f"k{rng.randrange(9)}"] = f"v{rng.randrange(9)}"
    elif field.is_repeated:
        getattr(row, field.name).extend(_scalar(field, rng) for _ in range(rng.randrange(3)))
    else:
        setattr(row, field.name, _scalar(field, rng))


def _scalar(field: FieldDescriptor, rng: Random) -> object:
    if field.type == FieldDescriptor.TYPE_STRING:
        return f"s{rng.randrange(100)}"
    if field.type == FieldDescriptor.TYPE_BYTES:
        return rng.randbytes(rng.randrange(12))
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        return T0 + rng.randrange(1000) / 4
    if field.type == FieldDescriptor.TYPE_BOOL:
        return rng.random() < 0.5
    return rng.randrange(200)  # fits into every column, and is a ratio below one


def fields(value: bytes) -> list[tuple[int, int, int]]:
    """The length-delimited fields of well-formed bytes: place of the tag, of the payload, and its end."""
    found, at = [], 0
    while at < len(value):
        tag, start = _varint(value, at)
        if tag & 7 == 2:
            length, start = _varint(value, start)
            found.append((at, start, start + length))
            at = start + length
        else:
            at = start + {0: _varint(value, start)[1] - start, 1: 8, 5: 4}[tag & 7]
    return found


def _varint(value: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = value[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at


def _in_a_row(rng: Random, value: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """The value with one of its rows changed, and that row's length right again."""
    at, start, end = rng.choice(fields(value))
    return value[:at] + wire.field(1, change(value[start:end])) + value[end:]


def flip(rng: Random, value: bytes, __: bytes) -> Value:
    out = bytearray(value)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def byte(rng: Random, value: bytes, _: bytes) -> Value:
    at = rng.randrange(len(value))
    return value[:at] + rng.randbytes(1) + value[at + 1 :]


def truncate(rng: Random, value: bytes, _: bytes) -> Value:
    return value[: rng.randrange(len(value))]


def cut_out(rng: Random, value: bytes, _: bytes) -> Value:
    at = rng.randrange(len(value))
    return value[:at] + value[at + rng.randrange(1, 9) :]


def splice(rng: Random, value: bytes, other: bytes) -> Value:
    return value[: rng.randrange(len(value))] + other[rng.randrange(len(other)) :]


def insert(rng: Random, value: bytes, _: bytes) -> Value:
    at = rng.randrange(len(value) + 1)
    return value[:at] + rng.randbytes(rng.randrange(1, 5)) + value[at:]


def varint(rng: Random, value: bytes, _: bytes) -> Value:
    """A number goes on: its last byte says that another follows, or it is written longer than it must be."""
    at = rng.randrange(len(value))
    more = rng.choice((b"", b"\x00", b"\x80\x00", b"\x80" * rng.randrange(1, 12) + b"\x01", b"\xff" * 9 + b"\x01"))
    return value[:at] + bytes([value[at] | 0x80]) + more + value[at + 1 :]


def length(rng: Random, value: bytes, _: bytes) -> Value:
    """A row says another length than it has."""
    at, start, end = rng.choice(fields(value))
    said = max(0, end - start + rng.choice((-300, -9, -2, -1, 1, 2, 9, 300, 1 << 20, (1 << 31) - 1, (1 << 63) - 1)))
    return value[:at] + b"\x0a" + wire.varint(said) + value[start:]


def length_inside(rng: Random, value: bytes, _: bytes) -> Value:
    """A string or map in a row says another length than it has; the row's own is right."""

    def change(row: bytes) -> bytes:
        inner = fields(row)
        if not inner:
            return row
        _, start, end = rng.choice(inner)
        said = max(0, end - start + rng.choice((-2, -1, 1, 2, 9, 200, 1 << 31)))
        return row[: start - 1] + wire.varint(said) + row[start:]

    return _in_a_row(rng, value, change)


def twice(rng: Random, value: bytes, __: bytes) -> Value:
    """A row, or a field of one, is there twice."""
    at, _, end = rng.choice(fields(value))
    if rng.random() < 0.3:
        return value[:end] + value[at:]

    def change(row: bytes) -> bytes:
        inner = fields(row)
        if not inner:
            return row + row
        start, _, stop = rng.choice(inner)
        return row[:stop] + row[start:]

    return _in_a_row(rng, value, change)


def unknown(rng: Random, value: bytes, __: bytes) -> Value:
    """A row of a later version, or one that says so: fields of numbers and kinds that nobody knows."""
    number = rng.choice((60, 100, 5000, (1 << 29) - 1, 0, 1 << 29))
    kind = rng.randrange(8)
    tail = {0: b"\x07", 1: bytes(8), 2: b"\x03abc", 3: b"", 4: b"", 5: bytes(4)}.get(kind, b"")
    more = wire.varint(number << 3 | kind) + tail
    if kind == 3 and rng.random() < 0.7:  # a group: everything up to its end
        more += rng.choice((b"", b"\x08\x01", b"\x0a\x02ab")) + wire.varint(number << 3 | 4)
    return _in_a_row(rng, value, lambda row: row + more if rng.random() < 0.5 else more + row)


def kind_of_field(rng: Random, value: bytes, _: bytes) -> Value:
    """A known field in another kind than its own."""
    number, kind = rng.randrange(1, 24), rng.randrange(6)
    tail = {0: b"\x07", 1: rng.randbytes(8), 2: b"\x03\x01\x02\x03", 5: rng.randbytes(4)}.get(kind, b"")
    return _in_a_row(rng, value, lambda row: row + wire.varint(number << 3 | kind) + tail)


def number(rng: Random, value: bytes, _: bytes) -> Value:
    """A known field with a number that may be too large for its column."""
    big = rng.choice((255, 256, 1000, 1001, 65_535, 65_536, (1 << 32) - 1, 1 << 32, (1 << 64) - 1))
    more = wire.varint(rng.randrange(3, 46) << 3) + wire.varint(big)
    return _in_a_row(rng, value, lambda row: row + more)


def swap_rows(rng: Random, value: bytes, other: bytes) -> Value:
    """Half of the rows are of another message: still a message."""
    return value + other if rng.random() < 0.5 else other + value


def noise(rng: Random, _: bytes, __: bytes) -> Value:
    return rng.randbytes(rng.randrange(1, 80))


def noise_row(rng: Random, value: bytes, _: bytes) -> Value:
    return value + wire.field(1, rng.randbytes(rng.randrange(1, 40)))


def nothing(rng: Random, _: bytes, __: bytes) -> Value:
    return rng.choice((None, b"", b"\x0a\x00", b"\x00"))


def same(_: Random, value: bytes, __: bytes) -> Value:
    """Untouched: its headers lie."""
    return value


# What is wrong within a row is the engine's to find, at some milliseconds each; the rest is seen without it.
INSIDE: Final[Sequence[Mutation]] = (flip, byte, length_inside, kind_of_field, number, unknown)
AROUND: Final[Sequence[Mutation]] = (
    *(truncate, cut_out, splice, insert, varint, length, twice, swap_rows, noise, noise_row, nothing, same),
)


def _headers(rng: Random, honest: Headers, others: Sequence[Topic]) -> Headers | None:
    """Mostly those of the message that was mutated; else lies."""
    said = dict(honest)
    lies: Sequence[Headers | None] = (
        None,
        [("type", said["type"])],
        [("rows", said["rows"])],
        [("type", said["type"]), ("rows", b"%d" % rng.randrange(9))],
        [("type", rng.choice(others).message.encode()), ("rows", said["rows"])],
        [("type", rng.randbytes(4)), ("rows", rng.randbytes(2))],
        [*honest, ("rows", b"1")],
        [("rows", said["rows"]), ("type", said["type"])],
        [("type", None), ("rows", None)],
    )
    return rng.choice(lies)


@dataclass(frozen=True)
class Stream:
    """How a stream of messages is made: the share of mutants, and among them of those that are wrong within a row."""

    messages: int
    share: float
    inside: float = 1 / 3

    def of(self, topic: Topic, rng: Random, others: Sequence[Topic]) -> Iterator[Sent]:
        """The messages, made of a few hundred good ones."""
        pool = [good(topic, number, rng) for number in range(min(self.messages, 300))]
        strange = [good(other, number, rng) for other in others for number in range(5)]
        for _ in range(self.messages):
            one = rng.choice(pool)
            if rng.random() >= self.share:
                yield Sent("good", one.value, one.headers)
            else:
                two = rng.choice(pool if rng.random() < 0.5 else strange)
                yield self._mutant(one, two, rng, others)

    def _mutant(self, one: wire.Envelope, two: wire.Envelope, rng: Random, others: Sequence[Topic]) -> Sent:
        change = rng.choice(INSIDE if rng.random() < self.inside else AROUND)
        lie = change is same or rng.random() < 0.1
        value = change(rng, one.value, two.value)
        return Sent(change.__name__, value, _headers(rng, one.headers, others) if lie else one.headers)
