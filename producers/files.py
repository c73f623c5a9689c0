"""Read small files of /proc and /sys below an injectable root, as cheaply as Python can."""

import os
from pathlib import Path
from typing import Final

CHUNK: Final = 1 << 16


def read(path: str) -> bytes:
    """All of a file; raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(descriptor, CHUNK):
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)
    finally:
        os.close(descriptor)


def optional(path: str) -> bytes | None:
    """The same; None when the file is not there, may not be read, or the kernel refuses it (EOPNOTSUPP, EINVAL)."""
    try:
        return read(path)
    except OSError:
        return None


def link(path: str) -> str:
    """Where a link leads, '' when nobody tells; bytes that are no UTF-8 become U+FFFD, as no message takes them."""
    try:
        return os.readlink(os.fsencode(path)).decode(errors="replace")  # noqa: PTH115 - hot, and bytes
    except OSError:
        return ""


def names(folder: str) -> list[str]:
    """What is in a folder; empty when it cannot be listed."""
    try:
        return os.listdir(folder)  # noqa: PTH208 - hot
    except OSError:
        return []


def plain(text: str) -> str:
    """Text as messages take it: what is no character, as JSON may spell it, becomes '?'."""
    return text.encode(errors="replace").decode()


def below(root: Path, *parts: str) -> str:
    """A path below the root that the agent measures."""
    return str(root.joinpath(*parts))


def of_network(root: Path, name: str) -> str:
    """`/proc/net/<name>`. Below another root that is of the reader's own namespace; process 1's is the host's."""
    of_init = below(root, "proc", "1", "net", name)
    if str(root) != "/" and os.access(of_init, os.R_OK):
        return of_init
    return below(root, "proc", "net", name)
