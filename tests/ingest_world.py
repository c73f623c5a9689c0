"""Ingest on twins: topics, ledger, store and dead letters that outlive the loop, a clock by hand, crashes anywhere."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from typing import Any, Final, ParamSpec, TypeVar, cast

from warpmeter import wire
from warpmeter.consumers.flight import Ports
from warpmeter.consumers.ledger import MemoryLedger
from warpmeter.consumers.letters import MemoryLetters
from warpmeter.consumers.loop import Loop
from warpmeter.consumers.memory import MemoryBroker, MemoryTopics
from warpmeter.consumers.message import Headers
from warpmeter.consumers.sink.memory import MemorySink
from warpmeter.consumers.span import Partition
from warpmeter.schemas.generated import host_samples_pb2
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Ingest

P = ParamSpec("P")
T = TypeVar("T")

HOSTS: Final = TOPICS["host-samples"]
TOPIC: Final = HOSTS.full_name("warpmeter")
FIRST: Final = Partition(TOPIC, 0)
TURN_S: Final = 0.1
BAD: Final = b"refused by the engine"


class Crash(BaseException):
    """The process ends here; nothing in it may catch this."""


class HandClock:
    """Time that moves when told."""

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return 1.8e9 + self.time

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


class Inline(Executor):
    """Runs a job where it is submitted."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@dataclass
class Fuse:
    """Crashes at the `left`-th call through it, before or after the call takes effect; None never does."""

    left: int | None = None
    after: bool = False
    burnt: bool = False

    def wrap(self, port: T) -> T:
        return cast(T, _Fused(port, self))

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        last = self.left is not None and self.left <= 1
        if last and not self.after:
            self._burn()
        found = function(*args, **kwargs)
        if last:
            self._burn()
        if self.left is not None:
            self.left -= 1
        return found

    def _burn(self) -> None:
        self.left, self.burnt = None, True
        raise Crash


class _Fused:
    def __init__(self, port: object, fuse: Fuse) -> None:
        self._port, self._fuse = port, fuse

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if not callable(found):
            return found
        return lambda *args, **kwargs: self._fuse.call(found, *args, **kwargs)


def good(number: int) -> wire.Envelope:
    """One row that says its number."""
    return wire.pack(HOSTS, "h", [host_samples_pb2.Envelope.HostSample(host=f"h{number}", ts=1.8e9 + number)])


def refused_by_engine(payload: bytes) -> str | None:
    return "a constraint" if BAD in payload else None


@dataclass
class World:
    """What outlives a process, and the process: `start` it, `turn` it, let it `crash`."""

    ingest: Ingest = field(
        default_factory=lambda: Ingest(batch_rows=4, batch_age_s=1.0, settle_after_s=2.0, session_timeout_s=10.0)
    )
    topics: MemoryTopics = field(default_factory=MemoryTopics)
    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    sink: MemorySink = field(default_factory=lambda: MemorySink(rule=refused_by_engine))
    letters: MemoryLetters = field(default_factory=MemoryLetters)
    clock: HandClock = field(default_factory=HandClock)
    fuse: Fuse = field(default_factory=Fuse)
    produced: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.topics.create(TOPIC, partitions=3)

    def produce(self, count: int, partition: int = 0) -> None:
        """Good messages, numbered on."""
        for _ in range(count):
            envelope = good(len(self.produced))
            self.topics.produce(Partition(TOPIC, partition), envelope.value, envelope.headers)
            self.produced.append(envelope.value)

    def produce_bad(self, value: bytes | None, headers: Headers | None, partition: int = 0) -> int:
        return self.topics.produce(Partition(TOPIC, partition), value, headers)

    def start(self, *partitions: Partition, worker: Executor | None = None) -> "Process":
        """A process of the group that gets `partitions` at its first poll; `worker` runs its jobs, else it does."""
        broker = MemoryBroker(self.topics)
        wrap = self.fuse.wrap
        ports = Ports(wrap(broker), wrap(self.ledger), wrap(self.sink), wrap(self.sink), wrap(self.letters), self.clock)
        loop = Loop(ports, self.ingest, {TOPIC: HOSTS}, worker or Inline(), "here")
        broker.give(partitions)
        return Process(self, broker, loop)

    @property
    def landed(self) -> list[bytes]:
        return self.sink.stored

    def settings(self, **changes: Any) -> None:
        self.ingest = replace(self.ingest, **changes)


@dataclass
class Process:
    """One running loop."""

    world: World
    broker: MemoryBroker
    loop: Loop

    def turn(self, turns: int = 1) -> None:
        for _ in range(turns):
            self.loop.step()
            self.world.clock.time += TURN_S

    def settle(self) -> None:
        """Turn until everything is in and settled."""
        self.turn(60)


def offsets_in(world: World) -> Sequence[tuple[int, int]]:
    """First and last of each span in the table, in order."""
    return sorted((span.first, span.last) for span in world.sink.rows)
