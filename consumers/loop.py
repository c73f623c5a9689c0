"""The loop: poll, close batches, insert them, settle; pause while the store is away, and come to an end.

One thread runs `step` over and over and alone talks to the consumer group; it owns `lanes` (what is read), `astray`
(what is not where it was) and `inserter` (what is under way).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Final

from warpmeter import log, selfmetrics
from warpmeter.consumers.astray import Astray
from warpmeter.consumers.batch import Limits
from warpmeter.consumers.broker import BrokerError, is_fatal, is_out_of_range
from warpmeter.consumers.flight import Pilot, Ports
from warpmeter.consumers.health import Health
from warpmeter.consumers.inserter import SLOW_S, Inserter
from warpmeter.consumers.judge import Budget
from warpmeter.consumers.lane import Lane
from warpmeter.consumers.lanes import Lanes
from warpmeter.consumers.message import Message
from warpmeter.consumers.shape import looker
from warpmeter.consumers.span import Partition
from warpmeter.schemas.topics import Topic
from warpmeter.settings import Ingest

POLL_MESSAGES: Final = 5_000
POLL_S: Final = 0.1
LAG_EVERY_S: Final = 5.0
REVOKE_S: Final = 10.0
DRAIN_S: Final = 4.5
QUIET_S: Final = 0.5  # an idle embedded broker answers a fetch within 0.25 s
READ_OUT_S: Final = 8.0

OPEN_BYTES = selfmetrics.gauge("warpmeter_ingest_open_bytes")
LAG = selfmetrics.gauge("warpmeter_ingest_lag_messages")
logger = log.get("ingest")


def _log_moved(event: str, partitions: Sequence[Partition], **more: bool) -> None:
    """One line: how many of which topics; a rebalance that moves nothing is no news."""
    if not partitions:
        return
    topics = dict(sorted(Counter(where.topic for where in partitions).items()))
    logger.info(event, partitions=len(partitions), topics=topics, **more)
    logger.debug(event, names=[str(where) for where in partitions])


class Halted(Exception):  # noqa: N818
    """The consumer cannot go on and somebody must act; the message says what happened and what to do."""


class Loop:
    """Ingest of `topics` (full names on the broker). `step` until told otherwise, then `drain`.

    `host` names this process's health rows.
    """

    def __init__(
        self,
        ports: Ports,
        ingest: Ingest,
        topics: Mapping[str, Topic],
        worker: Executor,
        host: str,
        framed: bool = False,
    ) -> None:
        self._ports = ports
        self._ingest = ingest
        looks = {name: looker(topic, framed) for name, topic in topics.items()}
        limits = Limits(ingest.batch_bytes, ingest.batch_rows, ingest.batch_age_s)
        pilot = Pilot(ports, Budget(ingest.reject_window, ingest.reject_share), ingest.session_timeout_s / 2)
        self._health = Health(ports.letters, ports.clock, host)
        self._lanes = Lanes(ports, self._health, looks, limits)
        self._astray = Astray(ports, self._lanes, self._health)
        self._inserter = Inserter(ports, pilot, worker, self._lanes, self._astray, self._health)
        self._paused: set[Partition] = set()
        self._heard_at = ports.clock.monotonic()
        self._lag_at = 0.0
        self._told_lag: set[tuple[str, str]] = set()
        self._leaving = False
        self.left = ""
        """After a drain that did not insert all: what comes again, and why."""
        ports.broker.subscribe(list(topics), self)

    @property
    def partitions(self) -> frozenset[Partition]:
        """What this process holds now."""
        return self._lanes.partitions

    def read(self, where: Partition) -> int:
        """The offset that is read next of a partition, 0 when none was."""
        lane = self._lanes.at(where)
        return (lane.next or 0) if lane is not None else 0

    # Partitions come and go, from within poll.

    def assigned(self, partitions: Sequence[Partition]) -> Mapping[Partition, int | None]:
        """Begin on partitions where the ledger says; what it says is held against the tables before any insert.

        One that comes while the group is left is given back unread.
        """
        if self._leaving:  # the client, while it leaves the group, asks the broker no more: it would wait in vain
            return dict.fromkeys(partitions)
        begun = self._lanes.add(partitions)
        self._astray.add(began.start.where for began in begun if not began.start.uuid)
        self._heard_at = self._ports.clock.monotonic()
        _log_moved("partitions taken", partitions)
        return {began.start.where: began.start.offset for began in begun}

    def revoked(self, partitions: Sequence[Partition], lost: bool) -> None:
        """Give partitions up: what is open is abandoned, a running insert gets one deadline and is settled."""
        lanes = [lane for where in partitions if (lane := self._lanes.at(where)) is not None]
        if not lost and not self._leaving and self._inserter.inserting(partitions):
            self._inserter.wait(REVOKE_S)
            self._inserter.collect()
        if not lost and not self._leaving:
            self._save_orphans([lane for lane in lanes if not lane.empty and lane.checked])
        if not lost:
            self._lanes.settle(lanes)
        self._lanes.drop(lanes)
        self._astray.drop(partitions)
        # librdkafka keeps a partition paused over its loss: one that comes back would never be read again.
        if not self._leaving:
            self._ports.broker.resume(self._paused & set(partitions))
        self._paused -= set(partitions)
        _log_moved("partitions given up", partitions, lost=lost)

    def _save_orphans(self, lanes: Sequence[Lane]) -> None:
        """Insert what was read of topics that are no more; for other partitions the next owner reads it again."""
        try:
            ids = self._ports.broker.topic_ids({lane.where.topic for lane in lanes})
        except BrokerError as error:
            logger.warning("cannot ask for topics that are given up", why=str(error))
            return
        orphans = [lane for lane in lanes if lane.where.topic not in ids]
        for lane in orphans:
            lane.close()
        until = self._ports.clock.monotonic() + REVOKE_S
        while self._ports.clock.monotonic() < until and any(lane.closed for lane in orphans) and not self._health.halt:
            self._inserter.dispatch()
            self._inserter.wait(0.2)
            self._inserter.collect()

    # One turn.

    def step(self) -> None:
        """Poll once, and do all that is due. Raises Halted, BrokerError and LedgerError."""
        now = self._ports.clock.monotonic()
        if self._over_budget() and self._inserter.working and not self._paused:
            self._inserter.wait(SLOW_S)
        else:
            self._take(self._ports.broker.poll(POLL_MESSAGES, POLL_S))
        self._astray.resolve()
        self._lanes.close_old(now)
        if self._over_budget():
            self._lanes.close_large()
        self._inserter.collect()
        self._dispatch()
        self._pause_or_resume()
        self._tell_lag(now)
        if self._health.halt is not None:
            raise Halted(self._health.halt)

    def _take(self, messages: Sequence[Message]) -> None:
        now = self._ports.clock.monotonic()
        self._heard_at = now if messages else self._heard_at
        for event in self._lanes.take(messages, now):
            self._handle(event)

    def _handle(self, event: Message) -> None:
        error = event.error()
        if is_fatal(error):
            self._health.halt = f"the Kafka client cannot go on: {self._ports.tool.refused(error, event.topic())}"
        elif is_out_of_range(error):
            self._astray.add([Partition(event.topic(), event.partition())])
        else:
            logger.warning("broker", what=str(error))

    def _dispatch(self) -> None:
        """Give the worker what there is; when there is nothing, settle what has been quiet."""
        self._inserter.dispatch()
        if self._inserter.idle:
            self._lanes.settle_quiet(self._ports.clock.monotonic() - self._ingest.settle_after_s)

    def _over_budget(self) -> bool:
        held = self._lanes.memory_bytes + self._inserter.memory_bytes
        OPEN_BYTES.set(held)
        return held >= self._ingest.budget_bytes

    def _pause_or_resume(self) -> None:
        """While the store is away or slow nothing is fetched; the loop polls on, so that the group stays."""
        over, inserter = self._over_budget(), self._inserter
        if inserter.away_for_long or (over and (inserter.away or inserter.slow)):
            if fresh := self._lanes.partitions - self._paused:
                self._ports.broker.pause(fresh)
                self._paused |= fresh
        elif self._paused and not inserter.away and not inserter.slow:
            self._ports.broker.resume(self._paused)
            self._paused = set()

    def _tell_lag(self, now: float) -> None:
        if now < self._lag_at:
            return
        self._lag_at = now + LAG_EVERY_S
        told: set[tuple[str, str]] = set()
        for lane in self._lanes:
            end = self._ports.broker.end(lane.where)
            if end is not None and lane.next is not None:
                labels = (lane.where.topic, str(lane.where.number))
                LAG.labels(*labels).set(max(0, end - lane.next))
                told.add(labels)
        for labels in self._told_lag - told:  # another one's now: who sums up would count its lag twice
            LAG.remove(*labels)
        self._told_lag = told

    # The end.

    def read_out(self, quiet_s: float = QUIET_S, seconds: float = READ_OUT_S) -> None:
        """Step on until all that the topics held at the call is read, `seconds` at most; raises as `step` does.

        For a broker whose log ends with it. Its end of a partition is only a lower bound: inside the last batch. So
        once every end is reached, the topics must have said nothing for `quiet_s` besides.
        """
        clock = self._ports.clock
        deadline = clock.monotonic() + seconds
        while not self._lanes and clock.monotonic() < deadline:
            self.step()
        ends = {lane.where: self._ports.broker.latest(lane.where) for lane in self._lanes}
        while clock.monotonic() < deadline and not (
            clock.monotonic() - self._heard_at >= quiet_s
            and all((lane.next or 0) >= ends.get(lane.where, 0) for lane in self._lanes)
        ):
            self.step()

    def drain(self, seconds: float = DRAIN_S) -> bool:
        """Insert and settle what is held, within `seconds`; True when all of it is. Leaves the group.

        What cannot be inserted in time is not declared any more; that and what is not settled comes again at the next
        start, and `left` says it.
        """
        clock = self._ports.clock
        deadline = clock.monotonic() + seconds
        self._stop_reading()
        self._lanes.close_all()
        self._inserter.end_by(deadline)
        while clock.monotonic() < deadline and self._health.halt is None and self._inserter.busy:
            self._inserter.wait(min(0.2, max(0.0, deadline - clock.monotonic())))
            self._inserter.collect()
            self._dispatch()
            if self._inserter.out_of_time:
                break
        clean = self._health.halt is None and not self._inserter.busy
        self.left = "" if clean else self._inserter.said_left()
        if clean:
            self._lanes.settle(self._lanes)
        self.leave()
        return clean

    def leave(self) -> None:
        """Leave the group and settle what is known to have landed: a declared span is safe, whoever comes next inserts
        it again. What still runs had its time."""
        self._inserter.note_landed()
        self._leaving = True
        self._ports.broker.close()

    def _stop_reading(self) -> None:
        if fresh := self._lanes.partitions - self._paused:
            self._ports.broker.pause(fresh)
            self._paused |= fresh
