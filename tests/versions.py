"""The contract as it was in each version of it, and what agents of that version sent: both frozen under tests/golden.

A version is made when the contract grows (`pytest tests/unit/test_versions.py --update`), and never changes after.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from warpmeter.schemas.topics import TOPICS, Topic
from warpmeter.wire import field, varint

GOLDEN: Final = Path(__file__).parent / "golden"
VERSIONS: Final = GOLDEN / "versions"
SENT: Final = GOLDEN / "sent"
T0: Final = 3_800_000_000.125
"""In 2090: what is older than its time to live would be gone."""
ENTRY: Final = "map<string, string>"
LATER: Final = 20_000
"""A field number that no version has come to."""

Field = tuple[str, str, str]
"""Name, type, and `optional`, `repeated` or nothing."""


def names() -> list[str]:
    """All versions, the oldest first."""
    return sorted((path.stem for path in VERSIONS.glob("v*.json")), key=lambda name: int(name[1:]))


@cache
def fields(version: str) -> Mapping[str, Mapping[int, Field]]:
    """Of each topic that the version had, its rows' fields by number."""
    kept = json.loads((VERSIONS / f"{version}.json").read_text())
    return {topic: {int(number): tuple(each) for number, each in of.items()} for topic, of in kept.items()}


@cache
def envelope(version: str, topic: str) -> type[Message]:
    """The Envelope that a program of that version knew."""
    of = TOPICS[topic]
    package = f"warpmeter.{of.table}.v1"
    file = descriptor_pb2.FileDescriptorProto(name=f"{version}/{of.table}.proto", package=package, syntax="proto3")
    outer = file.message_type.add(name="Envelope")
    row = outer.nested_type.add(name=of.message)
    for number, (name, kind, label) in fields(version)[topic].items():
        _add(row, number, name, kind, label, f".{package}.Envelope.{of.message}")
    rows = outer.field.add(name="rows", number=1, type_name=f".{package}.Envelope.{of.message}")
    rows.label, rows.type = FieldDescriptor.LABEL_REPEATED, FieldDescriptor.TYPE_MESSAGE  # type: ignore[assignment]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.Envelope"))


def _add(row: descriptor_pb2.DescriptorProto, number: int, name: str, kind: str, label: str, full: str) -> None:
    made = row.field.add(name=name, number=number)
    repeated = label == "repeated" or kind == ENTRY
    made.label = FieldDescriptor.LABEL_REPEATED if repeated else FieldDescriptor.LABEL_OPTIONAL  # type: ignore[assignment]
    if label == "optional":
        made.proto3_optional = True
        made.oneof_index = len(row.oneof_decl)
        row.oneof_decl.add(name=f"_{name}")
    if kind != ENTRY:
        made.type = getattr(FieldDescriptor, f"TYPE_{kind.upper()}")
        return
    entry = row.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
    entry.options.map_entry = True
    for place, part in enumerate(("key", "value"), 1):
        one = entry.field.add(name=part, number=place)
        one.label, one.type = FieldDescriptor.LABEL_OPTIONAL, FieldDescriptor.TYPE_STRING  # type: ignore[assignment]
    made.type, made.type_name = FieldDescriptor.TYPE_MESSAGE, f"{full}.{entry.name}"  # type: ignore[assignment]


def proto(version: str, topic: str) -> str:
    """The `.proto` that an ingest of that version gave the engine with each insert."""
    of = TOPICS[topic]
    lines = [f"{label} {kind} {name} = {number};" for number, (name, kind, label) in fields(version)[topic].items()]
    inner = "\n".join(lines)
    return (
        f'syntax = "proto3";\npackage warpmeter.{of.table}.v1;\n'
        f"message Envelope {{\nmessage {of.message} {{\n{inner}\n}}\nrepeated {of.message} rows = 1;\n}}\n"
    )


# --- what was sent -----------------------------------------------------------------------------------------------

KNOWN: Final[Mapping[tuple[str, str], Any]] = {
    ("alerts", "state"): "firing",
    ("alert-words", "action"): "silence",
    ("capture-requests", "action"): "start",
    ("capture-schedules", "action"): "set",
    ("capture-commands", "action"): "start",
    ("gpu-events", "state"): "raised",
    ("report-events", "state"): "rendered",
    ("stack-samples", "unit"): "count",
    ("stack-samples", "period_ms"): 1000,
}
"""What the tables hold to a list, or to another column."""
NEEDED: Final = frozenset({"host", "name", "kind", "source", "rule", "subject", "state", "topic"})
"""What tables want of every row, where the topic has it: with ids, times, and what is in KNOWN."""


