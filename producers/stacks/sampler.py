"""Samplers at work: begun, looked at now and then, and finished when they say so. They never make one wait."""

import os
import signal
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Final

from warpmeter.producers import files
from warpmeter.producers.jobs.process import parse_stat
from warpmeter.producers.stacks import perf, pyspy
from warpmeter.producers.stacks.backoff import Cost
from warpmeter.producers.stacks.child import Bounds, Child, End
from warpmeter.producers.stacks.pyspy import Trouble
from warpmeter.producers.stacks.rotation import Target
from warpmeter.settings import Agent

NICE: Final = -10
"""Of py-spy, where the agent may; else it has the agent's own priority. It takes a thousandth of a core, and what waits
for a CPU behind the programs that it is to look at sees them when they let go of it: in other functions, and halfway
through what it reads."""
LATE_S: Final = 5.0
"""A sampler that takes so much longer than it was asked to is behind, and ended."""
RECORDED_S: Final = 15.0
"""So long perf may take to begin and to end: it looks at every process of the host."""
NAMING_S: Final = 40.0
STALLED_S: Final = 0.3
STALLED_LOOKS: Final = 6
HELD: Final = (
    "py-spy held it still and did not get on, as where it reads the names of a large library: it was ended, and the "
    "process goes on"
)
LATE: Final = "perf did not finish in time, for the host has no CPU time to give: it is run in fewer turns"
SPOOL: Final = Path("/var/tmp")


@dataclass(frozen=True)
class Begun:
    """When a turn began, UTC and monotonic seconds, and how many milliseconds it stands for."""

    ts: float
    monotonic: float
    period_ms: int


@dataclass(frozen=True)
class Finished:
    """What a sampler of one process gave: `output` of py-spy, and `trouble` where it failed.

    `gone`: the process has ended. `tids`: of its threads, where it counts them otherwise than the host. `refused`: the
    sampler may not enter its pid namespace. `stalled`: the sampler held it still for too long.
    """

    target: Target
    begun: Begun
    rate: int
    output: bytes
    cost: Cost
    tids: dict[int, int]
    trouble: Trouble | None = None
    gone: bool = False
    refused: bool = False
    stalled: bool = False


@dataclass(frozen=True)
class HostFinished:
    """What perf gave of the whole host. `rate`: how often it sampled each CPU in a second."""

    begun: Begun
    rate: int
    output: bytes
    cost: Cost
    trouble: Trouble | None = None


class ProcessSampler:
    """py-spy on one process."""

    def __init__(self, program: str, agent: Agent, target: Target, begun: Begun, rate: int, enter: bool = True) -> None:
        """Begin; raises OSError. `enter`: go into the pid namespace of a process that has another than the host's."""
        self.target, self._begun, self._rate = target, begun, rate
        self._proc = files.below(agent.root, "proc")
        self._due_s = agent.stacks_sampling_s + LATE_S
        self._pauses = pyspy.pauses(agent)
        self._stalled = self._late = False
        cpu_s = max(2, round(agent.stacks_sampling_s))
        bounds = Bounds(NICE, 1 << 30 if self._pauses else 512 << 20, cpu_s=cpu_s)
        own_pid = pyspy.own_pid(self._proc, target.pid)
        self._entering = pyspy.entering(self._proc, target.pid) if enter and own_pid != target.pid else []
        line = pyspy.argv(program, agent, own_pid if self._entering else target.pid, rate)
        self._child = Child([*self._entering, *line], bounds)

    def look(self, now: float) -> Finished | None:
        """What it gave, once it is done; `now`: monotonic seconds."""
        end = self._child.ended()
        if end is None:
            self._watch(now)
            return None
        finished = self._finished(end, now)
        self._child.close()
        return finished

    def close(self) -> None:
        """End it."""
        self._child.close()

    def _watch(self, now: float) -> None:
        late = now - self._begun.monotonic - self._due_s
        if late > LATE_S:
            self._late = True
            self._child.tell(signal.SIGKILL)
        elif late > 0:
            self._child.tell(signal.SIGINT)  # it writes down what it has
        if self._pauses and self._holds():
            self._stalled = True
            self._child.tell(signal.SIGKILL)

    def _holds(self) -> bool:
        """Whether it holds the process still and does not get on, for it was stopped itself, or gets no CPU."""
        stop = self._held()
        for _ in range(STALLED_LOOKS):
            if stop is None:
                return False
            sleep(STALLED_S / STALLED_LOOKS)
            if self._held() != stop:
                return False
        return True

    def _held(self) -> int | None:
        return pyspy.held(self._proc, self.target.pid, self._child.pid)

    def _finished(self, end: End, now: float) -> Finished:
        behind = self._stalled or pyspy.was_behind(end) or now - self._begun.monotonic > self._due_s
        gone = not runs(self._proc, self.target)
        trouble = None if gone else self._trouble(end)
        output = self._child.output() if end.status == 0 else b""
        tids = {} if gone else pyspy.host_tids(self._proc, self.target.pid)
        cost = Cost(end.cpu_s, behind)
        refused = bool(self._entering) and pyspy.not_entered(end)
        return Finished(self.target, self._begun, self._rate, output, cost, tids, trouble, gone, refused, self._stalled)

    def _trouble(self, end: End) -> Trouble | None:
        if self._stalled:
            return Trouble("timeout", HELD)
        if self._late or end.status == -signal.SIGINT:  # nobody else sends that; it had not even begun to listen
            return Trouble("timeout", "py-spy did not finish in time")
        return pyspy.trouble(end, pyspy.tracer(self._proc, self.target.pid))


