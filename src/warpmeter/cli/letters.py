"""`warpmeter dead-letters show`: one letter, for a person or a program."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError

from warpmeter import registry, wire
from warpmeter.cli import common
from warpmeter.schemas.topics import TOPICS
from warpmeter.terminal import printable

if TYPE_CHECKING:
    from warpmeter.consumers.replay.letterbox import Content, Letter

DUMPED: Final = 512
ROWS: Final = 5


def told(letter: "Letter", content: "Content", prefix: str) -> dict[str, Any]:
    """All of it: `rows` as far as they decode, else `problem` says why they do not."""
    topic = letter.topic.removeprefix(f"{prefix}.")
    rows, problem = _rows(topic, content.value)
    return {
        "letter": letter.place,
        "topic_uuid": letter.uuid,
        "refused_at": common.said(letter.ts),
        "reason": letter.reason,
        "replayed_at": common.said(letter.replayed_at) or None,
        "key": content.key.decode(errors="backslashreplace"),
        "headers": dict(content.headers),
        "bytes": len(content.value),
        "hex": content.value.hex(),
        "rows": rows,
        "problem": problem or (_foreign(topic, content) if rows else ""),
    }


def _foreign(topic: str, content: "Content") -> str:
    """Why fields that decode may be another message's; '' where the message says that they are of this topic.

    Types are alike on the wire: most bytes of one decode as another, under wrong names.
    """
    kind, own = content.headers.get("type"), TOPICS[topic].message
    if kind == own:
        return ""
    says = f"says that it is a {kind}" if kind else "does not say its type"
    return f"the message {says}, and {topic} carries {own}: the fields below may not belong to these bytes"


def _rows(topic: str, value: bytes) -> tuple[list[dict[str, Any]], str]:
    if topic not in TOPICS:
        return [], f"there is no topic {topic}"
    try:
        found = wire.unpack(TOPICS[topic], registry.unframed(value))
    except (DecodeError, registry.FramingError) as error:
        return [], f"the bytes are no Envelope of {topic}: {error}"
    return [MessageToDict(row, preserving_proto_field_name=True) for row in found], ""


def show(found: Mapping[str, Any]) -> None:
    """For a person: a field a line, the first rows, bytes as a dump."""
    rows = found["rows"]
    for name, value in found.items():
        if name not in ("hex", "rows") and value not in ("", None, {}):
            common.out.print(printable(f"{name}: {value}"), markup=False, highlight=False)
    for number, row in enumerate(rows[:ROWS], 1):
        common.out.print(f"row {number}:", markup=False, highlight=False)
        for name, value in row.items():
            common.out.print(printable(f"  {name}: {value}"), markup=False, highlight=False)
    if len(rows) > ROWS:
        common.out.print(f"and {len(rows) - ROWS} rows more; --json has all", highlight=False)
    for line in dump(bytes.fromhex(found["hex"])[:DUMPED]):
        common.out.print(line, markup=False, highlight=False)
    if found["bytes"] > DUMPED:
        common.out.print(f"and {found['bytes'] - DUMPED} bytes more; --raw writes all", highlight=False)


def dump(value: bytes) -> list[str]:
    """Sixteen bytes a line: place, hex, and what is printable."""
    lines = ((at, value[at : at + 16]) for at in range(0, len(value), 16))
    return [f"{at:06x}  {line.hex(' '):47}  {''.join(map(_printable, line))}" for at, line in lines]


def _printable(byte: int) -> str:
    return chr(byte) if 32 <= byte < 127 else "."
