"""From text to events: typed where it can be, field by field where it cannot, mended where it is no JSON."""

import re
from collections import Counter as Counted
from typing import Any, Final

import msgspec
from msgspec import DecodeError, Raw, ValidationError, structs

from warpmeter.analysis.read import shapes
from warpmeter.analysis.read.tables import NO_EVENT

MENDED: Final = "mended"
_FWDBWD: Final = b'"fwdbwd"'
_RAWS: Final = msgspec.json.Decoder(list[Raw])
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_NOT_FINITE: Final = re.compile(rb'((?<!\\)"\s*:\s*)[-+]?(?:nan|inf(?:inity)?)(?=\s*[,}\]])', re.IGNORECASE)
_CONTROL_AS_SPACE: Final = bytes(max(code, ord(" ")) for code in range(256))
_BAD_ESCAPE: Final = re.compile(rb'((?:\\(?:["\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}))+)|\\u[dD][89a-fA-F]..|\\')
"""Sound escapes (to go past them), halves of a pair (a whole pair is not told from two), lone backslashes."""


class MalformedError(Exception):
    """Text that is no JSON list, for whatever reason."""


def events(text: bytes, odd: Counted[str]) -> list[Any]:
    """The events of a JSON list. What is JSON but no event is counted in `odd`; `MalformedError` if the text is no list
    even with NaN and infinity taken for null and bad characters replaced.
    """
    try:
        return _typed(text, odd)
    except MalformedError:
        sound, count = mended(text)
        if sound == text:
            raise
        found = _typed(sound, odd)
        odd[MENDED] += count
        return found


def _typed(text: bytes, odd: Counted[str]) -> list[Any]:
    decoder = shapes.EVENTS if _FWDBWD in text else shapes.NO_ARROWS
    try:
        try:
            return decoder.decode(text)
        except ValidationError:
            return _each(_RAWS.decode(text), decoder, odd)
    except (DecodeError, RecursionError, UnicodeError) as error:
        raise MalformedError(str(error)) from error


def _each(raws: list[Raw], decoder: "msgspec.json.Decoder[list[Any]]", odd: Counted[str]) -> list[Any]:
    found = []
    for raw in raws:
        text = bytes(raw)
        if not text.startswith(b"{"):
            odd[NO_EVENT] += 1
            continue
        try:
            found += decoder.decode(b"[" + text + b"]")
        except ValidationError:
            event = _lenient(raw)
            if event is None:
                odd[NO_EVENT] += 1
            else:
                found.append(event)
    return found


def _lenient(raw: Raw) -> Any:
    """An event some of whose arguments have another type than they should: it is read without those. None if it has no
    phase, or if its name, place or category is none.
    """
    try:
        fields = _FIELDS.decode(raw)
        kind = shapes.READ.get(msgspec.json.decode(fields.get("ph", b"null")), shapes.Passed)
        return kind(**_values(kind, fields)) if kind is not shapes.Passed else None
    except (DecodeError, RecursionError, UnicodeError, TypeError):
        return None


def _values(kind: type[Any], fields: dict[str, Raw]) -> dict[str, Any]:
    told = {item.name: (item, fields[item.encode_name]) for item in structs.fields(kind) if item.encode_name in fields}
    return {
        name: _arguments(kind, raw) if name == "args" else msgspec.json.decode(raw, type=item.type, strict=False)
        for name, (item, raw) in told.items()
    }


def _arguments(kind: type[Any], raw: Raw) -> Any:
    if kind in (shapes.Counter, shapes.Metadata):
        return raw
    shape: type[Any] = shapes.Args if kind is shapes.Span else shapes.MemoryArgs
    try:
        fields = _FIELDS.decode(raw)
    except ValidationError:  # a list, a text
        return shape()
    values = {}
    for item in structs.fields(shape):
        if item.encode_name in fields:
            try:
                values[item.name] = msgspec.json.decode(fields[item.encode_name], type=item.type, strict=False)
            except ValidationError:
                continue
    return shape(**values)


def mended(text: bytes) -> tuple[bytes, int]:
    """Text with what writers of traces get wrong put right, and at how many places at least."""
    text, count = _NOT_FINITE.subn(rb"\1null", text.translate(_CONTROL_AS_SPACE))
    try:
        text.decode()
    except UnicodeDecodeError:
        readable = text.decode("utf-8", "replace")
        count += readable.count("\ufffd")
        text = readable.encode()
    if b"\\" in text:
        text, bad = _BAD_ESCAPE.subn(_escaped, text)
        count += bad
    return text, max(count, 1)


def _escaped(found: re.Match[bytes]) -> bytes:
    return found[1] or (b"\\ufffd" if found[0].startswith(b"\\u") else b"\\\\")
