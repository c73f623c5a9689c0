"""The loop: poll, close batches, fly them, settle; and what to do when partitions, topics or the store come and go.

One thread runs `step` over and over and alone talks to the consumer group; one worker thread does what waits on the
store, one job at a time, so that reading and inserting overlap. All state belongs to the loop's thread; a job gets
what it needs and answers with a value.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import Final

from warpmeter import log, selfmetrics
from warpmeter.consumers import letters
from warpmeter.consumers.batch import Batch, Limits
from warpmeter.consumers.broker import BrokerError, is_fatal, is_out_of_range
from warpmeter.consumers.check import Checked, check
from warpmeter.consumers.flight import (
    Backoff,
    Flight,
    Flown,
    Halt,
    OtherTopic,
    Pilot,
    Ports,
    Ready,
    Report,
    Stage,
    Undeclared,
    table_of,
)
from warpmeter.consumers.judge import Budget
from warpmeter.consumers.lane import Began, Lane
from warpmeter.consumers.ledger import Done, Fatal, Fenced, LedgerError, Retry
from warpmeter.consumers.message import Message
from warpmeter.consumers.shape import Look, looker
from warpmeter.consumers.sink import Away
from warpmeter.consumers.span import Partition
from warpmeter.consumers.start import plan
from warpmeter.schemas.topics import Topic
from warpmeter.settings import Ingest

POLL_MESSAGES: Final = 5_000
POLL_S: Final = 0.1
LAG_EVERY_S: Final = 5.0
REVOKE_S: Final = 10.0
DRAIN_S: Final = 4.5
QUIET_S: Final = 0.5  # an idle embedded broker answers a fetch within 0.25 s
READ_OUT_S: Final = 8.0
SLOW_S: Final = 2.0
SHORT_S: Final = 0.02
RECALL_TRIES: Final = 5
REMIND_S: Final = 60.0

MADE_AGAIN: Final = "the topic was made again: what was read of the old one and not stored yet is dropped"

OPEN_BYTES = selfmetrics.gauge("warpmeter_ingest_open_bytes")
LAG = selfmetrics.gauge("warpmeter_ingest_lag_messages")
LOST = selfmetrics.counter("warpmeter_ingest_lost_messages_total")
STORE_ERRORS = selfmetrics.counter("warpmeter_ingest_store_errors_total")
FAILING_SINCE = selfmetrics.gauge("warpmeter_ingest_failing_since_timestamp_seconds")
BUSY_SINCE = selfmetrics.gauge("warpmeter_ingest_busy_since_timestamp_seconds")
logger = log.get("ingest")


Answer = Report | Checked


class Halted(Exception):  # noqa: N818
    """The consumer cannot go on and somebody must act; the message says what happened and what to do."""


class Loop:
    """Ingest of `topics` (full names on the broker). `step` until told otherwise, then `drain`.

    `host` names this process's health rows; `rng` gives the back-off its jitter.
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
        self._worker = worker
        self._host = host
        self._limits = Limits(ingest.batch_bytes, ingest.batch_rows, ingest.batch_age_s)
        self._looks: dict[str, Look] = {name: looker(topic, framed) for name, topic in topics.items()}
        budget = Budget(ingest.reject_window, ingest.reject_share)
        self._pilot = Pilot(ports, budget, ingest.session_timeout_s / 2)
        self._backoff = Backoff(random.Random())
        self._lanes: dict[Partition, Lane] = {}
        self._flight: Flight | None = None
        self._job: Future[Answer] | None = None
        self._retry_at = 0.0
        self._away = False
        self._away_since = self._said_at = 0.0
        self._paused: set[Partition] = set()
        self._astray: set[Partition] = set()
        self._restarting: set[Partition] = set()
        self._job_since = 0.0
        self._halt: str | None = None
        self._heard_at = ports.clock.monotonic()
        self._lag_at = 0.0
        ports.broker.subscribe(list(topics), self)

    @property
    def partitions(self) -> frozenset[Partition]:
        """What this process holds now."""
        return frozenset(self._lanes)

    def read(self, where: Partition) -> int:
        """The offset that is read next of a partition, 0 when none was."""
        lane = self._lanes.get(where)
        return (lane.next or 0) if lane is not None else 0

    # Partitions come and go, from within poll.

    def assigned(self, partitions: Sequence[Partition]) -> Mapping[Partition, int | None]:
        """Begin on partitions where the ledger says; what it says is held against the tables before any insert."""
        found = self._recall(partitions)
        self._heard_at = self._ports.clock.monotonic()
        for where, began in found.items():
            self._lanes[where] = Lane(began, self._looks[where.topic], self._limits)
            self._log_start(began)
        logger.info("partitions taken", partitions=[str(where) for where in partitions])
        return {where: began.start.offset for where, began in found.items()}

    def _recall(self, partitions: Sequence[Partition]) -> dict[Partition, Began]:
        clock, broker = self._ports.clock, self._ports.broker
        for attempt in range(RECALL_TRIES):
            try:
                ids = broker.topic_ids({where.topic for where in partitions})
                entries = self._ports.ledger.recall(partitions)
                break
            except (BrokerError, LedgerError) as error:
                if attempt == RECALL_TRIES - 1:
                    raise
                logger.warning("cannot begin yet", why=str(error))
                clock.sleep(0.2 * 2**attempt)
        self._astray |= {where for where in partitions if where.topic not in ids}
        starts = (plan(where, ids.get(where.topic, ""), entries.get(where)) for where in partitions)
        return {start.where: Began(start, entries.get(start.where)) for start in starts}

    def _log_start(self, began: Began) -> None:
        start = began.start
        if start.old_life:
            logger.info("the topic was made again: beginning at its start", partition=str(start.where))
        if start.pending is not None:
            span = start.pending.span
            logger.info("replaying a declared span", partition=str(start.where), first=span.first, last=span.last)

    def revoked(self, partitions: Sequence[Partition], lost: bool) -> None:
        """Give partitions up: what is open is abandoned, a running insert gets one deadline and is settled."""
        lanes = [self._lanes[where] for where in partitions if where in self._lanes]
        if not lost and self._inserting(partitions):
            self._wait(REVOKE_S)
            self._collect()
        if not lost:
            self._save_orphans([lane for lane in lanes if not lane.empty and lane.checked])
            self._settle(lanes)
        for lane in lanes:
            lane.hold.given_up = True
            del self._lanes[lane.where]
        self._paused -= set(partitions)
        self._astray -= set(partitions)
        self._restarting -= set(partitions)
        logger.info("partitions given up", partitions=[str(where) for where in partitions], lost=lost)

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
        while self._ports.clock.monotonic() < until and any(lane.closed for lane in orphans) and self._halt is None:
            self._dispatch()
            self._wait(0.2)
            self._collect()

    def _inserting(self, partitions: Iterable[Partition]) -> bool:
        flight = self._flight
        return flight is not None and flight.declared_at is not None and not flight.holds.keys().isdisjoint(partitions)

    def _settle(self, lanes: Sequence[Lane]) -> None:
        """Write what landed of these lanes; what cannot be written now is replayed by whoever comes next."""
        entries = [entry for lane in lanes if (entry := lane.unsettled) is not None]
        outcome = self._ports.ledger.settle(entries) if entries else Done()
        for lane in lanes:
            lane.landed_at = self._ports.clock.monotonic()
            lane.landed_to = None if isinstance(outcome, Done) else lane.landed_to
        if isinstance(outcome, Fatal):
            self._halt = outcome.why
        elif not isinstance(outcome, Done):
            logger.info("not settled yet", why=outcome.why)

    # One turn.

    def step(self) -> None:
        """Poll once, and do all that is due. Raises Halted, BrokerError and LedgerError."""
        now = self._ports.clock.monotonic()
        if self._over_budget() and self._job is not None and not self._paused:
            self._wait(SLOW_S)
        else:
            self._take(self._ports.broker.poll(POLL_MESSAGES, POLL_S))
        self._resolve_astray()
        self._close_due(now)
        self._collect()
        self._dispatch()
        self._pause_or_resume()
        self._tell_lag(now)
        if self._halt is not None:
            raise Halted(self._halt)

    def _take(self, messages: Sequence[Message]) -> None:
        now, lanes = self._ports.clock.monotonic(), self._lanes
        self._heard_at = now if messages else self._heard_at
        events = []
        for message in messages:
            if message.error() is not None:
                events.append(message)
                continue
            lane = lanes.get((message.topic(), message.partition()))  # type: ignore[call-overload]
            if lane is not None:
                lane.take(message, now)
        for event in events:
            self._handle(event)

    def _handle(self, event: Message) -> None:
        error = event.error()
        if is_fatal(error):
            self._halt = f"the Kafka client cannot go on: {error}"
        elif is_out_of_range(error):
            self._astray.add(Partition(event.topic(), event.partition()))
        else:
            logger.warning("broker", what=str(error))

    def _held_bytes(self) -> int:
        held = sum(lane.memory_bytes for lane in self._lanes.values())
        held += self._flight.memory_bytes if self._flight is not None else 0
        OPEN_BYTES.set(held)
        return held

    def _over_budget(self) -> bool:
        return self._held_bytes() >= self._ingest.budget_bytes

    def _close_due(self, now: float) -> None:
        for lane in self._lanes.values():
            lane.close_if_due(now)
        if self._over_budget() and not any(lane.closed for lane in self._lanes.values()):
            largest = max((lane.open_bytes for lane in self._lanes.values() if lane.replay is None), default=0)
            for lane in self._lanes.values():
                if lane.replay is None and lane.open is not None and lane.open_bytes * 2 >= largest:
                    lane.close()

    # Jobs of the worker.

    def _dispatch(self) -> None:
        """Give the idle worker its next job; settle what has been quiet when there is none."""
        clock = self._ports.clock
        while self._job is None and self._halt is None and clock.monotonic() >= self._retry_at:
            if (job := self._next_job()) is None:
                break
            self._job, self._job_since = self._worker.submit(job), clock.monotonic()
            BUSY_SINCE.set(clock.now())
            if self._flight is None or self._flight.stage == "prepare":
                self._wait(SHORT_S)  # it is one question to the broker or the store: worth waiting for
            self._collect()
        if self._job is None and self._flight is None:
            self._settle_quiet(clock.monotonic() - self._ingest.settle_after_s)

    def _settle_quiet(self, before: float) -> None:
        lanes = [lane for lane in self._lanes.values() if lane.empty and lane.landed_at <= before]
        if quiet := [lane for lane in lanes if lane.unsettled is not None]:
            self._settle(quiet)

    def _next_job(self) -> Callable[[], Answer] | None:
        if unchecked := [lane for lane in self._lanes.values() if not lane.checked and lane.uuid]:
            return lambda: check(unchecked, self._ports.history, self._ports.clock.now())
        if self._flight is None:
            self._flight = self._new_flight()
        if (flight := self._flight) is None:
            return None
        if flight.stage == "prepare":
            return lambda: self._pilot.prepare(flight)
        if flight.stage == "declare" and not self._declare(flight):
            return None
        return lambda: self._pilot.insert(flight)

    def _new_flight(self) -> Flight | None:
        ready = [lane for lane in self._lanes.values() if lane.checked and lane.closed]
        holds = {lane.where: lane.hold for lane in ready}
        return Flight([lane.closed.popleft() for lane in ready], holds) if ready else None

    def _declare(self, flight: Flight) -> bool:
        """Declare in this thread; True when the flight may insert."""
        match self._pilot.declare(flight):
            case Done():
                flight.stage = "insert"
                self._superseded(flight)
                return True
            case Fatal(why):
                self._halt = why
            case Fenced(why):
                flight.stage = "prepare"
                logger.warning("the group is changing: the insert waits for it", why=why)
            case Retry(why):
                flight.stage = "prepare"
                self._go_away(why)
        return False

    def _superseded(self, flight: Flight) -> None:
        """A declare says what a settle of the span before would: writing that now would undo the declare."""
        for batch in flight.batches:
            lane = self._lane_of(flight, batch)
            if lane is not None and batch.span.topic not in flight.orphaned:
                lane.landed_to = None

    def _wait(self, seconds: float) -> None:
        """Wait for the worker's answer, but not longer."""
        if self._job is None:
            self._ports.clock.sleep(min(seconds, 0.05))
            return
        with suppress(FutureTimeoutError):
            self._job.exception(timeout=seconds)

    def _collect(self) -> None:
        if self._job is None or not self._job.done():
            return
        answer, self._job = self._job.result(), None
        BUSY_SINCE.set(0)
        self._note_landed()
        match answer:
            case Away(why):
                self._go_away(why)
                return
            case Halt(why):
                self._halt = why
            case OtherTopic(topics):
                self._restart({where for where in self._lanes if where.topic in topics})
            case Checked(lanes, skip):
                self._accept(lanes, skip)
            case Flown():
                self._finish_flight()
            case Ready():
                self._stage("declare")
                return
            case Undeclared():
                self._stage("prepare")
                return
        self._come_back()

    def _stage(self, stage: Stage) -> None:
        if self._flight is not None:
            self._flight.stage = stage

    def _lane_of(self, flight: Flight, batch: Batch) -> Lane | None:
        """The lane that the batch was taken from, if it is still held."""
        lane = self._lanes.get(batch.span.where)
        return lane if lane is not None and lane.hold is flight.holds[batch.span.where] else None

    def _note_landed(self) -> None:
        if (flight := self._flight) is None:
            return
        now = self._ports.clock.monotonic()
        for batch in flight.landed:
            lane = self._lane_of(flight, batch)
            if lane is not None and batch.span.topic not in flight.orphaned:
                lane.landed(batch.span.last + 1, now)
        flight.landed.clear()

    def _finish_flight(self) -> None:
        flight, self._flight = self._flight, None
        for batch in reversed(flight.returned if flight is not None else []):
            if flight is not None and (lane := self._lane_of(flight, batch)) is not None:
                lane.closed.appendleft(batch)

    def _accept(self, lanes: Sequence[Lane], skip: Sequence[Lane]) -> None:
        now = self._ports.clock.monotonic()
        for lane in lanes:
            lane.checked = True
            pending = lane.began.start.pending
            if lane in skip and pending is not None and self._lanes.get(lane.where) is lane:
                lane.go_behind(pending.span.last)
                lane.landed(pending.span.last + 1, now)
                self._ports.broker.seek(lane.where, lane.next)

    # The store comes and goes.

    def _go_away(self, why: str) -> None:
        delay = self._backoff.next_s()
        self._retry_at = self._ports.clock.monotonic() + delay
        for topic in {batch.span.topic for batch in self._flight.batches} if self._flight is not None else ():
            STORE_ERRORS.labels(table_of(topic)).inc()
        self._tell_away(why)

    def _tell_away(self, why: str) -> None:
        """One health row and one line when it begins, then a line a minute, however often it is tried."""
        now = self._ports.clock.monotonic()
        if not self._away:
            self._away, self._away_since = True, now
            FAILING_SINCE.set(self._ports.clock.now())
            logger.warning("cannot insert now, nothing is lost; trying again", why=why)
            self._health("store", "failed", why)
        elif now - self._said_at >= REMIND_S:
            logger.warning("still cannot insert; trying again", why=why, for_s=round(now - self._away_since))
        else:
            return
        self._said_at = now

    def _come_back(self) -> None:
        self._backoff.reset()
        if self._away:
            self._away = False
            FAILING_SINCE.set(0)
            self._health("store", "ok", "inserting again")
            logger.info("inserting again", after_s=round(self._ports.clock.monotonic() - self._away_since, 1))

    def _pause_or_resume(self) -> None:
        """While the store is away or slow nothing is fetched; the loop polls on, so that the group stays."""
        slow = self._job is not None and self._ports.clock.monotonic() - self._job_since >= SLOW_S
        away = self._away and (self._backoff.failures > 1 or self._over_budget())
        if away or (slow and self._over_budget()):
            if fresh := self._lanes.keys() - self._paused:
                self._ports.broker.pause(fresh)
                self._paused |= fresh
        elif self._paused and not self._away and not slow:
            self._ports.broker.resume(self._paused)
            self._paused = set()

    # Topics and offsets come and go.

    def _restart(self, partitions: Iterable[Partition]) -> None:
        """These topics are others than those that were read: forget what is held of them, and begin again."""
        lanes = [self._lanes[where] for where in partitions if where in self._lanes]
        flight = self._flight
        for batch in flight.batches if flight is not None else ():
            lane = self._lane_of(flight, batch) if flight is not None else None
            if lane is not None and lane in lanes:
                self._tell_loss(lane, len(batch.messages), MADE_AGAIN)
        for lane in lanes:
            lane.hold.given_up = True
        self._restarting |= {lane.where for lane in lanes}
        self._astray |= self._restarting

    def _resolve_astray(self) -> None:
        for where in sorted(self._astray & self._lanes.keys()):
            try:
                if self._find_again(self._lanes[where]):
                    self._astray.discard(where)
                    self._restarting.discard(where)
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
            self._begin_again(lane)
        elif (position := lane.next or 0) >= (earliest := broker.earliest(where)):
            self._beyond_the_end(lane)
        else:
            self._lose(lane, position, earliest)
            broker.seek(where, earliest)
        return True

    def _begin_again(self, lane: Lane) -> None:
        """From the ledger; for a topic that was deleted and made again that is its start, under its new id."""
        if lane.held_messages:
            self._tell_loss(lane, lane.held_messages, MADE_AGAIN)
        lane.hold.given_up = True
        lane.begin(self._recall([lane.where])[lane.where])
        self._log_start(lane.began)
        self._ports.broker.seek(lane.where, lane.next)

    def _beyond_the_end(self, lane: Lane) -> None:
        lane.out_of_range += 1
        if lane.out_of_range > 3:
            self._halt = (
                f"{lane.where} ends before offset {lane.next}, which the group had reached: the broker lost messages "
                "that it had acknowledged (an unclean leader election, a restored disk). Look at what the topic holds "
                "now, then set the group's offset"
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
        if lost <= 0:
            return
        self._tell_loss(lane, lost, f"retention took offsets {position} to {earliest - 1} before they were read")

    def _tell_loss(self, lane: Lane, messages: int, why: str) -> None:
        LOST.labels(lane.where.topic).inc(messages)
        logger.error("messages lost", partition=str(lane.where), why=why, messages=messages)
        self._health(f"{lane.where.topic}/{lane.where.number}", "failed", why, messages)

    def _health(self, subject: str, state: str, why: str, count: int | None = None) -> None:
        row = letters.health(self._host, self._ports.clock.now(), subject, state, why, count)
        self._ports.letters.post(row)

    def _tell_lag(self, now: float) -> None:
        if now < self._lag_at:
            return
        self._lag_at = now + LAG_EVERY_S
        for where, lane in self._lanes.items():
            end = self._ports.broker.end(where)
            if end is not None and lane.next is not None:
                LAG.labels(where.topic, str(where.number)).set(max(0, end - lane.next))

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
        ends = {where: self._ports.broker.latest(where) for where in self._lanes}
        while clock.monotonic() < deadline and not (
            clock.monotonic() - self._heard_at >= quiet_s
            and all((lane.next or 0) >= ends.get(where, 0) for where, lane in self._lanes.items())
        ):
            self.step()

    def drain(self, seconds: float = DRAIN_S) -> bool:
        """Insert and settle what is held, within `seconds`; True when all of it is. Leaves the group.

        What is not settled is declared or unread, and comes again at the next start.
        """
        clock = self._ports.clock
        deadline = clock.monotonic() + seconds
        for lane in self._lanes.values():
            if lane.replay is None:
                lane.close()
        while clock.monotonic() < deadline and self._halt is None and self._busy():
            self._wait(min(0.2, max(0.0, deadline - clock.monotonic())))
            self._collect()
            self._dispatch()
        clean = self._halt is None and not self._busy()
        if clean:
            self._settle(list(self._lanes.values()))
        self._ports.broker.close()
        return clean

    def _busy(self) -> bool:
        return self._job is not None or self._flight is not None or any(lane.closed for lane in self._lanes.values())
