"""Schedules: what happens to the world, one thing after the other. Plain values, so that a shrunk one is a test.

What makes no sense at its moment (a crash of what does not run) does nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from hypothesis import strategies as st

from tests.model.world import HEALTH, HOSTS, INGEST, PARTITIONS, Process, Trouble, World
from warpmeter.consumers.sink import Away, Broken


class Action(Protocol):
    """Something that happens."""

    def happen(self, world: World) -> None:
        """Let it."""


@dataclass(frozen=True)
class Produce:
    """So many messages of a kind to a partition."""

    partition: int
    kind: str = "good"
    count: int = 1

    def happen(self, world: World) -> None:
        for _ in range(self.count):
            world.produce(PARTITIONS[self.partition], self.kind)


@dataclass(frozen=True)
class Start:
    """A process joins."""

    slot: int

    def happen(self, world: World) -> None:
        world.start(self.slot)


@dataclass(frozen=True)
class Rebalance:
    """Partitions are shared anew."""

    shift: int

    def happen(self, world: World) -> None:
        world.group.rebalance(self.shift)


@dataclass(frozen=True)
class Tick:
    """Time passes for all; past the session timeout the group has noticed who is dead."""

    seconds: int

    def happen(self, world: World) -> None:
        world.clock.time += self.seconds
        if self.seconds > INGEST.session_timeout_s:
            world.bury()


@dataclass(frozen=True)
class Coordinator:
    """The broker goes or comes."""

    up: bool

    def happen(self, world: World) -> None:
        world.group.up = self.up


@dataclass(frozen=True)
class Retain:
    """Retention takes the oldest messages of a partition."""

    partition: int
    count: int

    def happen(self, world: World) -> None:
        world.retain(PARTITIONS[self.partition], self.count)


@dataclass(frozen=True)
class Delete:
    """A topic is deleted."""

    hosts: bool = True

    def happen(self, world: World) -> None:
        world.delete(HOSTS if self.hosts else HEALTH)


@dataclass(frozen=True)
class Create:
    """A topic that was deleted is made again."""

    hosts: bool = True

    def happen(self, world: World) -> None:
        world.create(HOSTS if self.hosts else HEALTH)


@dataclass(frozen=True)
class Serve:
    """The store does so many puts of inserts whose sender waits no longer."""

    count: int

    def happen(self, world: World) -> None:
        world.serve(self.count)


@dataclass(frozen=True)
class _OfProcess(ABC):
    """What happens to one process, if it runs."""

    slot: int

    def happen(self, world: World) -> None:
        process = world.processes[self.slot]
        if process is not None and not process.ended:
            self.befall(world, process)

    @abstractmethod
    def befall(self, world: World, process: Process) -> None:
        """Let it happen to that one."""


@dataclass(frozen=True)
class Go(_OfProcess):
    """It makes so many calls; `which` of its threads the scheduler favours."""

    calls: int
    which: Literal["both", "loop", "worker"] = "both"

    def befall(self, world: World, process: Process) -> None:
        for _ in range(self.calls):
            if not process.ended:
                world.go(process, self.which)


@dataclass(frozen=True)
class Stop(_OfProcess):
    """SIGTERM: it drains as it is let go on."""

    def befall(self, world: World, process: Process) -> None:  # noqa: ARG002
        process.stopping = True


@dataclass(frozen=True)
class Crash(_OfProcess):
    """kill -9, where it stands, and another start. `late`: the store finishes what it was given. `over`: the group
    has noticed before the other process joins."""

    late: bool = False
    over: bool = True

    def befall(self, world: World, process: Process) -> None:
        world.crash(process, self.late)
        if self.over:
            world.group.leave(process.member.name)
        world.start(self.slot)


@dataclass(frozen=True)
class Expire(_OfProcess):
    """The group takes its session for over; it does not know."""

    def befall(self, world: World, process: Process) -> None:
        world.group.leave(process.member.name)


@dataclass(frozen=True)
class Half(_OfProcess):
    """Its next insert is answered by an error, after some of its puts are done; the others come late or never."""

    mask: int
    late: bool = False

    def befall(self, world: World, process: Process) -> None:  # noqa: ARG002
        process.trouble = Trouble(self.mask, self.late, Away("no reply"))


@dataclass(frozen=True)
class ReadOnly(_OfProcess):
    """Its next insert is answered by an error that stays until somebody acts."""

    def befall(self, world: World, process: Process) -> None:  # noqa: ARG002
        process.trouble = Trouble(0, False, Broken("cannot insert into it: readonly"))


@dataclass(frozen=True)
class Cut(_OfProcess):
    """It does not reach the store, until it does again."""

    off: bool = True

    def befall(self, world: World, process: Process) -> None:  # noqa: ARG002
        process.cut_off = "no route to the store" if self.off else None


@dataclass(frozen=True)
class CommitReplyLost(_OfProcess):
    """Its next commit is written and the answer lost."""

    def befall(self, world: World, process: Process) -> None:  # noqa: ARG002
        process.member.losing_reply = True


@dataclass(frozen=True)
class CommitFails(_OfProcess):
    """Its next commit is not written."""

    def befall(self, world: World, process: Process) -> None:  # noqa: ARG002
        process.member.failing_commit = True


@dataclass(frozen=True)
class SessionEndsInCommit(_OfProcess):
    """Its client finds the session over while it commits, and commits as nobody."""

    def befall(self, world: World, process: Process) -> None:  # noqa: ARG002
        process.member.ending_session = True


_slots = st.sampled_from([0, 0, 0, 1, 1, 2])
_partitions = st.integers(0, len(PARTITIONS) - 1)
_kinds = st.sampled_from(["good", "good", "days", "bare", "bad", "refused"])
_produce = st.builds(Produce, _partitions, _kinds, st.sampled_from([1, 3, 5, 8, 12]))
_calls = st.sampled_from([1, 2, 3, 5, 8, 13, 30, 60, 120])
_go = st.builds(Go, _slots, _calls, st.sampled_from(["both", "both", "both", "loop", "worker"]))
_crash = st.builds(Crash, _slots, st.booleans(), st.booleans())
_expire = st.builds(Expire, _slots)
_half = st.builds(Half, _slots, st.integers(0, 63), st.booleans())
_seldom: Final[st.SearchStrategy[Action]] = st.one_of(
    st.builds(Start, _slots),
    st.builds(Stop, _slots),
    st.builds(Rebalance, st.integers(0, 2)),
    st.builds(Tick, st.sampled_from([1, 6, 20])),
    st.builds(Cut, _slots, st.booleans()),
    st.builds(CommitReplyLost, _slots),
    st.builds(CommitFails, _slots),
    st.builds(CommitFails, _slots),
    st.builds(SessionEndsInCommit, _slots),
    st.builds(Coordinator, st.booleans()),
    st.builds(Retain, _partitions, st.integers(1, 5)),
    st.builds(Delete, st.booleans()),
    st.builds(Create, st.booleans()),
    st.builds(Serve, st.integers(1, 6)),
    st.builds(ReadOnly, _slots),
)
_shares: Final[Sequence[st.SearchStrategy[Action]]] = (
    *(_go,) * 9,
    *(_produce,) * 5,
    _crash,
    _expire,
    _half,
    *(_seldom,) * 2,
)


@st.composite
def _actions(draw: st.DrawFn) -> Action:
    """One action; the shares are by draw, for a `one_of` gives each of its parts' parts the same."""
    return draw(draw(st.sampled_from(_shares)))


def _flat(stretches: Sequence[Sequence[Action]]) -> list[Action]:
    return [action for stretch in stretches for action in stretch]


# Lists of lists, for one list is short on average; both are shrunk away.
schedules: Final = st.lists(st.lists(_actions(), min_size=1, max_size=12), min_size=2, max_size=12).map(_flat)
short_schedules: Final = st.lists(st.lists(_actions(), min_size=1, max_size=3), min_size=2, max_size=4).map(_flat)
