"""The text of a trace as a window that moves over it."""

import re
from collections.abc import Iterator
from typing import Final

CHUNK: Final = 1 << 19
"""Bytes that are decoded at once: few enough that the objects of a chunk stay near the processor."""
CUT: Final = re.compile(rb'\}(\s*,\s*)\{(?=\s*"(?:ph|name|cat|ts|pid|tid|id|dur|args|s|bp)"\s*:)')
"""Where one event ends and the next begins, or two objects inside an event. Never inside a string of sound JSON."""


class Window:
    """What has been read and not yet been dropped. `ended` once there is no more."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
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
        self.fill(before + max(CHUNK, before // 2))
        return len(self.text) > before

    def drop(self, size: int) -> None:
        """Moves on by `size` bytes."""
        self.text = self.text[size:]
