"""Messages that the producer could not take, on disk, in order, until it can.

Bounded by bytes and by age: the oldest go first, and every loss is counted with its reason. Everything is in the page
cache when `append` returns, so `kill -9` of the agent loses nothing of it; a power cut may take the last seconds,
which are then skipped as corrupt. A message leaves the disk only when it is delivered, so a killed agent sends again
what was taken and not yet reported: never lost, at most the window of the shipper twice.
"""

import fcntl
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from warpmeter.clock import Clock
from warpmeter.producers.segment import SUFFIX, Position, Segment, path_of
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

    def __init__(self, folder: Path, bounds: Bounds, clock: Clock) -> None:
        """Open or make the spool in `folder`; raises OSError when it cannot, SpoolTakenError when another has it."""
        self.lost: Counter[Why] = Counter()
        self._folder, self._bounds, self._clock = folder, bounds, clock
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
        self._segments = self._found()
        self._active: Segment | None = None
        self._drop_finished()

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
            self._writable().append(envelope, self._clock.now())
        except OSError:
            self.lost["disk"] += 1
            return False
        return True

    def take(self) -> tuple[Envelope, Position] | None:
        """The oldest message not yet taken, to be reported by `done`; None when there is none."""
        oldest = self._clock.now() - self._bounds.max_age_s
        for segment in list(self._segments):
            self._seal(segment)
            while segment.unread_bytes > 0:
                record, lost = segment.take()
                self.lost["corrupt"] += lost
                if record is None:
                    break
                if record.written >= oldest:
                    return record.envelope, Position(segment.number, record.end)
                self.lost["age"] += 1
                segment.done(record.end)
        return None

    def done(self, position: Position) -> None:
        """A message that was taken is delivered (or lost for good)."""
        for segment in self._segments:
            if segment.number == position.segment:
                segment.done(position.end)

    def commit(self) -> None:
        """Remember what is done, and remove it. A disk that refuses means only that a crash sends it again."""
        for segment in self._segments:
            try:
                segment.commit()
            except OSError:
                return
        self._drop_finished()

    def put_back(self, envelopes: Sequence[Envelope]) -> bool:
        """Put messages in front of all others; what was taken counts as done. False, and nothing done, on a full disk.

        For what the producer held when it was given up: it is older than whatever waits here.
        """
        number = self._segments[0].number - 1 if self._segments else FIRST
        if envelopes and not self._write_front(number, envelopes):
            return False
        for segment in self._segments:
            segment.done_with_read()
        self.commit()
        return True

    def close(self) -> None:
        """Remember what is done, and let another process have the spool."""
        self.commit()
        for segment in self._segments:
            segment.close()
        self._segments = []
        os.close(self._lock)

    def _found(self) -> list[Segment]:
        numbers = sorted(int(match[1]) for path in self._folder.iterdir() if (match := NAME.fullmatch(path.name)))
        now = self._clock.now()
        return [Segment(path_of(self._folder, number), number, now) for number in numbers]

    def _writable(self) -> Segment:
        active, now = self._active, self._clock.now()
        too_old = active is not None and now - active.created > self._bounds.max_age_s / SEGMENTS
        if active is None or active.size >= self._bounds.segment_bytes or too_old:
            number = self._segments[-1].number + 1 if self._segments else FIRST
            active = self._active = Segment(path_of(self._folder, number), number, now)
            self._segments.append(active)
        return active

    def _seal(self, segment: Segment) -> None:
        """Nothing is appended to a segment that is being read."""
        if segment is self._active:
            self._active = None

    def _keep_bounds(self, more: int) -> None:
        """Remove the oldest segments while all that is on disk is too much, or they are too old."""
        now = self._clock.now()
        while self._segments and sum(s.size for s in self._segments) + more > self._bounds.max_bytes:
            self._remove_oldest("full")
        while len(self._segments) > 1 and now - self._segments[1].created > self._bounds.max_age_s:
            self._remove_oldest("age")

    def _remove_oldest(self, why: Why) -> None:
        segment = self._segments.pop(0)
        self._seal(segment)
        self.lost[why] += segment.count_unread()
        segment.delete()

    def _write_front(self, number: int, envelopes: Sequence[Envelope]) -> bool:
        path, now = path_of(self._folder, number), self._clock.now()
        try:
            front = Segment(path, number, now)
        except OSError:
            path.unlink(missing_ok=True)
            return False
        try:
            for envelope in envelopes:
                front.append(envelope, now)
        except OSError:
            front.delete()
            return False
        self._segments.insert(0, front)
        return True

    def _drop_finished(self) -> None:
        finished = [s for s in self._segments if s.finished and s is not self._active]
        for segment in finished:
            segment.delete()
            self._segments.remove(segment)
