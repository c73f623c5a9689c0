"""A lane: one partition while this process holds it."""

from collections import deque
from dataclasses import dataclass

from warpmeter.consumers.batch import Batch, Limits, OpenBatch
from warpmeter.consumers.flight import Hold
from warpmeter.consumers.ledger import Entry, Settled
from warpmeter.consumers.message import Message, whole
from warpmeter.consumers.shape import Look, Odd
from warpmeter.consumers.span import Partition
from warpmeter.consumers.start import Start


@dataclass(frozen=True)
class Began:
    """How a lane began: its start, and the ledger record behind it."""

    start: Start
    entry: Entry | None


class Lane:
    """What is read of a partition and not yet landed, in order: closed batches, then the open one.

    `next` is the offset to read next, None before the first message of a partition that begins at its earliest.
    `checked` is set once its start was held against the tables; before that nothing of it is inserted.
    """

    def __init__(self, began: Began, look: Look, limits: Limits) -> None:
        self.where: Partition = began.start.where
        self._look = look
        self._limits = limits
        self.begin(began)

    def begin(self, began: Began) -> None:
        """(Re)start: forget all that was read and go on as `began` says; the old hold must be given up before."""
        self.hold = Hold()
        self.began = began
        self.uuid = began.start.uuid
        self.next = began.start.offset
        self.replay = began.start.pending
        self.open: OpenBatch | None = None
        self.closed: deque[Batch] = deque()
        self.checked = False
        self.landed_to: int | None = None
        self.landed_at = 0.0
        self.out_of_range = 0

    def go_behind(self, last: int) -> None:
        """All up to offset `last` has landed: forget what was read, and read on behind it."""
        self.next = last + 1
        self.open = self.replay = None
        self.closed.clear()

    def take(self, message: Message, now: float) -> None:
        """The next message; one that was read before is left out."""
        offset = message.offset()
        if self.next is not None and offset < self.next:
            return
        if self.replay is not None and offset > self.replay.span.last:
            self.end_replay(now)
        batch = self.open or self._opened(now)
        message, headers, unreadable = whole(message)
        payload, seen = self._look(message.value(), headers)
        batch.add(message, payload, seen if unreadable is None else Odd(unreadable, True, payload))
        self.next = offset + 1
        if batch.full(self._limits):
            self.close()

    def _opened(self, now: float) -> OpenBatch:
        self.open = OpenBatch(self.where, self.uuid, self.next, now, self.replay)
        return self.open

    def close(self) -> None:
        """Close the open batch, if there is one."""
        if self.open is not None:
            self.closed.append(self.open.close())
            self.open = self.replay = None

    def end_replay(self, now: float) -> None:
        """Close the replay with what the broker still has of it, be it nothing."""
        if self.replay is not None:
            span = self.replay.span
            if self.open is None:
                self._opened(now)
            self.close()
            self.next = max(self.next or 0, span.last + 1)

    def close_if_due(self, now: float) -> None:
        """Close the open batch when it has grown old, unless one waits before it: then it may as well grow.

        So a store that is slower than the batches' age gets fewer and larger inserts, not a queue of small ones.
        """
        if self.open is not None and not self.closed and self.open.due(self._limits, now):
            self.close()

    def landed(self, next_offset: int, now: float) -> None:
        """All before `next_offset` is in the table."""
        self.landed_to, self.landed_at = next_offset, now

    @property
    def unsettled(self) -> Settled | None:
        """What may be settled, None when nothing landed since the last settle."""
        return None if self.landed_to is None else Settled(self.where, self.uuid, self.landed_to)

    @property
    def empty(self) -> bool:
        """Nothing is held."""
        return self.open is None and not self.closed

    @property
    def held_messages(self) -> int:
        """Messages that are read and not under way."""
        opened = len(self.open.messages) if self.open is not None else 0
        return opened + sum(len(batch.messages) for batch in self.closed)

    @property
    def open_bytes(self) -> int:
        """Memory of the open batch, about."""
        return self.open.memory_bytes if self.open is not None else 0

    @property
    def memory_bytes(self) -> int:
        """Memory of all that is held, about."""
        return self.open_bytes + sum(batch.memory_bytes for batch in self.closed)
