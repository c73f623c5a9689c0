"""The lanes of all partitions that this process holds: begun where the ledger says, filled, closed and settled.

For the loop's thread only.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from warpmeter import log
from warpmeter.consumers.batch import Batch, Limits
from warpmeter.consumers.broker import BrokerError
from warpmeter.consumers.flight import Flight, Ports
from warpmeter.consumers.health import Health
from warpmeter.consumers.lane import Began, Lane
from warpmeter.consumers.ledger import Done, Fatal, LedgerError
from warpmeter.consumers.message import Message
from warpmeter.consumers.shape import Look
from warpmeter.consumers.span import Partition
from warpmeter.consumers.start import plan

RECALL_TRIES: Final = 5
logger = log.get("ingest")


class Lanes:
    """One lane a partition held. `looks` are the shape checks, by topic."""

    def __init__(self, ports: Ports, health: Health, looks: Mapping[str, Look], limits: Limits) -> None:
        self._ports = ports
        self._health = health
        self._looks = looks
        self._limits = limits
        self._lanes: dict[Partition, Lane] = {}

    def __iter__(self) -> Iterator[Lane]:
        return iter(self._lanes.values())

    def __len__(self) -> int:
        return len(self._lanes)

    def at(self, where: Partition) -> Lane | None:
        """The lane of a partition, None when it is not held."""
        return self._lanes.get(where)

    @property
    def partitions(self) -> frozenset[Partition]:
        """What is held now."""
        return frozenset(self._lanes)

    @property
    def memory_bytes(self) -> int:
        """Memory of what is read and not under way, about."""
        return sum(lane.memory_bytes for lane in self)

    # They come and go.

    def add(self, partitions: Sequence[Partition]) -> Sequence[Began]:
        """Begin on partitions where the ledger says. Raises BrokerError and LedgerError when nobody can tell."""
        found = self.recall(partitions)
        for began in found:
            self._lanes[began.start.where] = Lane(began, self._looks[began.start.where.topic], self._limits)
        return found

    def begin_again(self, lane: Lane) -> None:
        """Forget what is held of a lane, and go on from the ledger. Raises as `add` does."""
        lane.hold.given_up = True
        lane.begin(self.recall([lane.where])[0])
        self._ports.broker.seek(lane.where, lane.next)

    def recall(self, partitions: Sequence[Partition]) -> Sequence[Began]:
        """Where partitions begin: what the ledger says of the topics as they are now."""
        clock, broker = self._ports.clock, self._ports.broker
        for attempt in range(RECALL_TRIES):
            try:
                # In this order: a topic that is deleted in between takes its records with it, and would seem unread.
                entries = self._ports.ledger.recall(partitions)
                ids = broker.topic_ids({where.topic for where in partitions})
                break
            except (BrokerError, LedgerError) as error:
                if attempt == RECALL_TRIES - 1:
                    raise
                logger.warning("cannot begin yet", why=str(error))
                clock.sleep(0.2 * 2**attempt)
        starts = [plan(where, ids.get(where.topic, ""), entries.get(where)) for where in partitions]
        found = [Began(start, entries.get(start.where)) for start in starts]
        for began in found:
            _log_start(began)
        return found

    def drop(self, lanes: Sequence[Lane]) -> None:
        """Hold these no longer: nothing of them is declared or inserted any more."""
        for lane in lanes:
            lane.hold.given_up = True
            del self._lanes[lane.where]

    # They are filled and closed.

    def take(self, messages: Sequence[Message], now: float) -> list[Message]:
        """Messages into their lanes; answers the events among them."""
        lanes, events = self._lanes, []
        for message in messages:
            if message.error() is not None:
                events.append(message)
                continue
            lane = lanes.get((message.topic(), message.partition()))  # type: ignore[call-overload]
            if lane is not None:
                lane.take(message, now)
        return events

    def close_old(self, now: float) -> None:
        """Close the batches that have grown old."""
        for lane in self:
            lane.close_if_due(now)

    def close_large(self) -> None:
        """Memory is short: unless some are closed already, close the largest, and those of half its size."""
        if any(lane.closed for lane in self):
            return
        largest = max((lane.open_bytes for lane in self if lane.replay is None), default=0)
        for lane in self:
            if lane.replay is None and lane.open is not None and lane.open_bytes * 2 >= largest:
                lane.close()

    def close_all(self) -> None:
        """Close whatever is open, but for replays: theirs is the span that was declared."""
        for lane in self:
            if lane.replay is None:
                lane.close()

    def ready(self) -> list[Lane]:
        """Those that have a closed batch and may insert it."""
        return [lane for lane in self if lane.checked and lane.closed]

    # What was taken from them has landed, and is settled.

    def of(self, flight: Flight, batch: Batch) -> Lane | None:
        """The lane that a flight's batch was taken from, if it is still held."""
        lane = self._lanes.get(batch.span.where)
        return lane if lane is not None and lane.hold is flight.holds[batch.span.where] else None

    def note_landed(self, flight: Flight) -> None:
        """Take note of what a flight has landed so far."""
        now = self._ports.clock.monotonic()
        for batch in flight.landed:
            lane = self.of(flight, batch)
            if lane is not None and batch.span.topic not in flight.orphaned:
                lane.landed(batch.span.last + 1, now)
        flight.landed.clear()

    def superseded(self, flight: Flight) -> None:
        """A declare says what a settle of the span before would: writing that now would undo the declare."""
        for batch in flight.batches:
            lane = self.of(flight, batch)
            if lane is not None and batch.span.topic not in flight.orphaned:
                lane.landed_to = None

    def settle(self, lanes: Iterable[Lane]) -> None:
        """Write what landed of these lanes; what cannot be written now is replayed by whoever comes next."""
        landed = [lane for lane in lanes if lane.unsettled is not None]
        entries = [entry for lane in landed if (entry := lane.unsettled) is not None]
        outcome = self._ports.ledger.settle(entries) if entries else Done()
        for lane in landed:
            lane.landed_at = self._ports.clock.monotonic()
            lane.landed_to = None if isinstance(outcome, Done) else lane.landed_to
        if isinstance(outcome, Fatal):
            self._health.halt = outcome.why
        elif not isinstance(outcome, Done):
            logger.info("not settled yet", why=outcome.why)

    def settle_quiet(self, before: float) -> None:
        """Settle the lanes that hold nothing and have landed nothing since `before`."""
        self.settle([lane for lane in self if lane.empty and lane.landed_at <= before])


def _log_start(began: Began) -> None:
    start = began.start
    if start.old_life:
        logger.info("the topic was made again: beginning at its start", partition=str(start.where))
    if start.pending is not None:
        span = start.pending.span
        logger.info("replaying a declared span", partition=str(start.where), first=span.first, last=span.last)
