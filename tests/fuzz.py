"""What must have come of fuzzed messages, by Protobuf and by the engine, not by our own code."""

import math
import struct
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, cast

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from warpmeter.schemas.topics import Topic, row_type
from warpmeter.store import Client

Row = tuple[str, ...]


@cache
def loose(topic: Topic) -> type[Message]:
    """The topic's Envelope with bytes for strings: the engine takes any, Protobuf's Python only UTF-8."""
    file = descriptor_pb2.FileDescriptorProto()
    topic.envelope.DESCRIPTOR.file.CopyToProto(file)
    file.name, file.package = f"loose_{file.name}", f"loose.{file.package}"
    _loosen(file.message_type, topic.envelope.DESCRIPTOR.file.package, file.package)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.Envelope"))


def _loosen(messages: Iterable[descriptor_pb2.DescriptorProto], package: str, new: str) -> None:
    for message in messages:
        message.options.ClearField("map_entry")
        for field in message.field:
            if field.type_name:
                field.type_name = field.type_name.replace(f".{package}.", f".{new}.")
            if field.type == FieldDescriptor.TYPE_STRING:
                field.type = FieldDescriptor.TYPE_BYTES  # type: ignore[assignment]
        _loosen(message.nested_type, package, new)


def decoded(topic: Topic, value: bytes | None) -> list[Any] | None:
    """The rows of a value, None when it is no Envelope of rows and nothing else."""
    try:
        envelope = loose(topic).FromString(value or b"")
    except DecodeError:
        return None
    rows = list(envelope.rows)  # type: ignore[attr-defined]
    envelope.ClearField("rows")
    return rows if rows and not envelope.ByteSize() else None


def plain(topic: Topic, value: bytes, rows: Iterable[Any]) -> bool:
    """Whether a value is written as Protobuf would write it, so that the engine must read it as Protobuf does.

    Otherwise they differ: the engine takes a known field of another kind, and reads a string that is there twice as "".
    """
    known = row_type(topic.envelope).fields_by_number
    unknowns = (cast(Iterable[Any], UnknownFieldSet(row)) for row in rows)
    strange = any(each.field_number in known for found in unknowns for each in found)
    return not strange and loose(topic).FromString(value).ByteSize() == len(value)


def exactly(topic: Topic, value: bytes) -> bool:
    """Whether a value is an Envelope of the topic and has nothing that the topic's schema does not know."""
    try:
        envelope = topic.envelope.FromString(value)
    except DecodeError:
        return False
    size = len(envelope.SerializeToString())
    envelope.DiscardUnknownFields()
    return len(envelope.SerializeToString()) == size


@cache
def columns(topic: Topic) -> tuple[FieldDescriptor, ...]:
    """The fields that are compared: all but maps, whose order the engine keeps and Protobuf does not."""
    found = (field for field in row_type(topic.envelope).fields if field.message_type is None)
    return tuple(found)


def selected(client: Client, table: str, fields: Sequence[FieldDescriptor]) -> list[Row]:
    """These columns of all rows of a table, as `shown` would show them, in order."""
    asked = ", ".join(_expression(field) for field in fields)
    return sorted(tuple(map(str, row)) for row in client.query(f"SELECT {asked} FROM {table}").result_rows)


TIMES = frozenset({"ts", "traced_from", "traced_until", "period_start", "period_end"})


def is_time(field: FieldDescriptor) -> bool:
    """A number of seconds since the epoch, in a column of milliseconds."""
    return field.name in TIMES or field.name.endswith("_at")


def _expression(field: FieldDescriptor) -> str:
    name = f"`{field.name}`"
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        if is_time(field):
            return f"ifNull(toString(toUnixTimestamp64Milli({name})), 'None')"
        return f"ifNull(toString(reinterpretAsUInt64({name})), 'None')"
    if field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
        return f"arrayStringConcat(arrayMap(x -> hex(x), {name}), ',')" if field.is_repeated else f"hex({name})"
    if field.is_repeated:
        return f"arrayStringConcat(arrayMap(x -> toString(x), {name}), ',')"
    whole = "toInt64" if field.type == FieldDescriptor.TYPE_INT32 else "toUInt64"
    return f"ifNull(toString({whole}({name})), 'None')"


def shown(row: Any, fields: Sequence[FieldDescriptor]) -> Row:
    """A decoded row's fields, as text that compares with `selected`."""
    return tuple(_shown(row, field) for field in fields)


def _shown(row: Any, field: FieldDescriptor) -> str:
    value = getattr(row, field.name)
    if field.has_presence and not field.is_repeated and not row.HasField(field.name):
        return "None"
    if field.is_repeated:
        return ",".join(each.hex().upper() if isinstance(each, bytes) else str(int(each)) for each in value)
    if isinstance(value, bytes):
        return value.hex().upper()
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        if is_time(field):
            return str(math.trunc(value * 1000))
        return str(struct.unpack("<Q", struct.pack("<d", value))[0])
    return str(int(value))
