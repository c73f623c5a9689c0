"""What a source is: a `read()` that touches the system and a `parse()` that does not, and what passes between them.

The runner owns time: it stamps the sample before the read, bounds the read, and reports how it went. A source only
says what it saw. A read that fails raises; nothing is published for it, so nothing stale gets a new time.

Each module of sources offers `sources(agent: settings.Agent, attribution: Attribution) -> Sequence[AnySource]`: those
that the settings ask for, made without touching the system (a missing driver is found by the first `read()`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

from google.protobuf.message import Message

State = Literal["ok", "unsupported", "failed", "gone", "timeout", "denied", "paused"]
Raw = TypeVar("Raw")

STALE_PERIODS: Final = 3.0


class SourceError(Exception):
    """A read gave nothing, and `state` says which kind of nothing; the message says what to do, where that is known.

    `unsupported`: this host does not have it (no driver, no such file). `gone`: it was there before. `denied`: it
    exists and may not be read. `failed`: it should have worked. `paused`: it rests, for somebody asked for that or it
    cost too much. Any other exception counts as `failed`, a PermissionError as `denied`.
    """

    def __init__(self, state: State, why: str) -> None:
        super().__init__(why)
        self.state: State = state


@dataclass(frozen=True)
class Health:
    """How a subject of a source fares: '' is the source itself, else a GPU's uuid, `uuid/column`, a disk, …

    Sources report the subjects that are not `ok`; a subject that was reported and is no longer is `ok` again.
    `count` is a running number where one explains the state, e.g. messages dropped so far.
    """

    subject: str
    state: State
    why: str = ""
    count: int | None = None


@dataclass(frozen=True)
class Sample(Generic[Raw]):
    """What one read gave.

    `ts`: UTC seconds, the schedule's whole tick, from before the read. `monotonic`: seconds, taken just before the
    read, for intervals between reads. `period_s`: the source's period.
    """

    ts: float
    monotonic: float
    period_s: float
    raw: Raw

    @property
    def period_ms(self) -> int:
        """The interval a value of this instant stands for: one period."""
        return round(self.period_s * 1000)

    def since(self, before: "Sample[Raw] | None") -> float | None:
        """Seconds between the two reads, for rates; None when there is no earlier one."""
        return None if before is None else self.monotonic - before.monotonic

    def covers_ms(self, before: "Sample[Raw] | None") -> int:
        """The interval that a rate since `before` stands for: whole periods, more than one after a missed tick."""
        elapsed = self.since(before)
        return self.period_ms * max(1, round((elapsed or 0.0) / self.period_s))


@dataclass(frozen=True)
class Reading:
    """What a sample means: row messages of the source's topic, and the health of its subjects.

    `others`: rows of other topics that the same read gave, by the topic's name without prefix.
    """

    rows: Sequence[Message] = ()
    health: Sequence[Health] = ()
    others: Mapping[str, Sequence[Message]] = field(default_factory=dict)


class Source(Protocol[Raw]):
    """One source of samples. It is used from one thread only, its own.

    `name`: as in `source_health`. `topic`: name of the topic of its rows, without the prefix. `period_s`: how often.
    `timeout_s`: a read that takes longer is reported as `timeout`; the source stays stopped until the call returns.
    """

    @property
    def name(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def period_s(self) -> float: ...
    @property
    def timeout_s(self) -> float: ...

    def read(self) -> Raw:
        """Ask the system, as cheaply as can be; raises SourceError or OSError when it gives nothing."""

    def parse(self, sample: Sample[Raw], before: Sample[Raw] | None) -> Reading:
        """What `sample` says. Touches nothing outside: the same samples in the same order give the same readings.

        `before` is the last good sample of this source, None on the first; counters become rates between the two.
        """

    def close(self) -> None:
        """Give back what the source holds; called once, after the last read."""


AnySource = Source[Any]


@dataclass(frozen=True)
class GpuUse:
    """One process on one GPU or MIG instance. `gpu`: NVML index; `memory_mebibytes`: None when not known."""

    pid: int
    gpu: int
    uuid: str
    memory_mebibytes: int | None = None


@dataclass(frozen=True)
class Interpreter:
    """A process that runs Python. `start`: ticks since boot, which tell it from a later one with its pid."""

    pid: int
    start: int
    name: str


@dataclass(frozen=True)
class JobTree:
    """One process tree of a job on this host: a rank of it, where `rank` is known. `top`: its topmost process.

    `interpreters`: those of its processes that run Python, the topmost first. `unsampled`: those whose environment
    asks that their stacks be left alone.
    """

    job_id: str
    rank: int | None
    top: int
    pids: tuple[int, ...]
    interpreters: tuple[Interpreter, ...] = ()
    unsampled: frozenset[int] = frozenset()


class Attribution:
    """Where the job source and the GPU source meet: which job a process belongs to, which GPUs a process holds.

    Each side swaps its whole snapshot in one assignment and the other reads it, so no lock is needed. Pids are those
    of the agent's own pid namespace (the host's).
    """

    def __init__(self) -> None:
        self._jobs: Mapping[int, str] = {}
        self.trees: Sequence[JobTree] = ()
        """From the job source, swapped as a whole: all trees of jobs, as they were at its last look."""
        self.look: Callable[[Iterable[int]], Sequence[JobTree]] = lambda _: self.trees
        """From the job source: the trees as they are now, for who captures them; for any thread, and never raises.

        With pids of processes that are known to be of jobs, each of which is looked at again."""
        self._uses: tuple[float, float, tuple[GpuUse, ...]] = (float("-inf"), 0.0, ())

    def set_jobs(self, job_of_pid: Mapping[int, str]) -> None:
        """From the job source: job_id of every process that belongs to a job."""
        self._jobs = job_of_pid

    def jobs_of(self, pids: Iterable[int]) -> dict[int, str]:
        """The job of each of these processes that is of one."""
        jobs = self._jobs
        return {pid: jobs[pid] for pid in pids if pid in jobs}

    def job_ids(self, pids: Sequence[int]) -> list[str]:
        """For a GPU's row: the jobs of these processes, each once, sorted."""
        jobs = self._jobs
        return sorted({jobs[pid] for pid in pids if pid in jobs})

    def set_gpu_uses(self, sample: Sample[Any], uses: Sequence[GpuUse]) -> None:
        """From the GPU source, at every sample: all processes on all GPUs at that instant."""
        self._uses = (sample.monotonic, sample.period_s, tuple(uses))

    def gpu_uses(self, monotonic: float) -> tuple[GpuUse, ...] | None:
        """For the job source: processes on GPUs, None when nothing fresh is known (the GPU source failed or is stuck).

        `monotonic`: the asking sample's. Fresh is not older than three of the GPU source's periods.
        """
        at, period_s, uses = self._uses
        return uses if monotonic - at <= STALE_PERIODS * max(period_s, 1.0) else None
