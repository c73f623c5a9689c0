"""The agent as a process with sampled stacks on: what it finds reaches the bus, and its stop ends the samplers."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.brokers import Tansu
from tests.python import PYTHON
from tests.real import agents
from tests.real import stack_programs as programs
from tests.real.agents import Reader
from tests.real.stack_programs import Program
from tests.real.stack_turns import state
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


@pytest.fixture
def job(tmp_path: Path) -> Iterator[int]:
    """Pid of a shell that started a Python program, as rank 3 of a Slurm job, and one that is to be left alone."""
    program = Program.put(tmp_path, "split", programs.SPLIT)
    line = f'"{PYTHON}" -I {program.path} {program.account} &'
    variables = {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_PROCID": "3", "SLURM_NTASKS": "8"}
    both = f"{line} WARPMETER_STACKS=off {line} wait"
    shell = subprocess.Popen(["bash", "-c", both], process_group=0, env={"PATH": os.environ["PATH"], **variables})
    until(lambda: program.begun and len(children(shell.pid)) == 2, "the programs to work")
    yield shell.pid
    os.killpg(shell.pid, signal.SIGKILL)
    shell.wait()


def children(pid: int) -> list[int]:
    """Of all its threads."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(each) for task in tasks for each in (task / "children").read_text().split()]


@pytest.mark.long
def test_stacks_of_a_job_reach_the_bus_and_stopping_ends_the_samplers(
    tansu: Tansu, topic_prefix: str, job: int, tmp_path: Path
) -> None:
    bus = agents.with_topics(tansu.bootstrap_servers, topic_prefix)
    reader = Reader(bus)
    left_alone, sampled = sorted(
        children(job), key=lambda pid: b"WARPMETER_STACKS" not in Path(f"/proc/{pid}/environ").read_bytes()
    )
    try:
        with agents.running(agents.settings(tmp_path, bus, **STACKS), log=tmp_path / "log") as agent:
            reader.wait(lambda r: any(row.source == "py-spy" for row in mine(r)), "sampled stacks", 120)
            until(lambda: children(agent.pid), "the next turn", 60, 0.01)
            samplers = children(agent.pid)
            tell(agent)
            assert agent.wait(60) == 0
            until(lambda: all(map(gone, samplers)), "the samplers to end")
        reader.poll()
    finally:
        reader.close()
    rows = [row for row in mine(reader) if row.source == "py-spy"]
    assert {(row.host, row.pid, row.rank, row.process) for row in rows} == {("gpu01", sampled, 3, "split.py")}
    told = {row.stack: list(row.frames) for row in rows if row.frames}
    assert all(row.stack in told for row in rows)
    assert all(identity(frames) == stack for stack, frames in told.items())
    assert any(frames[-1].startswith("heavy (split.py:") for frames in told.values())
    assert left_alone not in {row.pid for row in reader.rows("stack-samples")}
    assert state(sampled) in (("R", 0), ("S", 0))


def mine(reader: Reader) -> list[Any]:
    return [row for row in reader.rows("stack-samples") if row.job_id.startswith("4711")]


def gone(pid: int) -> bool:
    try:
        return state(pid)[0] in "ZX"
    except OSError:
        return True
