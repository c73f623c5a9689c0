"""The way through one file: its head, its events in chunks, its tail."""

import re
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec import DecodeError, Raw

from warpmeter.analysis.read.decode import MalformedError, events, mended
from warpmeter.analysis.read.files import TraceError
from warpmeter.analysis.read.salvage import Salvage, State
from warpmeter.analysis.read.tables import NO_EVENT, Tables
from warpmeter.analysis.read.text import Window, cut, value_end

LONGEST_HEAD: Final = 256 << 20
LONGEST_GAP: Final = 4 << 20
"""Bytes without a place to cut after which a text is gone through event by event."""
MOST_ODD: Final = 100_000
"""Entries that are no events after which a file with fewer events is no trace."""
_KEY: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
_NEEDED: Final = ("deviceProperties", "distributedInfo", "baseTimeNanoseconds", "displayTimeUnit", "traceName")
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_FAULTS: Final = (DecodeError, RecursionError, UnicodeError)


class UnsoundError(Exception):
    """The text cannot be shared out by its cuts: it must be read from its beginning by one process."""


@dataclass
class Document:
    """What a file says besides its events, and what was wrong with it."""

    head: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Share:
    """Which chunks a reader decodes when several go through the same file: all of them, if it is alone.

    The first of them also reads the tail. Sharing needs sound text: a reader that finds another raises `UnsoundError`.
    """

    index: int = 0
    of: int = 1

    def mine(self, chunk: int) -> bool:
        """Whether to decode this chunk."""
        return chunk % self.of == self.index


ALONE: Final = Share()


