"""The source of sampled stacks, driven turn by turn: they begin when the test says so, and take the time they take."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.python import PYTHON
from tests.real.stack_programs import Program
from tests.wait import until
from warpmeter.clock import SystemClock
from warpmeter.producers import files
from warpmeter.producers.jobs.process import parse_stat
from warpmeter.producers.source import Attribution, Health, Interpreter, JobTree, Reading, Sample
from warpmeter.producers.stacks.source import StackSource
from warpmeter.settings import Agent

READS: Final = """
import ctypes, errno, sys
class Piece(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("size", ctypes.c_size_t)]
byte = ctypes.create_string_buffer(1)
here, there = Piece(ctypes.addressof(byte), 1), Piece(1, 1)
libc = ctypes.CDLL(None, use_errno=True)
libc.process_vm_readv(int(sys.argv[1]), ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
sys.exit(ctypes.get_errno() != errno.EFAULT)
"""


class Turning(SystemClock):
    """The machine's, but for the hour, which the test turns."""

    def __init__(self) -> None:
        self.hours = 0

    def now(self) -> float:
        """Later by the hours that were turned."""
        return super().now() + 3600.0 * self.hours


class Turns:
    """A source, and what it told."""

    def __init__(self, trees: Sequence[JobTree] = (), **settings: Any) -> None:
        given: dict[str, Any] = {"stacks_sampling_s": 6.0, "stacks_rate_hz": 50, "stacks_perf": "off"}
        self.agent = Agent(host="gpu01", stacks_interval_s=3600.0, **given | settings)
        self.attribution, self._clock = Attribution(), Turning()
        self.attribution.trees = trees
        self.source = StackSource(self.agent, self.attribution, self._clock)
        self.rows: list[Any] = []
        self.at: dict[int, float] = {}
        self.health: dict[str, Health] = {}
        self.look()

    def begin(self) -> None:
        """Begin a turn."""
        self._clock.hours += 1
        self.look()

    def look(self) -> Reading:
        """One read."""
        sample = Sample(self._clock.now(), time.monotonic(), 1.0, self.source.read())
        reading = self.source.parse(sample, None)
        rows: Sequence[Any] = reading.rows
        self.rows += rows
        self.at |= {row.pid: time.monotonic() for row in rows if row.pid not in self.at}
        self.health = {health.subject: health for health in reading.health}
        return reading

    @property
    def troubles(self) -> dict[str, Health]:
        """What was told but that a sampler was behind, which it may be on a busy machine."""
        return {
            subject: health
            for subject, health in self.health.items()
            if subject != "rate" or "its sampler was behind" not in health.why
        }

    def at_work(self) -> bool:
        """Look once; whether samplers still run."""
        self.look()
        return bool(self.samplers())

    def samplers(self) -> list[int]:
        """Their pids."""
        running = [sampler._child.pid for sampler in self.source._running]
        return [*running, *([self.source._host._child.pid] if self.source._host is not None else [])]

    def turn(self) -> float:
        """A whole turn; how many seconds its samplers waited for a CPU."""
        self.begin()
        waited = dict.fromkeys(self.samplers(), 0.0)

        def done() -> bool:
            for pid in waited:
                waited[pid] = max(waited[pid], waited_s(pid))
            return not self.at_work()

        until(done, "the samplers to be done", 120)
        return sum(waited.values())

    def finish(self) -> None:
        """Wait for the end of the turn."""
        until(lambda: not self.at_work(), "the samplers to be done", 120)


@contextmanager
def punctual() -> Iterator[None]:
    """Give this thread, and what it starts, a CPU as soon as it wants one, as far as that is allowed (sched(7)).

    A sampler that waits for a CPU takes its samples late, and many at once.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@contextmanager
def running(programs: Mapping[str, Program], *arguments: str) -> Iterator[dict[str, int]]:
    """Start them; pids by name, once each has begun to work. They are stopped then.

    Skips where the kernel lets no process look at another: in a container that forbids it, say.
    """
    started = {
        name: subprocess.Popen([PYTHON, "-I", str(each.path), str(each.account), *arguments], process_group=0)
        for name, each in programs.items()
    }
    try:
        until(lambda: all(each.begun for each in programs.values()), "the programs to work")
        skip_unless_allowed(next(iter(started.values())).pid)
        for process in started.values():
            os.killpg(process.pid, signal.SIGSTOP)
        yield {name: process.pid for name, process in started.items()}
    finally:
        for process in started.values():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def skip_unless_allowed(pid: int) -> None:
    """Skip a test where another process may not read the memory of this one, as its kernel is set."""
    if not may(sys.executable, "-c", READS, str(pid)):
        pytest.skip("here the kernel lets no process look at another (ptrace)")


@cache
def may_perf() -> bool:
    """Whether perf is here, and may sample the whole host."""
    return may("perf", "record", "--all-cpus", "--event", "cpu-clock", "--output", "/dev/null", "true")


def may(*line: str) -> bool:
    """Whether a program is there and succeeds."""
    try:
        return subprocess.run(line, capture_output=True, timeout=60).returncode == 0
    except OSError:
        return False


@contextmanager
def going(*pids: int) -> Iterator[None]:
    """Let these go on for a while."""
    for pid in pids:
        os.killpg(pid, signal.SIGCONT)
    try:
        yield
    finally:
        for pid in pids:
            os.killpg(pid, signal.SIGSTOP)


def tree(pid: int, job_id: str = "job", rank: int | None = 0, also: Sequence[int] = ()) -> JobTree:
    """A job of that process, and those below it."""
    pids = (pid, *also)
    return JobTree(job_id, rank, pid, pids, tuple(Interpreter(each, start(each), "program.py") for each in pids))


def start(pid: int) -> int:
    """When it began, in ticks since boot."""
    return parse_stat(files.read(f"/proc/{pid}/stat")).start


def state(pid: int) -> tuple[str, int]:
    """Its state, and who traces it."""
    lines = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    return lines["State"][0], int(lines["TracerPid"])


def goes_on(pid: int) -> bool:
    """Whether it runs or sleeps, and nobody traces it."""
    return state(pid) in (("R", 0), ("S", 0))


def gone(pid: int) -> bool:
    """Whether it runs no more."""
    try:
        return state(pid)[0] in "ZX"
    except OSError:
        return True


def children(pid: int) -> list[int]:
    """Of all its threads; one that ends meanwhile has none."""
    found: list[str] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            found += (task / "children").read_text().split()
    return list(map(int, found))


def waited_s(pid: int) -> float:
    """How long its threads waited for a CPU so far; 0 when it is gone. See proc_pid_schedstat(5)."""
    try:
        found = [(task / "schedstat").read_text().split() for task in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return 0.0
    return sum(int(numbers[1]) for numbers in found) / 1e9


def share(rows: Sequence[Any], frames: Mapping[int, Sequence[str]], inside: str, among: Sequence[str]) -> float:
    """Of the weight of rows that were in one of these functions, that of those inside one of them."""

    def within(row: Any, function: str) -> bool:
        return any(frame.split(" (")[0] == function for frame in frames[row.stack])

    of_all = sum(row.weight for row in rows if any(within(row, each) for each in among))
    return sum(row.weight for row in rows if within(row, inside)) / of_all if of_all else float("nan")


def told(rows: Sequence[Any]) -> dict[int, Sequence[str]]:
    """Frames by stack."""
    return {row.stack: list(row.frames) for row in rows if row.frames}
