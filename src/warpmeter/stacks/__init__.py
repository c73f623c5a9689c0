"""Sampled stacks as the whole house speaks of them: frames as texts, a stack's identity, weights.

A frame is `function (file:line)`, or less where less is known: `function (file)`, `function`. A stack is its frames,
outermost first. Sources make rows of them, `warpmeter stacks import` reads what other profilers wrote, and `warpmeter
flame` writes what others read.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Literal

Unit = Literal["microseconds", "bytes", "count"]
NAME_BYTES: Final = 200
"""Of the names of processes and threads, as they are kept."""
_FRAME: Final = re.compile(r"(?P<function>.*?)(?: \((?P<file>(?:[^()]|\([^()]*\))*?)(?::(?P<line>\d+))?\))?", re.DOTALL)
"""A file may have brackets of its own, as `report (1).py` has. tree.js of the page reads frames the same way."""


@dataclass(frozen=True)
class Frame:
    """What one frame tells: `file` '' and `line` 0 where it is not known."""

    function: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        """As it is kept: `function (file:line)`."""
        if not self.file:
            return self.function
        return f"{self.function} ({self.file}:{self.line})" if self.line else f"{self.function} ({self.file})"


@dataclass(frozen=True)
class Weighed:
    """A stack and how much was seen of it: `frames` outermost first, `weight` in the profile's unit."""

    frames: tuple[str, ...]
    weight: int
    samples: int = 1


def frame(text: str) -> Frame:
    """A frame of its text."""
    found = _FRAME.fullmatch(text)
    if found is None or not found["file"]:
        return Frame(text)
    return Frame(found["function"], found["file"], int(found["line"] or 0))


def fitted(text: str, most: int) -> str:
    """The beginning of a text that has at most so many bytes."""
    return text if len(text) <= most // 4 else text.encode()[:most].decode(errors="ignore")


def identity(frames: Sequence[str]) -> int:
    """A stack's number: BLAKE2b of eight bytes, little-endian, over its frames, each ended by a NUL."""
    told = b"".join(text.encode("utf-8", "surrogateescape") + b"\0" for text in frames)
    return int.from_bytes(blake2b(told, digest_size=8).digest(), "little")
