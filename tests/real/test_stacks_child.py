"""Programs that run beside the agent are bounded, and what they say is kept."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.wait import until
from warpmeter.producers.jobs.process import parse_stat
from warpmeter.producers.stacks.child import Bounds, Child, End
from warpmeter.producers.stacks.pyspy import Trouble
from warpmeter.producers.stacks.rotation import Target
from warpmeter.producers.stacks.sampler import NICE, Begun, Finished, ProcessSampler
from warpmeter.settings import Agent

SHELL = ["/bin/sh", "-c"]


def ended(child: Child) -> End:
    found: list[End] = []

    def looked() -> bool:
        end = child.ended()
        if end is not None:
            found.append(end)
        return bool(found)

    until(looked, "the program to end")
    return found[0]


def test_what_it_writes_and_what_it_says_are_two_things() -> None:
    child = Child([*SHELL, "printf hello > {}; echo words; echo more >&2; exit 3"], Bounds(5))
    end = ended(child)
    assert (end.status, end.words, child.output()) == (3, "words\nmore\n", b"hello")
    assert child.ended() is None
    child.close()


def test_what_one_wrote_another_reads() -> None:
    file = os.memfd_create("test")
    first = Child([*SHELL, "printf recorded > {}"], Bounds(0), file)
    assert ended(first).status == 0
    first.close()
    second = Child([*SHELL, "cat {}; echo words >&2"], Bounds(0), file, prints=True)
    assert (ended(second).words, second.output()) == ("words\n", b"recorded")
    second.close()
    os.close(file)


@pytest.mark.parametrize(
    ("line", "bounds", "number"),
    [
        ("exec head -c 100000 /dev/zero > {}", Bounds(5, output=5000), signal.SIGXFSZ),
        ("while :; do :; done", Bounds(5, cpu_s=1), signal.SIGXCPU),
    ],
)
def test_too_much_output_or_cpu_time_ends_it(line: str, bounds: Bounds, number: signal.Signals) -> None:
    child = Child([*SHELL, line], bounds)
    assert ended(child).status == -number
    assert len(child.output()) <= bounds.output
    child.close()


def test_too_much_memory_is_not_given() -> None:
    child = Child([sys.executable, "-I", "-c", "bytearray(1 << 30)"], Bounds(5, memory=200 << 20))
    end = ended(child)
    assert (end.status, "MemoryError" in end.words) == (1, True)
    child.close()


def test_it_runs_in_a_group_of_its_own_at_a_low_priority_with_nothing_of_ours_in_its_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("A_SECRET", "not-for-children")
    child = Child(["/bin/sleep", "100"], Bounds(7))
    assert os.getpgid(child.pid) == child.pid
    assert os.getpriority(os.PRIO_PROCESS, child.pid) == 7
    assert b"not-for-children" not in Path(f"/proc/{child.pid}/environ").read_bytes()
    child.close()
    assert not Path(f"/proc/{child.pid}").exists()


@pytest.mark.parametrize("native", [False, True])
def test_a_sampler_runs_before_what_it_looks_at_where_that_is_allowed(native: bool, tmp_path: Path) -> None:
    """It says it of itself: what it starts, as py-spy does its threads, has it from there."""
    program = tmp_path / "sampler"
    program.write_text("#!/bin/sh\nnice\nexit 3\n")
    program.chmod(0o755)
    target = Target(os.getpid(), parse_stat(Path("/proc/self/stat").read_bytes()).start, "x", "job", None)
    begun = Begun(0.0, time.monotonic(), 60_000)
    sampler = ProcessSampler(str(program), Agent(host="a", stacks_native=native), target, begun, 19)
    found: list[Finished] = []

    def looked() -> bool:
        finished = sampler.look(begun.monotonic)
        found.extend([finished] if finished is not None else [])
        return bool(found)

    until(looked, "it to end")
    assert found[0].trouble == Trouble("failed", f"py-spy: {NICE if may_be(NICE) else os.nice(0)}")


def may_be(nice: int) -> bool:
    """Whether a process of ours may have that niceness."""
    code = f"import os; os.setpriority(os.PRIO_PROCESS, 0, {nice})"
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_what_it_started_ends_with_it() -> None:
    child = Child([*SHELL, "sleep 1000 & echo $!"], Bounds(5))
    left = int(ended(child).words)
    until(lambda: not Path(f"/proc/{left}").exists(), "what it left behind to end")
    child.close()


def test_what_cannot_be_started_says_so() -> None:
    with pytest.raises(OSError, match="/nowhere/py-spy cannot be started"):
        Child(["/nowhere/py-spy"], Bounds(5))
