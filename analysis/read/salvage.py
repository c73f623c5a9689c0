"""Events of a text that is not sound JSON: whole ones are found between what is broken."""

import re
from collections import Counter as Counted
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from warpmeter.analysis.read.decode import MalformedError, events
from warpmeter.analysis.read.tables import NO_EVENT
from warpmeter.analysis.read.text import Window, cut, value_end

LONGEST: Final = 64 << 20
"""Bytes of one event, at most."""
_FIRST_LOOK: Final = 1 << 20
_SMALL: Final = 512
_BLANK: Final = re.compile(rb"\s*+")
_AFTER: Final = re.compile(rb"\s*+(,)?")
_NEXT: Final = re.compile(rb"\]\s*+,?\s*+\{")
_BEHIND: Final = 1 << 16
"""Bytes behind a bracket in which there would be another event, if it were not the last."""


class State(Enum):
    """Where the salvage stopped: before further events, after the end of the list, or where the text breaks off."""

    OPEN = "open"
    CLOSED = "closed"
    BROKEN_OFF = "broken off"


class Salvage:
    """One pass over the window from its beginning to `until`; what it went over is dropped from the window."""

    def __init__(self, window: Window, odd: Counted[str], take: Callable[[list[Any]], None]) -> None:
        self._window, self._odd, self._take = window, odd, take
        self._at = 0

    def run(self, until: int) -> State:
        """Takes all whole events that begin before `until`, by ever larger pieces where they are sound."""
        state, step = State.OPEN, until // 4
        while state is State.OPEN and self._at < until:
            size = self._piece(step, until)
            if size:
                step = max(step, size) * 2
            elif step > _SMALL:
                step //= 4
            else:
                state = self._single()
        self._window.drop(self._at)
        return state

    def _piece(self, step: int, until: int) -> int:
        """Takes the events up to the first cut after `step` bytes; 0 if there is none or they are not sound."""
        text = self._window.text
        place = cut(text, self._at + step, until)
        if place is None:
            return 0
        try:
            found = events(b"[" + text[self._at : place[0]] + b"]", self._odd)
        except MalformedError:
            return 0
        self._take(found)
        size = place[1] - self._at
        self._at = place[1]
        return size

    def _single(self) -> State:
        """Goes over one event, whole or not."""
        start = _BLANK.match(self._window.text, self._at)
        self._at = start.end() if start else self._at
        if self._at >= len(self._window.text):
            return State.OPEN if self._window.more() else State.BROKEN_OFF
        first = self._window.text[self._at]
        if first == ord("]"):
            return self._closed()
        end = self._end() if first == ord("{") else None
        if end is None:
            return self._lost()
        try:
            self._take(events(b"[" + self._window.text[self._at : end] + b"]", self._odd))
        except MalformedError:
            if cut(self._window.text, self._at + 1, end):  # it is not whole, and has swallowed others
                return self._lost()
            self._odd[NO_EVENT] += 1
        self._at = end
        return self._after()

    def _end(self) -> int | None:
        """Where the event at hand ends, looking no further than needed: a broken one may swallow all that follows."""
        look = _FIRST_LOOK
        while look <= LONGEST:
            self._window.fill(self._at + look)
            end = value_end(self._window.text, self._at, self._at + look)
            if end is not None:
                return end
            if self._window.ended or cut(self._window.text, self._at + 1, self._at + look):
                return None
            look *= 4
        return None

    def _after(self) -> State:
        """Goes past the comma behind an event."""
        self._window.fill(self._at + _SMALL)
        text = self._window.text
        follows = _AFTER.match(text, self._at)
        assert follows is not None  # it takes nothing, too
        if follows[1]:
            self._at = follows.end()
            return State.OPEN
        if follows.end() == len(text):
            return self._after() if self._window.more() else State.BROKEN_OFF
        self._at = follows.end()
        if text[self._at] == ord("]"):
            return self._closed()
        return State.OPEN if text[self._at] == ord("{") else self._lost()

    def _closed(self) -> State:
        """Goes past a closing bracket. One with events behind it ends nothing."""
        self._window.fill(self._at + _BEHIND)
        text = self._window.text
        next_one = _NEXT.match(text, self._at)
        place = cut(text, self._at, self._at + _BEHIND) if next_one is None else (0, next_one.end() - 1)
        if place is None:
            self._at += 1
            return State.CLOSED
        self._odd[NO_EVENT] += 1
        self._at = place[1]
        return State.OPEN

    def _lost(self) -> State:
        """Counts what is here as an odd event and goes to the next that may be one."""
        at = self._at
        while True:
            place = cut(self._window.text, at)
            if place is not None:
                self._odd[NO_EVENT] += 1
                self._at = place[1]
                return State.OPEN
            at = max(self._at, len(self._window.text) - _SMALL)
            if len(self._window.text) - self._at > LONGEST or not self._window.more():
                return State.BROKEN_OFF
