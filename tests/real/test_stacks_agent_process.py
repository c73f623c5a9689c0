"""The agent as a process with sampled stacks on: what it finds reaches the bus, and its stop ends the samplers."""

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.brokers import Tansu
from tests.python import PYTHON
from tests.real import agents
from tests.real import stack_programs as programs
from tests.real.agents import Reader
from tests.real.stack_programs import Program
from tests.real.stack_turns import children, goes_on, gone, skip_unless_allowed
from tests.signals import tell
from tests.wait import until
from warpmeter.stacks import identity

STACKS: dict[str, Any] = {
    "stacks": True,
    "stacks_interval_s": 5.0,
    "stacks_sampling_s": 2.0,
    "stacks_processes": 32,
    "stacks_paths": {r"^.*/": ""},
}


JOB: Final = str(4_000_000 + os.getpid())
"""Nobody else's: agents look at all processes of the host."""


@dataclass(frozen=True)
class Job:
    """Rank 3 of a Slurm job: a shell that started a Python program twice, and wants one of them left alone."""

    sampled: int
    left_alone: int


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    program = Program.put(tmp_path, "split", programs.SPLIT)
    line = f'"{PYTHON}" -I {program.path} {program.account} &'
    variables = {"SLURM_JOB_ID": JOB, "SLURM_STEP_ID": "0", "SLURM_PROCID": "3", "SLURM_NTASKS": "8"}
    both = f"{line} WARPMETER_STACKS=off {line} wait"
    shell = subprocess.Popen(["bash", "-c", both], process_group=0, env={"PATH": os.environ["PATH"], **variables})
    try:
        until(lambda: program.begun and len(interpreters(shell.pid)) == 2, "the programs to work")
        skip_unless_allowed(interpreters(shell.pid)[0])
        left_alone, sampled = sorted(interpreters(shell.pid), key=lambda pid: b"WARPMETER_STACKS" not in environ(pid))
        yield Job(sampled, left_alone)
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()


def interpreters(shell: int) -> list[int]:
    """What it started that is no shell any more."""
    return [pid for pid in children(shell) if b"split.py\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def environ(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


@pytest.mark.long
def test_stacks_of_a_job_reach_the_bus_and_stopping_ends_the_samplers(
    tansu: Tansu, topic_prefix: str, job: Job, tmp_path: Path
) -> None:
    bus = agents.with_topics(tansu.bootstrap_servers, topic_prefix)
    reader = Reader(bus)
    try:
        with agents.running(agents.settings(tmp_path, bus, **STACKS), log=tmp_path / "log") as agent:
            reader.wait(lambda r: any(map(heavy, told(r).values())), "sampled stacks", 120)
            until(lambda: children(agent.pid), "the next turn", 60, 0.01)
            samplers = children(agent.pid)
            tell(agent)
            assert agent.wait(60) == 0
            until(lambda: all(map(gone, samplers)), "the samplers to end")
        reader.poll()
    finally:
        reader.close()
    rows, frames = mine(reader), told(reader)
    assert {(row.host, row.pid, row.rank, row.process) for row in rows} == {("gpu01", job.sampled, 3, "split.py")}
    assert all(row.stack in frames for row in rows)
    assert all(identity(each) == stack for stack, each in frames.items())
    assert job.left_alone not in {row.pid for row in reader.rows("stack-samples")}
    until(lambda: goes_on(job.sampled), "the process to go on")


def mine(reader: Reader) -> list[Any]:
    rows = (row for row in reader.rows("stack-samples") if row.source == "py-spy")
    return [row for row in rows if row.job_id.startswith(JOB)]


def told(reader: Reader) -> dict[int, list[str]]:
    return {row.stack: list(row.frames) for row in mine(reader) if row.frames}


def heavy(frames: list[str]) -> bool:
    return frames[-1].startswith("heavy (split.py:")