class Reader:
    """One pass over a file."""

    def __init__(self, path: str, window: Window, tables: Tables, share: Share = ALONE) -> None:
        self._path, self._window, self._tables, self._share = path, window, tables, share
        self._chunk = 0
        self.document = Document()

    def run(self) -> Document:
        """Files all events of the share in the tables. `TraceError` for what is no trace."""
        is_object = self._head()
        while (place := self._cut()) is not None:
            state = self._decode(*place)
            if state is not State.OPEN:
                return self._rest(is_object, state)
            self._chunk += 1
            self._judge()
        self._tables.chunks = self._chunk
        return self._tail(is_object) if self._share.index == 0 else self.document

    def _judge(self) -> None:
        """Gives up a file that is a list of something else. `TraceError`"""
        odd = self._tables.odd[NO_EVENT]
        if odd > MOST_ODD and odd > self._tables.events:
            raise TraceError(f"{self._path} is not a trace: most of what it lists is no event")

    def _head(self) -> bool:
        """Goes to the first event; True for an object, False for a bare list."""
        first = self._first()
        if first == b"[":
            self._window.drop(1)
            return False
        if first != b"{":
            raise TraceError(f"{self._path} is not a trace: it is no JSON, as it begins with {first!r}")
        self._to_events()
        return True

    def _first(self) -> bytes:
        while True:
            self._window.fill(self._window.chunk)
            self._window.text = text = self._window.text.removeprefix(b"\xef\xbb\xbf").lstrip()
            if text:
                return text[:1]
            if self._window.ended:
                raise TraceError(f"{self._path} is empty")

    def _to_events(self) -> None:
        """Goes past the first `"traceEvents": [` that stands where an object's own fields do."""
        at = 0
        tries: list[int] = []
        while len(tries) < 16:
            for found in _KEY.finditer(self._window.text, at):
                head = _object(self._window.text[: found.end() - 1] + b"null}")
                if head is not None:
                    return self._begin(found.end(), head)
                tries.append(found.end())
            at = max(0, len(self._window.text) - 4096)
            if len(self._window.text) > LONGEST_HEAD or not self._window.more():
                break
        if not tries:
            raise TraceError(f"{self._path} is not a trace: {self._why()}")
        self.document.notes.append("what stands before its events is no sound JSON; only what is known was looked for")
        return self._begin(tries[0], _picked(self._window.text[: tries[0]]))

    def _begin(self, at: int, head: dict[str, Any]) -> None:
        self.document.head |= head
        self._window.drop(at)

    def _why(self) -> str:
        if not self._window.ended:
            return f"its first {LONGEST_HEAD >> 20} MiB hold no list of traceEvents"
        try:
            _OBJECT.decode(self._window.text)
        except _FAULTS as error:
            return f"it holds no list of traceEvents, and is no sound JSON ({error})"
        return "it is JSON, but holds no list of traceEvents"

    def _cut(self) -> tuple[int, int] | None:
        """Where the chunk at hand ends and the next begins; None when the rest of the file is the tail."""
        chunk = self._window.chunk
        self._window.fill(chunk + (64 << 10))
        at = chunk
        while True:
            place = cut(self._window.text, at)
            if place:
                return place
            at = max(chunk, len(self._window.text) - 4096)
            if len(self._window.text) > LONGEST_GAP:
                if self._share.of > 1:
                    raise UnsoundError
                return len(self._window.text), len(self._window.text)
            if not self._window.more():
                return None

    def _decode(self, end: int, following: int) -> State:
        """Files the events of one chunk and goes to the next."""
        if self._share.mine(self._chunk):
            try:
                found = events(b"".join((b"[", memoryview(self._window.text)[:end], b"]")), self._tables.odd)
            except MalformedError as error:
                if self._share.of > 1:
                    raise UnsoundError from error
                return self._salvage(end)
            self._tables.add(self._chunk, found)
        self._window.drop(following)
        return State.OPEN

    def _salvage(self, until: int) -> State:
        found: list[Any] = []
        state = Salvage(self._window, self._tables.odd, found.extend).run(until)
        self._tables.add(self._chunk, found)
        return state

    def _tail(self, is_object: bool) -> Document:
        """Files the events of the last chunk, and what stands behind them."""
        opening = b'{"traceEvents":[' if is_object else b"["
        whole = opening + self._window.text
        try:
            fields = _OBJECT.decode(whole) if is_object else {"traceEvents": Raw(whole)}
            found = events(bytes(fields.pop("traceEvents")), self._tables.odd)
        except (*_FAULTS, MalformedError):
            return self._rest(is_object, self._salvaged_tail())
        self._tables.add(self._chunk, found)
        self.document.head |= _plain(fields)
        return self.document

    def _salvaged_tail(self) -> State:
        state = State.OPEN
        while state is State.OPEN and self._window.text:
            state = self._salvage(len(self._window.text))
            self._chunk += 1
            self._judge()
        return state if state is State.CLOSED else State.BROKEN_OFF

    def _rest(self, is_object: bool, state: State) -> Document:
        """What stands behind the events of a file whose list was gone through one by one."""
        self._window.fill(LONGEST_HEAD)
        rest = self._window.text
        if state is not State.CLOSED:
            self.document.notes.append(f"it breaks off after {self._tables.events:,} events; what is whole was read")
            self.document.head |= _picked(rest)
            return self.document
        head = _object(b'{"traceEvents":null' + rest) if is_object else None if rest.strip() else {}
        if head is None:
            self.document.notes.append("what stands behind its events is not whole or no sound JSON")
            head = _picked(rest)
        self.document.head |= head
        return self.document


def _object(text: bytes) -> dict[str, Any] | None:
    """All fields but the events; None if the text is no object, mended or not."""
    for readable in (text, mended(text)[0]):
        try:
            fields = _OBJECT.decode(readable)
        except _FAULTS:
            continue
        fields.pop("traceEvents", None)
        return _plain(fields)
    return None


def _plain(fields: dict[str, Raw]) -> dict[str, Any]:
    """Decoded values; those that nest too deeply or are no sound JSON are left out."""
    values: dict[str, Any] = {}
    for key, raw in fields.items():
        try:
            values[key] = msgspec.json.decode(raw)
        except _FAULTS:
            continue
    return values


def _picked(text: bytes) -> dict[str, Any]:
    """The fields that analysis needs, from a text that is no sound JSON as a whole."""
    picked: dict[str, Any] = {}
    for key in _NEEDED:
        found = re.search(rb'"%b"\s*:\s*' % key.encode(), text)
        if found:
            value = _value(text, found.end())
            picked |= _plain({key: Raw(value)}) if value else {}
    return picked


def _value(text: bytes, at: int) -> bytes:
    if text[at : at + 1] in (b"{", b"["):
        end = value_end(text, at, len(text))
        return text[at:end] if end else b""
    scalar = re.compile(rb'"[^"\\]*"|[-0-9.eE+]+(?=[\s,}])').match(text, at)
    return scalar[0] if scalar else b""
