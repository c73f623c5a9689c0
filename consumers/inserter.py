"""The inserter: one flight at a time, its steps as jobs of the worker thread, and what their answers mean.

The worker does what waits on the store, one job at a time, so that reading and inserting overlap. All state belongs
to the loop's thread; a job gets what it needs and answers with a value.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import Final

from warpmeter import log, selfmetrics
from warpmeter.consumers.astray import Astray
from warpmeter.consumers.check import Checked, Contradiction, check
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
from warpmeter.consumers.health import Health
from warpmeter.consumers.lane import Lane
from warpmeter.consumers.lanes import Lanes
from warpmeter.consumers.ledger import Done, Fatal, Fenced, Retry
from warpmeter.consumers.sink import Away
from warpmeter.consumers.span import Partition
from warpmeter.consumers.start import Wrong, remedy

SLOW_S: Final = 2.0
SHORT_S: Final = 0.02
LAST_BATCHES: Final = 8
LEAST_S: Final = 0.3
"""At the end: so many batches go in one flight at most, which needs so many seconds at least."""

STORE_ERRORS = selfmetrics.counter("warpmeter_ingest_store_errors_total")
BUSY_SINCE = selfmetrics.gauge("warpmeter_ingest_busy_since_timestamp_seconds")
logger = log.get("ingest")

Answer = Report | Checked | Contradiction


class Inserter:
    """Takes closed batches from the lanes to the store. `dispatch` and `collect` at every turn, from one thread."""

    def __init__(
        self, ports: Ports, pilot: Pilot, worker: Executor, lanes: Lanes, astray: Astray, health: Health
    ) -> None:
        self._ports = ports
        self._pilot = pilot
        self._worker = worker
        self._lanes = lanes
        self._astray = astray
        self._health = health
        self._backoff = Backoff()
        self._flight: Flight | None = None
        self._job: Future[Answer] | None = None
        self._job_since = 0.0
        self._retry_at = 0.0
        self.away = False
        self._last_why = ""
        self._deadline: float | None = None
        self._flight_since = 0.0
        self._flight_size = 0
        self._batch_s = 0.0

    @property
    def working(self) -> bool:
        """A job is under way."""
        return self._job is not None

    @property
    def busy(self) -> bool:
        """Something is under way, or waits for its turn."""
        return self._job is not None or self._flight is not None or any(lane.closed for lane in self._lanes)

    @property
    def idle(self) -> bool:
        """Nothing is under way."""
        return self._job is None and self._flight is None

    @property
    def slow(self) -> bool:
        """The job takes long."""
        return self._job is not None and self._ports.clock.monotonic() - self._job_since >= SLOW_S

    @property
    def away_for_long(self) -> bool:
        """The store was away more than once in a row."""
        return self.away and self._backoff.failures > 1

    @property
    def memory_bytes(self) -> int:
        """Memory of the batches under way, about."""
        return self._flight.memory_bytes if self._flight is not None else 0

    def end_by(self, deadline: float) -> None:
        """The end comes at `deadline` (monotonic): flights are small from now on, and none begins that would not be
        done by then."""
        self._deadline = deadline

    @property
    def out_of_time(self) -> bool:
        """The end is near: what is not declared yet will not be, and all else is done."""
        return self._cannot_begin() and self._job is None and (self._flight is None or self._flight.declared_at is None)

    def _cannot_begin(self) -> bool:
        return self._deadline is not None and self._fitting(self._deadline) == 0

    def _fitting(self, deadline: float) -> int:
        """How many batches can be in by then, each in twice the time of those of the last flight; never many."""
        left_s = deadline - self._ports.clock.monotonic()
        if left_s < LEAST_S:
            return 0
        return min(LAST_BATCHES, int(left_s / max(2 * self._batch_s, LEAST_S / LAST_BATCHES)))

    def note_landed(self) -> None:
        """Take note of what the flight under way has landed so far."""
        if self._flight is not None:
            self._lanes.note_landed(self._flight)

    def said_left(self) -> str:
        """What is held and not inserted: what comes again at the next start."""
        flight = self._flight
        told = [f"the store: {self._last_why}"] if self.away else []
        if self._job is not None:
            waited_s = self._ports.clock.monotonic() - self._job_since
            told.append(f"the store has not answered for {waited_s:.0f} s")
        if flight is not None and flight.declared_at is not None:
            told.append(
                f"{len(flight.batches)} declared spans are not known to be stored, and are inserted again first"
            )
            waiting = flight.returned
        else:
            waiting = (flight.batches + flight.returned) if flight is not None else []
        messages = sum(lane.held_messages for lane in self._lanes) + sum(len(batch.messages) for batch in waiting)
        told += [f"{messages} messages were read and not begun, and are read again"] * bool(messages)
        return "; ".join([*([self._health.halt] if self._health.halt else []), *told, "nothing is lost"])

    def inserting(self, partitions: Iterable[Partition]) -> bool:
        """Whether something of them is declared and under way."""
        flight = self._flight
        if flight is None or flight.declared_at is None:
            return False
        return not flight.holds.keys().isdisjoint(partitions)

    # Jobs of the worker.

    def dispatch(self) -> None:
        """Give the idle worker its next job."""
        clock = self._ports.clock
        while self._job is None and self._health.halt is None and clock.monotonic() >= self._retry_at:
            if (job := self._next_job()) is None:
                break
            self._job, self._job_since = self._worker.submit(job), clock.monotonic()
            BUSY_SINCE.set(clock.now())
            if self._flight is None or self._flight.stage == "prepare":
                self.wait(SHORT_S)  # it is one question to the broker or the store: worth waiting for
            self.collect()

    def wait(self, seconds: float) -> None:
        """Wait for the worker's answer, but not longer."""
        if self._job is None:
            self._ports.clock.sleep(min(seconds, 0.05))
            return
        with suppress(FutureTimeoutError):
            self._job.exception(timeout=seconds)

    def _next_job(self) -> Callable[[], Answer] | None:
        if unchecked := [lane for lane in self._lanes if not lane.checked and lane.uuid]:
            return lambda: check(unchecked, self._ports.history, self._ports.clock.now())
        if self.out_of_time:
            return None
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
        ready = self._lanes.ready()[: None if self._deadline is None else self._fitting(self._deadline)]
        self._flight_since = self._ports.clock.monotonic()
        self._flight_size = len(ready)
        holds = {lane.where: lane.hold for lane in ready}
        return Flight([lane.closed.popleft() for lane in ready], holds) if ready else None

    def _declare(self, flight: Flight) -> bool:
        """Declare in this thread; True when the flight may insert."""
        if self._deadline is not None and flight.declared_at is None:
            fitting = max(1, self._fitting(self._deadline))
            flight.returned[:0] = flight.batches[fitting:]
            del flight.batches[fitting:]
        match self._pilot.declare(flight):
            case Done():
                flight.stage = "insert"
                self._lanes.superseded(flight)
                return True
            case Fatal(why):
                self._health.halt = why
            case Fenced(why):
                flight.stage = "prepare"
                logger.warning("the group is changing: the insert waits for it", why=why)
            case Retry(why):
                flight.stage = "prepare"
                self._go_away(why)
        return False

    # Their answers.

    def collect(self) -> None:
        """Act on the worker's answer, if there is one."""
        if self._job is None or not self._job.done():
            return
        answer, self._job = self._job.result(), None
        BUSY_SINCE.set(0)
        if self._flight is not None:
            self._lanes.note_landed(self._flight)
        match answer:
            case Away(why):
                self._go_away(why)
                return
            case Halt(why):
                self._health.halt = why
            case OtherTopic(topics):
                self._astray.restart(topics, self._flight)
            case Checked():
                self._accept(answer.lanes, answer.skip)
                self._pass_over(answer.passed_over)
            case Contradiction():
                self._look_again(answer.lanes)
            case Flown():
                self._finish_flight()
            case Ready() | Undeclared():
                self._stage("declare" if isinstance(answer, Ready) else "prepare")
                return
        self._come_back()

    def _stage(self, stage: Stage) -> None:
        if self._flight is not None:
            self._flight.stage = stage

    def _finish_flight(self) -> None:
        flight, self._flight = self._flight, None
        self._batch_s = (self._ports.clock.monotonic() - self._flight_since) / max(1, self._flight_size)
        for batch in reversed(flight.returned if flight is not None else []):
            if flight is not None and (lane := self._lanes.of(flight, batch)) is not None:
                lane.closed.appendleft(batch)

    def _accept(self, lanes: Sequence[Lane], skip: Sequence[Lane]) -> None:
        now = self._ports.clock.monotonic()
        for lane in lanes:
            lane.checked = True
            pending = lane.began.start.pending
            if lane in skip and pending is not None and self._lanes.at(lane.where) is lane:
                lane.go_behind(pending.span.last)
                lane.landed(pending.span.last + 1, now)
                self._ports.broker.seek(lane.where, lane.next)

    def _pass_over(self, left_out: Sequence[tuple[Lane, int, int]]) -> None:
        """Somebody set the group's offset forward: what lies between is published as lost, and the place is ours."""
        for lane, first, last in left_out:
            if self._lanes.at(lane.where) is lane:
                why = f"the group's offset was set forward: offsets {first} to {last} are left out"
                self._health.lost(lane.where, last - first + 1, why)
                lane.landed(last + 1, self._ports.clock.monotonic())

    def _look_again(self, against: Sequence[tuple[Lane, Wrong]]) -> None:
        """Halt, unless the ledger has moved on since: another member has taken the partitions over meanwhile."""
        still = []
        for lane, wrong in against:
            if self._lanes.at(lane.where) is not lane:
                continue
            before = lane.began
            self._lanes.begin_again(lane)
            if lane.began == before:
                still.append(wrong)
            elif not lane.uuid:
                self._astray.add([lane.where])
        if still:
            self._health.halt = remedy(still, self._ports.tool)

    # The store comes and goes.

    def _go_away(self, why: str) -> None:
        self._last_why = why
        delay = self._backoff.next_s()
        self._retry_at = self._ports.clock.monotonic() + delay
        for topic in {batch.span.topic for batch in self._flight.batches} if self._flight is not None else ():
            STORE_ERRORS.labels(table_of(topic)).inc()
        self.away = True
        self._health.cannot_insert(why)

    def _come_back(self) -> None:
        self._backoff.reset()
        if self.away:
            self.away = False
            self._health.inserts_again()
