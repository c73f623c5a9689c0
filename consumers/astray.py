"""Lanes gone astray: their topic is not there, is another one, or no longer holds the offset that comes next."""

from collections.abc import Iterable
from typing import Final

from warpmeter import log
from warpmeter.consumers.broker import BrokerError
from warpmeter.consumers.flight import Flight, Ports
from warpmeter.consumers.health import Health
from warpmeter.consumers.lane import Lane
from warpmeter.consumers.lanes import Lanes
from warpmeter.consumers.ledger import LedgerError
from warpmeter.consumers.span import Partition

MADE_AGAIN: Final = "the topic was made again: what was read of the old one and not stored yet is dropped"
logger = log.get("ingest")


class Astray:
    """Those that `resolve` puts where they belong, as soon as the broker can tell. For the loop's thread only."""

    def __init__(self, ports: Ports, lanes: Lanes, health: Health) -> None:
        self._ports = ports
        self._lanes = lanes
        self._health = health
        self._partitions: set[Partition] = set()
        self._restarting: set[Partition] = set()

    def add(self, partitions: Iterable[Partition]) -> None:
        """These are astray."""
        self._partitions |= set(partitions)

    def drop(self, partitions: Iterable[Partition]) -> None:
        """These are held no longer."""
        self._partitions -= set(partitions)
        self._restarting -= set(partitions)

    def restart(self, topics: Iterable[str], flight: Flight | None) -> None:
        """These topics are others than those that were read: forget what is held of them, and begin again."""
        lanes = [lane for lane in self._lanes if lane.where.topic in topics]
        for batch in flight.batches if flight is not None else ():
            lane = self._lanes.of(flight, batch) if flight is not None else None
            if lane is not None and lane in lanes:
                self._health.lost(lane.where, len(batch.messages), MADE_AGAIN)
        for lane in lanes:
            lane.hold.given_up = True
        self._restarting |= {lane.where for lane in lanes}
        self._partitions |= self._restarting

    def resolve(self) -> None:
        """Put those right that can be; the rest waits for the next turn."""
        for where in sorted(self._partitions):
            lane = self._lanes.at(where)
            try:
                if lane is not None and self._find_again(lane):
                    self.drop([where])
            except (BrokerError, LedgerError) as error:
                logger.warning("cannot go on yet", partition=str(where), why=str(error))
                return

    def _find_again(self, lane: Lane) -> bool:
        """Put a lane whose position is not in the log where it belongs; False when its topic is not there."""
        where, broker = lane.where, self._ports.broker
        uuid = broker.topic_ids([where.topic]).get(where.topic)
        if uuid is None:
            return False
        if uuid != lane.uuid or where in self._restarting:
            return self._begin_again(lane)
        if (position := lane.next or 0) >= (earliest := broker.earliest(where)):
            self._beyond_the_end(lane)
        else:
            self._lose(lane, position, earliest)
            broker.seek(where, earliest)
        return True

    def _begin_again(self, lane: Lane) -> bool:
        """From the ledger; for a topic that was deleted and made again that is its start, under its new id."""
        if lane.held_messages:
            self._health.lost(lane.where, lane.held_messages, MADE_AGAIN)
        self._lanes.begin_again(lane)
        return bool(lane.uuid)

    def _beyond_the_end(self, lane: Lane) -> None:
        lane.out_of_range += 1
        if lane.out_of_range > 3:
            self._health.halt = (
                f"{lane.where} ends before offset {lane.next}, which the group had reached: the broker lost messages "
                "that it had acknowledged (an unclean leader election, a restored disk). Offsets that were stored "
                "cannot be used again: stop all consumers, delete the topic, make it again with `warpmeter topics "
                "--create`; then it is read from its start. What it holds now and was not read is lost with it"
            )
        self._ports.broker.seek(lane.where, lane.next)

    def _lose(self, lane: Lane, position: int, earliest: int) -> None:
        """Retention took messages before they were read: count and publish them, and go on."""
        now = self._ports.clock.monotonic()
        if lane.replay is not None and earliest > lane.replay.span.last:
            landed = self._ports.history.landed(lane.replay.span)
            if landed is True and lane.open is None:
                position = min(lane.replay.span.last + 1, earliest)
            lane.end_replay(now)
        lost = earliest - position
        if lost > 0:
            why = f"retention took offsets {position} to {earliest - 1} before they were read"
            self._health.lost(lane.where, lost, why)