@dataclass(frozen=True)
class Sent:
    """A message as an agent of some version sent it, and what its rows said, by field."""

    value: bytes
    headers: list[tuple[str, bytes]]
    rows: list[dict[str, Any]]


def value_of(version: str, topic: str, number: int) -> Any:
    """A value that no other field of the message has, and that its column takes."""
    name, kind, label = fields(version)[topic][number]
    if (topic, name) in KNOWN:
        return KNOWN[topic, name]
    if kind == ENTRY:
        return {f"{name} ü": version}
    one: Any = {"string": f"{name} ü {version}", "double": T0 + number, "bool": True, "uint64": (1 << 40) + number}.get(
        kind, 100 + number
    )
    return [one, one] if label == "repeated" else one


def least(topic: str, field: Field) -> bool:
    """Whether a row cannot be without it."""
    name, kind, label = field
    return name in NEEDED or name.endswith("_id") or (topic, name) in KNOWN or (kind == "double" and not label)


def make(version: str, topic: str) -> Sent:
    """One row with everything that the version knew, and one with the least."""
    numbered = fields(version)[topic]
    full = {numbered[number][0]: _made(version, topic, number) for number in numbered}
    rows = [full, {each[0]: full[each[0]] for each in numbered.values() if least(topic, each)}]
    return Sent(packed(version, topic, rows), headers(TOPICS[topic], len(rows)), [_plain(row) for row in rows])


def _made(version: str, topic: str, number: int) -> Any:
    made = value_of(version, topic, number)
    return b"\x00\xff" + bytes([number]) if fields(version)[topic][number][1] == "bytes" else made


def packed(version: str, topic: str, rows: list[dict[str, Any]]) -> bytes:
    """The rows as that version serialised them."""
    whole = envelope(version, topic)()
    for row in rows:
        whole.rows.add(**row)  # type: ignore[attr-defined]
    return whole.SerializeToString(deterministic=True)


def headers(topic: Topic, rows: int) -> list[tuple[str, bytes]]:
    """What every version so far said beside a value."""
    return [("type", topic.message.encode()), ("rows", str(rows).encode())]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.hex() if isinstance(value, bytes) else value for name, value in row.items()}


@cache
def sent(version: str) -> Mapping[str, Sent]:
    """What an agent of that version sent to each topic."""
    kept = json.loads((SENT / f"{version}.json").read_text())
    return {
        topic: Sent(
            bytes.fromhex(each["hex"]), [(name, said.encode()) for name, said in each["headers"].items()], each["rows"]
        )
        for topic, each in kept.items()
    }


def written(version: str) -> str:
    """The golden file of a version's messages."""
    made = {topic: make(version, topic) for topic in fields(version)}
    kept = {
        topic: {"headers": {n: v.decode() for n, v in each.headers}, "hex": each.value.hex(), "rows": each.rows}
        for topic, each in made.items()
    }
    return json.dumps(kept, indent=1, ensure_ascii=False) + "\n"


# --- what is to come ---------------------------------------------------------------------------------------------


def unknown(number: int = LATER) -> bytes:
    """Fields of later versions: one of each wire type, a message with such within, packed numbers.

    But no group, which proto3 cannot write: the engine does not pass over one.
    """
    inner = varint(8) + varint(1 << 63) + field(2, b"of later")
    return b"".join((
        varint(number << 3) + varint((1 << 64) - 1),
        varint(number + 1 << 3 | 1) + b"\x01\x02\x03\x04\x05\x06\x07\x08",
        field(number + 2, "später".encode()),
        field(number + 3, inner),
        field(number + 4, b"".join(varint(each) for each in range(0, 300, 50))),  # packed numbers
        varint(number + 5 << 3 | 5) + b"\x01\x02\x03\x04",
    ))  # fmt: skip


def group(number: int = LATER) -> bytes:
    """A field of wire types 3 and 4, as proto2 had them, with a number within."""
    return varint(number << 3 | 3) + varint(8) + varint(1) + varint(number << 3 | 4)


def newer(topic: str, version: str) -> bytes:
    """The version's message, as one of a version to come would send it: with fields before, between and after.

    The next number after those that are known is the likeliest, so it comes first.
    """
    known = envelope(version, topic).FromString(sent(version)[topic].value)
    following = max(fields(version)[topic]) + 1
    rows = (unknown(following) + row.SerializeToString() + unknown() for row in known.rows)  # type: ignore[attr-defined]
    return b"".join(field(1, row) for row in rows)