class HostSampler:
    """perf on the whole host: first it records, then it puts names to addresses."""

    def __init__(self, program: str, agent: Agent, begun: Begun) -> None:
        """Begin; raises OSError."""
        self._program, self._begun = program, begun
        self._until = begun.monotonic + agent.stacks_sampling_s
        self._rate = perf.rate(agent.stacks_rate_hz, os.cpu_count() or 1, agent.stacks_sampling_s)
        self._storage = _storage()
        self._names_from: float | None = None
        self._cpu_s = 0.0
        try:
            self._child = Child(perf.recording(program, self._rate), perf.RECORDING, self._storage)
        except OSError:
            os.close(self._storage)
            raise

    def look(self, now: float) -> HostFinished | None:
        """What it gave, once it is done; `now`: monotonic seconds."""
        end = self._child.ended()
        if end is None:
            self._watch(now)
            return None
        self._cpu_s += end.cpu_s
        if self._names_from is None and (end.status == 0 or (end.status == -signal.SIGINT and now >= self._until)):
            return self._name(now)
        output = self._child.output() if end.status == 0 else b""
        self.close()
        late = end.status == -signal.SIGKILL and now > self._until + RECORDED_S
        trouble = Trouble("timeout", LATE) if late else perf.trouble(end)
        return HostFinished(self._begun, self._rate, output, Cost(self._cpu_s, behind=late), trouble)

    def close(self) -> None:
        """End it."""
        self._child.close()
        with suppress(OSError):
            os.close(self._storage)

    def _name(self, now: float) -> HostFinished | None:
        self._child.close()
        self._names_from = now
        try:
            self._child = Child(perf.naming(self._program), perf.NAMING, self._storage, prints=True)
        except OSError as error:
            os.close(self._storage)
            return HostFinished(self._begun, self._rate, b"", Cost(self._cpu_s), Trouble("failed", str(error)))
        return None

    def _watch(self, now: float) -> None:
        if self._names_from is not None:
            if now > self._names_from + NAMING_S:
                self._child.tell(signal.SIGKILL)
        elif now > self._until + RECORDED_S:
            self._child.tell(signal.SIGKILL)
        elif now >= self._until:
            self._child.tell(signal.SIGINT)


def runs(proc: str, target: Target) -> bool:
    """Whether that very process still runs."""
    try:
        stat = parse_stat(files.read(f"{proc}/{target.pid}/stat"))
    except (OSError, ValueError):
        return False
    return stat.start == target.start and not stat.ended


def _storage() -> int:
    """A descriptor of a file without a name, on a disk where there is one: what perf records may be large."""
    try:
        with tempfile.TemporaryFile(dir=SPOOL if SPOOL.is_dir() else None) as file:
            return os.dup(file.fileno())
    except OSError:
        return os.memfd_create("warpmeter-perf", os.MFD_CLOEXEC)
