"""One file of the spool: records appended at its end, read from its start, and how far they are done with.

    file = HEADER (magic, created f64, done u64, inverted done u64), records

`done` is the offset up to which everything has been delivered; it is overwritten in place, in one write. When it is
not sound the file is read from its start: messages go twice rather than never.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from warpmeter.producers import records
from warpmeter.producers.records import Record
from warpmeter.wire import Envelope

HEADER: Final = struct.Struct("<8sdQQ")
MAGIC: Final = b"WMSPOOL1"
SUFFIX: Final = ".spool"
ALL_BITS: Final = (1 << 64) - 1


@dataclass(frozen=True)
class Position:
    """Where a message of the spool ends: the name by which it is reported as delivered."""

    segment: int
    end: int


def path_of(folder: Path, number: int) -> Path:
    """The file of segment `number`; names sort as numbers do."""
    return folder / f"{number:020d}{SUFFIX}"


class Segment:
    """One file. `number` orders segments; `created`: UTC seconds."""

    def __init__(self, path: Path, number: int, created: float) -> None:
        self.path, self.number, self.created = path, number, created
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.size = os.fstat(self._fd).st_size
        self._done = self._read_at = HEADER.size
        self._appended = self._index = 0
        self._data: bytes | None = None
        self._open_ends: dict[int, bool] = {}
        try:
            self._begin()
        except OSError:
            os.close(self._fd)
            raise

    @property
    def unread_bytes(self) -> int:
        """Bytes not yet taken."""
        return self.size - self._read_at

    @property
    def finished(self) -> bool:
        """Everything was read and is done with."""
        return self.unread_bytes <= 0 and not self._open_ends

    def append(self, envelope: Envelope, written: float) -> None:
        """Write one message at the end; raises OSError and leaves the file as it was when the disk refuses."""
        self._write(self.size, data := records.encode(envelope, self._appended, written))
        self.size += len(data)
        self._appended += 1
        self._data = None

    def take(self) -> tuple[Record | None, int]:
        """The next record, None at the end; and how many records were skipped before it because they are corrupt."""
        data = self._loaded()
        record, lost = records.decode(data, self._read_at), 0
        if record is None and self._read_at < len(data):
            record, self._read_at = records.resync(data, self._read_at)
            lost = max(1, record.index - self._index) if record else 1
        if record is None:
            self._read_at = self.size
            self._data = None
            return None, lost
        self._read_at, self._index = record.end, record.index + 1
        self._open_ends[record.end] = False
        return record, lost

    def done(self, end: int) -> None:
        """The record that ends there is delivered."""
        if end in self._open_ends:
            self._open_ends[end] = True

    def done_with_read(self) -> None:
        """Everything that was taken is done with."""
        self._open_ends.clear()

    def commit(self) -> None:
        """Remember on disk how far an unbroken run from the start is done; raises OSError."""
        if (reached := self._reached()) != self._done:
            self._done = reached
            self._write(0, self._header())

    def count_unread(self) -> int:
        """How many sound records were not taken yet."""
        return sum(1 for _ in self._sound())

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)
        self._data = None

    def delete(self) -> None:
        """Close and remove the file."""
        self.close()
        self.path.unlink(missing_ok=True)

    def _reached(self) -> int:
        reached = self._done
        for end, delivered in list(self._open_ends.items()):
            if not delivered:
                return reached
            reached = end
            del self._open_ends[end]
        return self._read_at

    def _sound(self) -> Iterator[Record]:
        data, at = self._loaded(), self._read_at
        while at < len(data):
            record = records.decode(data, at) or records.resync(data, at)[0]
            if record is None:
                return
            at = record.end
            yield record

    def _loaded(self) -> bytes:
        if self._data is None:
            self._data = os.pread(self._fd, self.size, 0)
        return self._data

    def _header(self) -> bytes:
        return HEADER.pack(MAGIC, self.created, self._done, self._done ^ ALL_BITS)

    def _begin(self) -> None:
        if self.size >= HEADER.size:
            self._recall()
            return
        self._write(0, self._header())
        self.size = HEADER.size

    def _recall(self) -> None:
        magic, created, done, inverted = HEADER.unpack(os.pread(self._fd, HEADER.size, 0))
        if magic == MAGIC and done == inverted ^ ALL_BITS and HEADER.size <= done <= self.size:
            self.created, self._done, self._read_at = created, done, done
            first = records.decode(self._loaded(), done)
            self._index = first.index if first else 0

    def _write(self, offset: int, data: bytes) -> None:
        try:
            written = os.pwrite(self._fd, data, offset)
            if written < len(data):
                raise OSError(f"only {written} of {len(data)} bytes could be written to {self.path}: disk full?")
        except OSError:
            if offset:
                os.ftruncate(self._fd, offset)
            raise
