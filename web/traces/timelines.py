"""Timelines of analysed traces out of the store: which load is shown, and bodies whose columns are the engine's own."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from warpmeter.web.store.reads import Reads

MOST: Final = 20_000
"""Rectangles in an answer, whatever is asked for."""
LEAST_BUCKET_NS: Final = 16
MOST_DEPTHS: Final = 65_536
_SPECIAL: Final = re.compile(r"[\\.+*?()|\[\]{}^$]")


class NoTimelineError(Exception):
    """There is nothing to show; the message says why and what to do."""


@dataclass(frozen=True)
class Shown:
    """A rank's trace as it is loaded: what named queries of the timeline ask for."""

    capture_id: str
    process: str
    load: str

    def parameters(self) -> dict[str, Any]:
        """As named queries take it."""
        return {"capture_id": self.capture_id, "process": self.process, "load": self.load}


def captured(capture: str, sequence: int) -> str:
    """Under which name the round `sequence` of a capture is loaded: the first under the capture's own."""
    return capture if sequence <= 1 else f"{capture}-{sequence}"


def shown(reads: Reads, capture_id: str, rank: int, process: str = "") -> Shown:
    """The load of a rank that is shown. Raises NoTimelineError when there is none."""
    found = reads.rows("timeline_load", capture_id=capture_id, rank=rank, process=process)
    if not found:
        raise NoTimelineError(
            f"no analysed trace of rank {rank} of capture {capture_id!r} is in the store: analyse it "
            "(`warpmeter analyze FILE --load`), or choose a rank that is there"
        )
    return Shown(capture_id, found[0]["process"], found[0]["load"])


@lru_cache(maxsize=1000)
def loaded(reads: Reads, of: Shown) -> Shown:
    """The same, if that load is whole: what is, stays so. Raises NoTimelineError where it is not there."""
    if not reads.rows("timeline_known", **of.parameters())[0]["known"]:
        raise NoTimelineError(
            f"no load {of.load} of process {of.process} of capture {of.capture_id!r} is in the store: ask /lanes "
            "which is"
        )
    return of


def bucket_ns(since_ns: int, until_ns: int, width: int) -> int:
    """The length of a bucket, a power of two: as much as a pixel shows, or up to half as much."""
    pixel = max(1, (until_ns - since_ns) // width)
    return max(LEAST_BUCKET_NS, 1 << pixel.bit_length() - 1)


def rectangles(reads: Reads, of: Shown, since_ns: int, until_ns: int, bucket: int) -> tuple[int, int, bytes]:
    """What is drawn of a stretch: the bucket's length that it took, how many there are, and the engine's columns.

    Where buckets of `bucket` nanoseconds would make more than `MOST`, longer ones are taken; where even one is too many
    for lanes as deep as that, what is innermost is left out.
    """
    asked = {**of.parameters(), "since_ns": since_ns, "until_ns": until_ns, "most": MOST}
    depths = MOST_DEPTHS
    while True:
        body = reads.json("timeline_events", **asked, bucket_ns=bucket, depths=depths)
        rows = length(body)
        if rows <= MOST:
            return bucket, rows, body
        if bucket < 2 * (until_ns - since_ns):
            bucket *= 2
        else:
            depths = max(1, depths // 4)


def literally(text: str) -> str:
    """A regular expression that finds a text, whatever its case."""
    return "(?i)" + _SPECIAL.sub(r"\\\g<0>", text)


def length(columns: bytes) -> int:
    """Rows of an answer in columns, by its first one, which holds numbers."""
    start = columns.find(b"[")
    first = columns[start + 1 : columns.index(b"]", start)] if start >= 0 else b""
    return first.count(b",") + 1 if first.strip() else 0


def joined(**parts: bytes) -> bytes:
    """An object of parts that are JSON already."""
    return b"{" + b",".join(b'"%s":%s' % (name.encode(), body.strip()) for name, body in parts.items()) + b"}"
