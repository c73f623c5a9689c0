"""The world of the model: up to three processes over one group and one store, driven call by call."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from typing import Any, Final, ParamSpec, TypeVar, cast

from tests.ingest_world import BAD, HandClock
from tests.model.fibers import Crash, Fiber, pause
from tests.model.group import Group, GroupMember
from tests.model.store import Put, Row, StoreTwin
from warpmeter import wire
from warpmeter.consumers.batch import Batch
from warpmeter.consumers.broker import BrokerError
from warpmeter.consumers.flight import Ports
from warpmeter.consumers.ledger import LedgerError
from warpmeter.consumers.letters import MemoryLetters
from warpmeter.consumers.loop import Halted, Loop
from warpmeter.consumers.memory import MemoryTopics
from warpmeter.consumers.sink import Away, Broken, Landed, Refused, Result
from warpmeter.consumers.span import Partition, Span
from warpmeter.schemas.generated import host_samples_pb2, source_health_pb2
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Ingest

P = ParamSpec("P")
T = TypeVar("T")

HOSTS: Final = TOPICS["host-samples"].full_name("warpmeter")
HEALTH: Final = TOPICS["source-health"].full_name("warpmeter")
PARTITIONS: Final = (Partition(HOSTS, 0), Partition(HOSTS, 1), Partition(HEALTH, 0))
MEMBERS: Final = 3
INGEST: Final = Ingest(
    batch_rows=2, batch_age_s=0.3, settle_after_s=0.5, session_timeout_s=10.0, reject_window=10**6, reject_share=1.0
)
WINDOW: Final = 10
# An insert leaves two identities at most in a table's window. A replay is certain while no more than this many inserts
# came since the declare, an insert under way while no more than that many came since it was sent: 2 * (2 + 2 + 1) = 10.
WINDOW_INSERTS: Final = 2
UNDER_WAY_INSERTS: Final = 2


class _Job(Future[T]):
    """A future whose wait is a place to stand still at, and over when the loop is let go on before the worker."""

    def __init__(self, clock: HandClock) -> None:
        super().__init__()
        self._clock = clock

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if not self.done():
            pause("wait")
        if not self.done():
            self._clock.sleep(timeout or 0.0)
            raise TimeoutError
        return super().exception()


class Worker(Executor):
    """Runs a job in a fiber of its own."""

    def __init__(self, clock: HandClock) -> None:
        self._clock = clock
        self.fiber: Fiber | None = None

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        job: _Job[T] = _Job(self._clock)

        def run() -> None:
            try:
                job.set_result(fn(*args, **kwargs))
            except Crash:
                raise
            except BaseException as error:  # noqa: BLE001 - as an executor does
                job.set_exception(error)

        self.fiber = Fiber(run)
        return job


@dataclass
class Trouble:
    """What the store will do to a member's next insert. `mask` says which puts get done before it answers Away; the
    rest are done later (`late`) or never."""

    mask: int
    late: bool
    answer: Away | Broken | Landed = field(default_factory=lambda: Away("no reply"))


@dataclass
class UnderWay:
    """An insert that the store has taken on, and what of it is still to do; its sender waits for it, or is gone."""

    puts: list[list[Put]]
    since: int
    sender: object
    awaited: bool = True


class Store:
    """The store's twin as Sink and History of one process."""

    def __init__(self, world: "World", process: "Process") -> None:
        self._world = world
        self._process = process

    def insert(self, batch: Batch) -> Result:
        sent = self._world.inserts
        pause("insert")
        if why := self._process.cut_off:
            return Away(why)
        if self._world.inserts - sent > UNDER_WAY_INSERTS:
            return Away("the connection was closed meanwhile")
        kept = [batch.payloads[index] for index in batch.kept]
        if any(BAD in payload for payload in kept):
            return Refused("a constraint")
        self._world.finish_slow()
        rows = [row for payload in kept for row in self._world.contents[payload]]
        return self._land(batch, rows, sent)

    def _land(self, batch: Batch, rows: Sequence[Row], sent: int) -> Result:
        world = self._world
        trouble, self._process.trouble = self._process.trouble, None
        steps = world.store.insert(batch.span.topic, batch.token, rows, world.clock.now())
        if trouble is not None:
            puts = [put for step in steps for put in step]
            first = [put for place, put in enumerate(puts) if trouble.mask >> place & 1]
            rest = [put for place, put in enumerate(puts) if not trouble.mask >> place & 1]
            world.put(first)
            if trouble.late:
                world.under_way.append(UnderWay([rest], world.inserts, self._process, awaited=False))
            return trouble.answer
        under_way = UnderWay(steps, sent, self._process)
        world.under_way.append(under_way)
        while under_way.puts:
            world.put(under_way.puts.pop(0))
            pause("inserting")
        if under_way in world.under_way:
            world.under_way.remove(under_way)
        return Landed()

    def ask(self, topic: str, payloads: Sequence[bytes]) -> Result:  # noqa: ARG002
        pause("ask")
        if why := self._process.cut_off:
            return Away(why)
        return Refused("a constraint") if any(BAD in payload for payload in payloads) else Landed()

    def ready(self) -> Away | Broken | None:
        pause("ready")
        return Away(why) if (why := self._process.cut_off) else None

    def last(self, topic: str, uuid: str) -> Mapping[int, int] | Away | Broken:
        pause("last")
        if why := self._process.cut_off:
            return Away(why)
        lasts: dict[int, int] = {}
        for span in self._world.spans():
            if (span.topic, span.uuid) == (topic, uuid):
                lasts[span.partition] = max(span.last, lasts.get(span.partition, -1))
        return lasts

    def landed(self, span: Span) -> bool | Away | Broken:
        pause("landed")
        if why := self._process.cut_off:
            return Away(why)
        found = span in self._world.spans()
        if found:
            self._world.believed.append(span)
        return found

    def inserts_since(self, at: float) -> int | Away | Broken:
        pause("inserts since")
        if why := self._process.cut_off:
            return Away(why)
        return sum(row.at >= at for row in self._world.store.book.rows)


