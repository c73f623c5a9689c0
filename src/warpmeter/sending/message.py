"""What is sent: a title, words, a page, files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class File:
    """A file of a message. `name`: its path below the message's folder; `media_type`: as `text/csv`."""

    name: str
    media_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class Message:
    """One message to any kind of target.

    `id`: what it is known by, the same for all attempts. `text`: in plain words, without which nothing is sent.
    `html`: the same for a mail program, which shows `inline` as `<img src="cid:NAME">`. `link`: where to read more.
    `facts`: for programs, plain JSON values. `place`: where it lies below a folder target, as `weekly/2026-W48`.
    """

    id: str
    title: str
    text: str
    html: str = field(default="", repr=False)
    inline: tuple[File, ...] = ()
    files: tuple[File, ...] = ()
    link: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""
