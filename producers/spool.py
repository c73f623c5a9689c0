"""Messages that the producer could not take, on disk, in order, until it can.

Bounded by bytes and by age: the oldest go first, and every loss is counted with its reason. Everything is in the page
cache when `append` returns, so `kill -9` of the agent loses nothing of it; a power cut may take the last seconds,
which are then skipped as corrupt. A message is marked on the disk when it is delivered, so a killed agent sends again
what was taken and not yet reported: never lost, at most the window of the shipper twice. A disk that is full drops what
is new: what is safe on it already is not given up for it. Age is told by the monotonic clock (see `segment`).
"""

import fcntl
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from warpmeter import log
from warpmeter.clock import Clock
from warpmeter.producers.segment import HEADER, SUFFIX, Moment, Position, Segment, boot_id, moment, path_of
from warpmeter.wire import Envelope

Why = Literal["full", "age", "disk", "corrupt"]
FIRST: Final = 1 << 40
"""Number of the first segment; there is room below it for messages that are put back in front."""
SEGMENTS: Final = 32
"""The bounds are kept by removing whole segments, so about this many make up the whole spool."""
LARGEST_SEGMENT: Final = 4 << 20
NAME: Final = re.compile(rf"(\d{{20}}){re.escape(SUFFIX)}")


@dataclass(frozen=True)
class Bounds:
    """How much may wait: bytes on disk, and seconds."""

    max_bytes: int
    max_age_s: float

    @property
    def segment_bytes(self) -> int:
        """A segment is closed when it has this many."""
        return max(1, min(LARGEST_SEGMENT, self.max_bytes // SEGMENTS))


class SpoolTakenError(Exception):
    """Another agent has the spool; the message says what to do."""


class Spool:
    """A queue of messages on disk; one process at a time, and within it one thread at a time.

    `lost` counts messages by reason: `full` and `age` (the bounds), `disk` (it could not be written), `corrupt`
    (records that were not sound any more).
    """

    def __init__(self, folder: Path, bounds: Bounds, clock: Clock, boot: bytes | None = None) -> None:
        """Open or make the spool in `folder`; raises OSError when it cannot, SpoolTakenError when another has it.

        `boot`: 16 bytes that name this boot of the machine; the kernel's unless given.
        """
        self.lost: Counter[Why] = Counter()
        self._folder, self._bounds, self._clock = folder, bounds, clock
        self._boot = boot or boot_id()
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise SpoolTakenError(
                f"another agent of this host runs on the spool {folder}, and two would publish every sample twice: stop"
                " it, or give this one an agent.spool_dir and an agent.host of its own"
            ) from error
        self._first, self._last = FIRST, FIRST - 1
        self._segments = list(self._found())
        self._active: Segment | None = None

    @property
    def waiting(self) -> bool:
        """Whether there is something to take."""
        return any(segment.unread_bytes > 0 for segment in self._segments)

    @property
    def bytes(self) -> int:
        """Bytes not yet taken."""
        return sum(segment.unread_bytes for segment in self._segments)

    def append(self, envelope: Envelope) -> bool:
        """Put one message at the end; False when the disk refused it, which is counted. Makes room first."""
        try:
            self._keep_bounds(len(envelope.value))
            self._writable().append(envelope, self._clock.monotonic())
        except OSError:
            self.lost["disk"] += 1
            return False
        return True

    def take(self) -> tuple[Envelope, Position] | None:
        """The oldest message not yet taken, to be reported by `done`; None when there is none."""
        oldest = self._clock.monotonic() - self._bounds.max_age_s
        for segment in list(self._segments):
            self._seal(segment)
            while segment.unread_bytes > 0:
                record, lost = segment.take()
                self.lost["corrupt"] += lost
                if record is None:
                    break
                if record.written >= oldest:
                    return record.envelope, Position(segment.number, record.start)
                self.lost["age"] += 1
                segment.done(record.start)
        return None

    def done(self, position: Position) -> None:
        """A message that was taken is delivered (or lost for good); on disk when this returns."""
        for segment in self._segments:
            if segment.number == position.segment:
                segment.done(position.start)

    def sweep(self) -> None:
        """Remove what is done with."""
        for segment in [s for s in self._segments if s.finished and s is not self._active]:
            segment.delete()
            self._segments.remove(segment)

    def put_back(self, envelopes: Sequence[Envelope]) -> bool:
        """Put messages in front of all others; what was taken counts as done. False, and nothing done, on a full disk.

        For what the producer held when it was given up: it is older than whatever waits here.
        """
        if envelopes and not self._write_front(envelopes):
            return False
        for segment in self._segments:
            segment.done_with_read()
        self.sweep()
        return True

    def rewind(self) -> None:
        """What was taken and is not done with is to be taken again, before all others."""
        for segment in self._segments:
            segment.rewind()

    def close(self) -> None:
        """Let another process have the spool."""
        self.sweep()
        for segment in self._segments:
            segment.close()
        self._segments = []
        os.close(self._lock)

    def _found(self) -> Iterator[Segment]:
        """What earlier agents left; a file that cannot be used is left alone and counts as one lost message."""
        numbers = sorted(int(match[1]) for path in self._folder.iterdir() if (match := NAME.fullmatch(path.name)))
        self._first, self._last = min([FIRST, *numbers]), max([FIRST - 1, *numbers])
        for number in numbers:
            path = path_of(self._folder, number)
            try:
                if path.stat().st_size >= HEADER.size:
                    yield Segment(path, number, self._now())
                else:  # after a power cut files are often empty
                    self.lost["corrupt"] += 1
                    path.unlink()
            except OSError as error:
                self.lost["corrupt"] += 1
                log.get("agent").warning("spool_file_unusable", file=str(path), error=str(error), next="remove it")

    def _now(self) -> Moment:
        return moment(self._boot, self._clock)

    def _writable(self) -> Segment:
        active, now = self._active, self._clock.monotonic()
        too_old = active is not None and now - active.created > self._bounds.max_age_s / SEGMENTS
        if active is None or active.size >= self._bounds.segment_bytes or too_old:
            active = self._active = self._begun(self._last + 1)
            self._last += 1
            self._segments.append(active)
        return active

    def _begun(self, number: int) -> Segment:
        """A new, empty segment; raises OSError, and leaves nothing, when the disk has no room for it."""
        path = path_of(self._folder, number)
        try:
            return Segment(path, number, self._now())
        except OSError:
            path.unlink(missing_ok=True)
            raise

    def _seal(self, segment: Segment) -> None:
        """Nothing is appended to a segment that is being read."""
        if segment is self._active:
            self._active = None

    def _keep_bounds(self, more: int) -> None:
        """Remove the oldest segments while all that is on disk is too much, or they are too old."""
        now = self._clock.monotonic()
        while self._segments and sum(s.size for s in self._segments) + more > self._bounds.max_bytes:
            self._remove_oldest("full")
        while len(self._segments) > 1 and now - self._segments[1].created > self._bounds.max_age_s:
            self._remove_oldest("age")

    def _remove_oldest(self, why: Why) -> None:
        segment = self._segments.pop(0)
        self._seal(segment)
        self.lost[why] += segment.count_unread()
        segment.delete()

    def _write_front(self, envelopes: Sequence[Envelope]) -> bool:
        try:
            front = self._begun(self._first - 1)
        except OSError:
            return False
        try:
            for envelope in envelopes:
                front.append(envelope, self._clock.monotonic())
        except OSError:
            front.delete()
            return False
        self._first -= 1
        self._segments.insert(0, front)
        return True
