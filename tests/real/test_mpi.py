"""Real launchers of MPI: the ranks that they start are one job, each with its place."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest

from tests.python import PYTHON
from tests.wait import until
from warpmeter.producers.jobs.source import JobSource
from warpmeter.producers.jobs.trees import Tree
from warpmeter.producers.source import Attribution
from warpmeter.settings import Agent

LAUNCHERS = {
    "mpirun.openmpi": ["--oversubscribe"],
    "mpirun.mpich": [],
}
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def ranks(source: JobSource, launcher: int) -> Sequence[Tree]:
    """The trees of ranks below a launcher."""
    return [tree for tree in source.read().trees if tree.scheduler == "mpi" and _below(tree.top.pid, launcher)]


def _below(pid: int, ancestor: int) -> bool:
    with suppress(OSError):  # it, or one between, has ended since it was seen
        while pid > 1 and pid != ancestor:
            with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
                pid = int(file.read().rpartition(")")[2].split()[1])
        return pid == ancestor
    return False


@pytest.fixture(params=LAUNCHERS)
def launcher(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    """One that runs two ranks."""
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is missing: apt-get install openmpi-bin mpich")
    line = [request.param, *LAUNCHERS[request.param], "-np", "2", PYTHON, "-c", "import time; time.sleep(200)"]
    process = subprocess.Popen(line, env={**os.environ, **ROOT}, process_group=0, stdin=subprocess.DEVNULL)
    yield process
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


def test_the_ranks_of_a_launcher_are_one_job(launcher: subprocess.Popen[bytes]) -> None:
    source = JobSource(Agent(host="gpu01"), Attribution())
    until(lambda: len(ranks(source, launcher.pid)) == 2, "both ranks", 90)
    found = ranks(source, launcher.pid)
    assert sorted((tree.rank.rank, tree.rank.local_rank, tree.rank.world_size) for tree in found) == [
        (0, 0, 2),
        (1, 1, 2),
    ]
    assert len({tree.job_id for tree in found}) == 1
    assert {tree.labels["local_world_size"] for tree in found} == {"2"}
