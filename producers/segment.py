"""One file of the spool: records appended at its end, read from its start, each marked when it is delivered.

    file = HEADER (magic, boot, UTC f64, monotonic f64, crc32 of these), records

A record's age is measured by the monotonic clock, so a step of the clock drops nothing and keeps nothing for ever. It
goes on over restarts of the agent; only over a reboot, which starts the monotonic clock anew, the two UTC times count.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Final

from warpmeter.clock import Clock
from warpmeter.producers import records
from warpmeter.producers.records import Record
from warpmeter.wire import Envelope

HEADER: Final = struct.Struct("<8s16sddI")
MAGIC: Final = b"WMSPOOL2"
SUFFIX: Final = ".spool"
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Position:
    """Where a message of the spool begins: the name by which it is reported as delivered."""

    segment: int
    start: int


@dataclass(frozen=True)
class Moment:
    """What the clocks say at one instant. `boot`: 16 bytes that name the boot which `monotonic` counts from."""

    boot: bytes
    utc: float
    monotonic: float


def boot_id() -> bytes:
    """This boot's; where the kernel does not tell, one that equals no other, so that UTC counts."""
    try:
        return bytes.fromhex(BOOT_ID.read_text().replace("-", "").strip())[:16].ljust(16, b"\0")
    except (OSError, ValueError):
        return os.urandom(16)


def moment(boot: bytes, clock: Clock) -> Moment:
    """Now."""
    return Moment(boot, clock.now(), clock.monotonic())


def path_of(folder: Path, number: int) -> Path:
    """The file of segment `number`; names sort as numbers do."""
    return folder / f"{number:020d}{SUFFIX}"


class Segment:
    """One file. `number` orders segments; `created`: seconds of this boot's monotonic clock.

    Raises OSError when the file cannot be opened, read or begun.
    """

    def __init__(self, path: Path, number: int, now: Moment) -> None:
        self.path, self.number, self.created = path, number, now.monotonic
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.size = os.fstat(self._fd).st_size
        self._read_at = HEADER.size
        self._appended = self._index = 0
        self._shift, self._latest = 0.0, inf
        self._data: bytes | None = None
        self._out: dict[int, int] = {}
        """Start and index of the records that were taken and are not done with."""
        try:
            self._begin(now)
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
        return self.unread_bytes <= 0 and not self._out

    def append(self, envelope: Envelope, written: float) -> None:
        """Write one message at the end; raises OSError and leaves the file as it was when the disk refuses."""
        self._write(self.size, data := records.encode(envelope, self._appended, written))
        self.size += len(data)
        self._appended += 1
        self._data = None

    def take(self) -> tuple[Record | None, int]:
        """The next record that waits, None at the end; and how many before it are lost, being corrupt."""
        data, lost = self._loaded(), 0
        while self._read_at < self.size:
            record, more = self._next(data)
            lost += more
            if record is None:
                break
            self._read_at, self._index = record.end, record.index + 1
            if not record.delivered:
                self._out[record.start] = record.index
                return replace(record, written=min(self._latest, record.written + self._shift)), lost
        self._read_at, self._data = self.size, None
        return None, lost

    def done(self, start: int) -> None:
        """The record that starts there is delivered: never again, also after a crash of this process."""
        if self._out.pop(start, None) is not None:
            self._mark(start)

    def done_with_read(self) -> None:
        """Everything that was taken is done with."""
        for start in self._out:
            self._mark(start)
        self._out.clear()

    def rewind(self) -> None:
        """What was taken and is not done with is to be taken again, in its place."""
        if self._out:
            self._read_at, self._index = min(self._out.items())
            self._out.clear()
            self._data = None

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

    def _next(self, data: bytes) -> tuple[Record | None, int]:
        start, missing = self._read_at, None
        record, at = records.decode(data, start), start
        if record is None:
            record, at = records.resync(data, start)
        if record is not None:
            missing = record.index - self._index
        elif self._appended:
            missing = self._appended - self._index
        return record, records.lost(data, start, at, missing)

    def _sound(self) -> Iterator[Record]:
        data, at = self._loaded(), self._read_at
        while at < len(data):
            record = records.decode(data, at) or records.resync(data, at)[0]
            if record is None:
                return
            at = record.end
            if not record.delivered:
                yield record

    def _loaded(self) -> bytes:
        """The file as it can be read: what the disk does not give is as lost as what is corrupt."""
        if self._data is None:
            try:
                self._data = os.pread(self._fd, self.size, 0)
            except OSError:
                self._data = b""
        return self._data

    def _begin(self, now: Moment) -> None:
        if self.size >= HEADER.size:
            self._recall(now)
            return
        self._write(0, _header(now))
        self.size = HEADER.size

    def _recall(self, now: Moment) -> None:
        """Take up the file of an earlier agent: how old it is, and where its records begin."""
        self._latest = now.monotonic
        then = _moment(os.pread(self._fd, HEADER.size, 0))
        if then is None:  # damaged: its age begins anew, its records begin with the first that is found
            self._shift = inf
            record, at = records.resync(self._loaded(), 0)
            self._read_at = at if record else HEADER.size
            return
        if then.boot != now.boot:
            self._shift = now.monotonic - max(0.0, now.utc - then.utc) - then.monotonic
        self.created = min(self._latest, then.monotonic + self._shift)

    def _mark(self, start: int) -> None:
        with suppress(OSError):  # a disk that refuses means only that after a crash it is sent again
            os.pwrite(self._fd, records.DELIVERED, start)

    def _write(self, offset: int, data: bytes) -> None:
        try:
            written = os.pwrite(self._fd, data, offset)
            if written < len(data):
                raise OSError(f"only {written} of {len(data)} bytes could be written to {self.path}: disk full?")
        except OSError:
            if offset:
                os.ftruncate(self._fd, offset)
            raise


def _header(now: Moment) -> bytes:
    head = HEADER.pack(MAGIC, now.boot, now.utc, now.monotonic, 0)[:-4]
    return head + zlib.crc32(head).to_bytes(4, "little")


def _moment(header: bytes) -> Moment | None:
    """When the file was begun; None when the header is not sound."""
    magic, boot, utc, monotonic, crc = HEADER.unpack(header)
    return Moment(boot, utc, monotonic) if magic == MAGIC and zlib.crc32(header[:-4]) == crc else None