class Letters(MemoryLetters):
    """Dead letters and health rows, that stand still before they are sent."""

    def send(self, envelopes: Sequence[wire.Envelope]) -> str | None:
        pause("letters")
        return super().send(envelopes)


class Process:
    """One running ingest: its loop in a fiber, the job under way in another."""

    def __init__(self, world: "World", name: str, batch_rows: int) -> None:
        self.world = world
        self.member = GroupMember(world.group, world.polled)
        self.cut_off: str | None = None
        self.trouble: Trouble | None = None
        self.stopping = False
        self.halted: str | None = None
        self.worker = Worker(world.clock)
        store = Store(world, self)
        ports = Ports(self.member, self.member, store, store, world.letters, world.clock)
        topics = {HOSTS: TOPICS["host-samples"], HEALTH: TOPICS["source-health"]}
        self.loop = Loop(ports, replace(INGEST, batch_rows=batch_rows), topics, self.worker, name)
        self.fiber = Fiber(self._live)

    def _live(self) -> None:
        try:
            while not self.stopping:
                self.loop.step()
            self.loop.drain()
        except Halted as halted:
            self.halted = str(halted)
        except (BrokerError, LedgerError):
            pass  # it ends with a traceback, and is started again
        self._end()

    def _end(self) -> None:
        if self.worker.fiber is not None:
            self.worker.fiber.kill()

    @property
    def ended(self) -> bool:
        """It is no more."""
        return self.fiber.done

    def crash(self) -> None:
        """kill -9."""
        self.fiber.kill()
        self._end()

    def go(self, which: str = "both") -> None:
        """One stretch, to the next call: of the worker while it has a job and `which` lets it, else of the loop."""
        worker = self.worker.fiber
        working = worker is not None and not worker.done
        if working and which != "loop" and worker is not None:
            worker.resume()
            if worker.error is not None:
                raise worker.error
        elif which != "worker":
            self.fiber.resume()
            if self.fiber.error is not None:
                raise self.fiber.error


