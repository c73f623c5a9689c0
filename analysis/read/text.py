"""The text of a trace as a window that moves over it."""

import re
from collections.abc import Iterator
from typing import Final

CHUNK: Final = 1 << 19
"""Bytes that are decoded at once: few enough that the objects of a chunk stay near the processor."""
_CUT: Final = re.compile(rb'\}(\s*,\s*)\{(?=\s*"(?:ph|name|cat|ts|pid|tid|id|dur|args|s|bp)"\s*:)')
"""Where one event ends and the next begins, or two objects inside an event. Never inside a string of sound JSON."""
_PHASE: Final = re.compile(rb'"ph"\s*:')
_NEAR: Final = 1 << 16
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]"]', re.DOTALL)
_CLOSES: Final = {ord("{"): ord("}"), ord("["): ord("]")}
_QUOTE: Final = ord('"')


def value_end(text: bytes, at: int, limit: int) -> int | None:
    """Where the object or list that begins at `at` ends; None if it does not before `limit`."""
    open_ones = bytearray()
    for token in _TOKEN.finditer(text, at, limit):
        sign = text[token.start()]
        if sign == _QUOTE:
            if token.end() - token.start() == 1:
                return None
        elif sign in _CLOSES:
            open_ones.append(_CLOSES[sign])
        elif not open_ones or open_ones.pop() != sign:
            return None
        elif not open_ones:
            return token.end()
    return None


def cut(text: bytes, at: int, limit: int | None = None) -> tuple[int, int] | None:
    """The first place from `at` on where an event ends and another begins: its end, and the other's beginning.

    The other has a phase, so that objects within an event are none. That both are events is sure when the text up to
    the end is sound: cut within an event, it has brackets or quotes that do not close.
    """
    for found in _CUT.finditer(text, at, len(text) if limit is None else limit):
        end = value_end(text, found.end(1), found.end(1) + _NEAR)
        if end is None or _PHASE.search(text, found.end(1), end):
            return found.span(1)
    return None


class Window:
    """What has been read and not yet been dropped. `ended` once there is no more; `chunk` bytes are decoded at once."""

    def __init__(self, blocks: Iterator[bytes], chunk: int = CHUNK) -> None:
        self._blocks, self.chunk = blocks, chunk
        self.text = b""
        self.ended = False

    def fill(self, size: int) -> None:
        """Reads on until the window holds `size` bytes, or all that there are."""
        blocks, held = [self.text], len(self.text)
        while not self.ended and held < size:
            block = next(self._blocks, None)
            if block is None:
                self.ended = True
            else:
                blocks.append(block)
                held += len(block)
        if len(blocks) > 1:
            self.text = b"".join(blocks)

    def more(self) -> bool:
        """Reads on, by half of what is there or a chunk; False if there is no more."""
        before = len(self.text)
        self.fill(before + max(self.chunk, before // 2))
        return len(self.text) > before

    def drop(self, size: int) -> None:
        """Moves on by `size` bytes."""
        self.text = self.text[size:]