class World:
    """All that outlives a process, and the processes. `calls` counts the stretches run.

    At number `crash_at` the process crashes instead, what it had the store begin goes on or not (in turns), and it
    starts again.
    """

    def __init__(self, crash_at: int | None = None) -> None:
        self._crash_at = crash_at
        self._starts = 0
        self.clock = HandClock()
        self.topics = MemoryTopics()
        self.topics.create(HOSTS, 2)
        self.topics.create(HEALTH, 1)
        self.group = Group(self.topics)
        self.store = StoreTwin((HOSTS, HEALTH), WINDOW)
        self.letters = Letters()
        self.processes: list[Process | None] = [None] * MEMBERS
        self.under_way: list[UnderWay] = []
        self.contents: dict[bytes, tuple[Row, ...]] = {}
        self.places: dict[int, Span] = {}
        self.bad: set[tuple[str, int, int]] = set()
        self.gone: set[tuple[str, int, int]] = set()
        self.never_ours: set[tuple[str, int, int]] = set()
        self.calls = 0
        self.crashes = 0
        self.numbers = 0
        self.halts: list[str] = []
        self.believed: list[Span] = []
        self.poll_s = 0.1
        self.start(0)
        self.start(1)

    # What happens outside of the processes.

    @property
    def inserts(self) -> int:
        """How many spans have landed."""
        return len(self.store.book.rows)

    def polled(self) -> None:
        self.clock.time += self.poll_s

    def put(self, puts: Sequence[Put]) -> None:
        """Do it, and see that nothing is twice."""
        for one in puts:
            one()
        for name, tables in self.store.tables.items():
            numbers = [row.number for row in tables.raw.rows]
            twice = {number for number in numbers if numbers.count(number) > 1}
            assert not twice, f"{sorted(twice)} are twice in {name}: {[self.places[number].token for number in twice]}"

    def spans(self) -> list[Span]:
        """The book's spans."""
        found = []
        for row in self.store.book.rows:
            uuid, partition, offsets = row.token.split("/")
            first, last = offsets.split("-")
            found.append(Span(row.table, uuid, int(partition), int(first), int(last)))
        return found

    def produce(self, where: Partition, kind: str) -> None:
        """`good` one row, `days` rows of two days, `bare` without headers, `bad` by shape, `refused` by the store."""
        if where not in self.topics.logs:
            return
        uuid = self.topics.ids[where.topic]
        if kind in ("bad", "refused"):
            value = b"\xff" if kind == "bad" else wire.field(1, BAD)
            offset = self.topics.produce(where, value, None)
            self.bad.add((uuid, where.number, offset))
            return
        days = (1, 2) if kind == "days" else (1,)
        rows = tuple(Row(self.numbers + place, day) for place, day in enumerate(days))
        self.numbers += len(rows)
        envelope = _envelope(where.topic, rows)
        offset = self.topics.produce(where, envelope.value, None if kind == "bare" else envelope.headers)
        self.contents[envelope.value] = rows
        for row in rows:
            self.places[row.number] = Span(where.topic, uuid, where.number, offset, offset)

    def retain(self, where: Partition, count: int) -> None:
        """The oldest `count` messages go; those that went before the group began are nobody's loss."""
        if (log := self.topics.logs.get(where)) is not None and log.messages:
            going = log.messages[:count]
            gone = {(self.topics.ids[where.topic], where.number, message.offset()) for message in going}
            self.gone |= gone
            if where not in self.group.records:
                self.never_ours |= gone
            self.topics.retain_from(where, going[-1].offset() + 1)

    def delete(self, topic: str) -> None:
        """The topic goes, and with it the group's offsets of it."""
        if topic in self.topics.ids:
            uuid = self.topics.ids[topic]
            for where, log in self.topics.logs.items():
                if where.topic == topic:
                    self.gone |= {(uuid, where.number, message.offset()) for message in log.messages}
                    self.group.records.pop(where, None)
            self.topics.delete(topic)

    def create(self, topic: str) -> None:
        """The topic is made, with the partitions that it had."""
        if topic not in self.topics.ids:
            self.topics.create(topic, 2 if topic == HOSTS else 1)
            self.group.rebalance(self.group.shift)

    def serve(self, count: int) -> None:
        """The store goes on with what it was given and whose sender is gone."""
        for under_way in list(self.under_way):
            if count <= 0:
                return
            if self.inserts - under_way.since > UNDER_WAY_INSERTS:
                self.under_way.remove(under_way)
                continue
            while under_way.puts and count > 0:
                self.put(under_way.puts.pop(0))
                count -= 1
            if not under_way.puts:
                self.under_way.remove(under_way)

    def finish_slow(self) -> None:
        """No insert is half done while a window of others goes by: the store has ended those that are waited for."""
        for under_way in self.under_way:
            if under_way.awaited and self.inserts - under_way.since >= UNDER_WAY_INSERTS:
                while under_way.puts:
                    self.put(under_way.puts.pop(0))

    # Processes.

    def start(self, slot: int) -> None:
        if (process := self.processes[slot]) is None or process.ended:
            # Each start has other limits than the one before, so that only the ledger makes their spans the same.
            self._starts += 1
            self.processes[slot] = Process(self, f"process-{slot}", INGEST.batch_rows + self._starts % 3)

    def live(self) -> Iterator[Process]:
        """Those that run."""
        return (process for process in self.processes if process is not None and not process.ended)

    def go(self, process: Process, which: str = "both") -> None:
        """One stretch of a process."""
        self.calls += 1
        if self.calls - 1 == self._crash_at:
            self.crash(process, late=self.calls % 2 == 0)
            self.group.leave(process.member.name)
            self.start(self.processes.index(process))
            return
        process.go(which)
        if process.halted is not None:
            self.halts.append(process.halted)

    def crash(self, process: Process, late: bool) -> None:
        """kill -9; what the store was given by it goes on (`late`) or not."""
        self.crashes += 1
        process.crash()
        if not late:
            self.under_way = [one for one in self.under_way if one.sender is not process]

    def bury(self) -> None:
        """The sessions of the dead are over."""
        for name in set(self.group.members) - {process.member.name for process in self.live()}:
            self.group.leave(name)

    def close(self) -> None:
        """Let every fiber go."""
        for process in self.live():
            process.crash()


def _envelope(topic: str, rows: Sequence[Row]) -> wire.Envelope:
    name = topic.partition(".")[2]
    kind: Any = host_samples_pb2.Envelope.HostSample if topic == HOSTS else source_health_pb2.Envelope.SourceHealth
    made = [kind(host=f"h{row.number}", ts=1.8e9 + row.day * 86_400) for row in rows]
    return wire.pack(TOPICS[name], "h", cast(Sequence[Any], made))
