"""Which process belongs to which job: patterns, topmost matches, schedulers, launchers, orphans."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.unit.fakeproc import FakeProc
from warpmeter.producers.jobs.pattern import ANYWHERE, DEFAULT, pattern_in_force
from warpmeter.producers.jobs.process import Process
from warpmeter.producers.jobs.scheduler import Rank
from warpmeter.producers.jobs.trees import ORPHAN_S, Forest, Rules, Tree
from warpmeter.settings import Agent

BOOT = 1_799_000_000.0


class Host:
    """Processes in the making, and the trees among them."""

    def __init__(self, pattern: str = DEFAULT, ignore: str = "") -> None:
        self.processes: dict[int, Process] = {}
        rules = Rules("gpu01", re.compile(pattern), re.compile(ignore) if ignore else None, BOOT, 100)
        self.forest = Forest(rules)
        self.now = 0.0
        self.add(1, 0, "systemd")
        self.add(10, 1, "sshd")
        self.add(20, 10, "bash")

    def add(
        self, pid: int, ppid: int, name: str, argv: Sequence[str] = (), environ: Mapping[str, str] | None = None
    ) -> None:
        """A process starts, with its lineage as the table would find it."""
        parent = self.processes.get(ppid)
        lineage = (*(parent.lineage if parent else ()), name)
        start = 100 * pid
        self.processes[pid] = Process(
            pid, ppid, start, name, name, tuple(argv) or (name,), "ada", environ or {}, False, lineage
        )

    def end(self, *pids: int) -> None:
        """Processes end."""
        for pid in pids:
            del self.processes[pid]

    def trees(self, after_s: float = 2.0) -> dict[int, Tree]:
        """The trees by the pid of their topmost process."""
        self.now += after_s
        return {tree.top.pid: tree for tree in self.forest.trees(self.processes, self.now)}

    def members(self) -> dict[int, tuple[int, ...]]:
        """The pids of each tree."""
        return {top: tree.pids for top, tree in self.trees().items()}


def test_python_from_a_shell_is_a_job() -> None:
    host = Host()
    host.add(30, 20, "python3", ["python3", "train.py", "--lr", "1"])
    tree = host.trees()[30]
    assert tree.job_id == f"gpu01:30:{int(BOOT) + 30}"
    assert (tree.name, tree.user, tree.scheduler, tree.rank) == ("train.py", "ada", "none", Rank())
    assert tree.top.tree_id == "systemd/sshd/bash/python3"


def test_python_in_a_container_is_a_job() -> None:
    host = Host()
    host.add(30, 1, "containerd-shim-runc-v2")
    host.add(31, 30, "tini")
    host.add(32, 31, "python3.11")
    assert host.members() == {32: (32,)}


def test_what_is_no_python_or_from_no_shell_is_none() -> None:
    host = Host()
    host.add(30, 20, "gcc")
    host.add(31, 1, "python3")
    host.add(32, 10, "python3")
    host.add(33, 20, "python3-config")
    assert host.members() == {}


def test_the_topmost_match_is_the_job_and_has_all_its_children() -> None:
    host = Host()
    host.add(30, 20, "python3")
    host.add(31, 30, "python3")
    host.add(32, 30, "bash")
    host.add(33, 32, "python3")
    host.add(34, 33, "gcc")
    assert host.members() == {30: (30, 31, 32, 33, 34)}


def test_two_jobs_of_one_shell_are_two() -> None:
    host = Host()
    host.add(30, 20, "python3")
    host.add(31, 20, "python3")
    assert host.members() == {30: (30,), 31: (31,)}


@pytest.mark.parametrize("ignore", ["jupyter", r"bash/python3$"])
def test_what_is_ignored_is_no_job(ignore: str) -> None:
    host = Host(ignore=ignore)
    host.add(30, 20, "python3", ["python3", "-m", "jupyter"])
    assert host.members() == {}


@pytest.mark.parametrize(
    "argv",
    [
        ["python3", "-m", "warpmeter.producers", "7"],
        ["python3", "-m", "warpmeter", "up"],
        ["/venv/bin/python", "/venv/bin/warpmeter", "up"],
        ["python", "-I", "-m", "warpmeter.consumers"],
    ],
)
def test_warpmeters_own_processes_and_their_children_are_no_jobs(argv: list[str]) -> None:
    host = Host()
    host.add(30, 20, "python3", argv)
    host.add(31, 30, "python3", ["python3", "-c", "work()"])
    host.add(32, 31, "python3", environ={"SLURM_JOB_ID": "1"})
    assert host.members() == {}


@pytest.mark.parametrize(
    "argv",
    [
        ["python3", "-m", "warpmeter", "run", "--", "python3", "train.py"],
        ["/venv/bin/python", "/venv/bin/warpmeter", "-c", "x.toml", "run", "-q", "python3", "train.py"],
    ],
)
def test_what_warpmeter_run_starts_is_a_job_as_if_it_were_not_there(argv: list[str]) -> None:
    host = Host()
    host.add(30, 20, "python3", argv)
    host.add(31, 30, "python3", ["python3", "train.py"])
    assert host.members() == {31: (31,)}
    assert host.trees()[31].name == "train.py"
    host.add(40, 1, "slurmstepd")
    host.add(41, 40, "python3", argv, environ={"SLURM_JOB_ID": "9"})
    host.add(42, 41, "python3", ["python3", "train.py"], environ={"SLURM_JOB_ID": "9"})
    assert host.members() == {31: (31,), 41: (41, 42)}


def test_training_on_warpmeters_files_is_a_job() -> None:
    host = Host()
    host.add(30, 20, "python3", ["python3", "train.py", "warpmeter"])
    assert host.members() == {30: (30,)}


def test_a_scheduler_makes_a_job_whatever_the_tree() -> None:
    host = Host()
    host.add(30, 1, "slurmstepd")
    host.add(31, 30, "slurm_script", environ={"SLURM_JOB_ID": "9", "SLURM_JOB_NAME": "sim"})
    host.add(32, 31, "lmp_mpi", environ={"SLURM_JOB_ID": "9", "SLURM_JOB_NAME": "sim"})
    tree = host.trees()[31]
    assert (tree.job_id, tree.scheduler, tree.name, tree.pids) == ("9", "slurm", "sim", (31, 32))


def test_what_warpmeter_run_starts_is_a_job_also_where_no_shell_is_above() -> None:
    host = Host(ignore="serve")
    host.add(30, 1, "warpmeter", ["warpmeter", "run", "--", "python3", "train.py"])
    host.add(31, 30, "python3", ["python3", "train.py"])
    host.add(32, 31, "python3")
    host.add(40, 1, "warpmeter", ["warpmeter", "run", "--", "python3", "serve.py"])
    host.add(41, 40, "python3", ["python3", "serve.py"])
    host.add(50, 1, "warpmeter", ["warpmeter", "run", "--", "bash", "all.sh"])
    host.add(51, 50, "bash", ["bash", "all.sh"])
    host.add(52, 51, "python3", ["python3", "first.py"])
    host.add(53, 51, "python3", ["python3", "second.py"])
    assert host.members() == {31: (31, 32), 52: (52,), 53: (53,)}


def test_a_job_of_warpmeter_run_stays_when_an_agent_starts_after_its_shell_has_ended() -> None:
    host = Host()
    host.add(30, 20, "warpmeter", ["warpmeter", "run", "--", "python3", "train.py"])
    host.add(31, 30, "python3", ["python3", "train.py"])
    before = host.trees()[31].job_id
    later = Host()
    later.add(30, 1, "warpmeter", ["warpmeter", "run", "--", "python3", "train.py"])
    later.add(31, 30, "python3", ["python3", "train.py"])
    assert later.trees()[31].job_id == before


def torchrun(local_rank: int, run: str = "run-1", world: int = 16) -> dict[str, str]:
    """The environment of one rank."""
    return {
        "TORCHELASTIC_RUN_ID": run, "RANK": str(8 + local_rank), "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": "8", "MASTER_ADDR": "gpu00", "MASTER_PORT": "29500",
    }  # fmt: skip


def test_each_rank_is_a_tree_of_one_job() -> None:
    host = Host()
    host.add(30, 20, "torchrun")
    for local in range(2):
        host.add(40 + local, 30, "python3", environ=torchrun(local))
        host.add(50 + local, 40 + local, "python3", environ=torchrun(local))  # a data loader
    trees = host.trees()
    assert {top: (tree.job_id, tree.rank, tree.pids) for top, tree in trees.items()} == {
        40: ("run-1", Rank(8, 16, 0), (40, 50)),
        41: ("run-1", Rank(9, 16, 1), (41, 51)),
    }


def test_a_launcher_that_is_python_belongs_to_the_job_of_its_ranks() -> None:
    host = Host()
    host.add(30, 20, "python3", ["python3", "-m", "torch.distributed.run"])
    host.add(40, 30, "python3", environ=torchrun(0))
    trees = host.trees()
    assert {top: (tree.job_id, tree.pids) for top, tree in trees.items()} == {
        30: ("run-1", (30,)),
        40: ("run-1", (40,)),
    }


def test_ranks_of_one_host_without_a_run_id_share_their_launchers_job() -> None:
    host = Host()
    host.add(30, 20, "torchrun")
    host.add(40, 30, "python3", environ=torchrun(0, "none", world=8))
    host.add(41, 30, "python3", environ=torchrun(1, "none", world=8))
    assert {tree.job_id for tree in host.trees().values()} == {f"gpu01:30:{int(BOOT) + 30}"}


def test_a_slurm_jobs_ranks_are_its_trees() -> None:
    host = Host()
    slurm = {"SLURM_JOB_ID": "9"}
    host.add(30, 1, "slurm_script", environ=slurm)
    host.add(40, 30, "python3", environ=slurm | torchrun(0))
    trees = host.trees()
    assert {tree.job_id for tree in trees.values()} == {"9"}
    assert trees[40].rank == Rank(8, 16, 0)
    assert trees[30].pids == (30,)


def test_a_member_whose_parent_ended_stays_with_its_job() -> None:
    host = Host()
    host.add(30, 20, "python3")
    host.add(31, 30, "bash")
    host.add(32, 31, "python3")
    host.trees()
    host.end(31)
    assert host.members() == {30: (30, 32)}


def test_what_outlives_its_job_is_remains_and_then_stands_for_itself() -> None:
    host = Host()
    host.add(30, 20, "python3")
    host.add(31, 30, "python3")
    host.trees()
    host.end(30)
    assert host.trees(2.0) == {}
    assert host.trees(ORPHAN_S - 3) == {}
    assert list(host.trees(4.0)) == [31]


def test_remains_of_a_rank_start_no_job() -> None:
    host = Host()
    host.add(30, 20, "python3", environ=torchrun(0))
    host.add(31, 30, "python3", environ=torchrun(0))
    host.trees()
    host.end(30)
    assert host.trees() == {}


def test_a_job_whose_shell_ended_goes_on() -> None:
    host = Host()
    host.add(30, 20, "python3")
    host.trees()
    host.end(20)
    assert host.members() == {30: (30,)}


def test_a_process_that_becomes_another_program_is_judged_anew() -> None:
    host = Host()
    host.add(30, 20, "bash")
    assert host.members() == {}
    host.add(30, 20, "python3")
    assert host.members() == {30: (30,)}
    host.add(30, 20, "java")
    assert host.members() == {}


def test_a_younger_process_under_a_parents_old_pid_is_no_parent() -> None:
    host = Host()
    host.add(30, 20, "python3")
    host.add(40, 50, "sleep")
    host.add(50, 30, "python3")  # started after 40
    assert host.members() == {30: (30, 50)}


@pytest.mark.parametrize(
    ("init", "setting", "text", "why"),
    [
        ("systemd", "", DEFAULT, "the default"),
        ("tini", "", ANYWHERE, "the first process is 'tini'"),
        ("tini", "my.*pattern", "my.*pattern", "agent.job_pattern"),
    ],
)
def test_the_pattern_in_force_and_why(tmp_path: Path, init: str, setting: str, text: str, why: str) -> None:
    found = pattern_in_force(Agent(root=FakeProc(tmp_path, init).root, job_pattern=setting))
    assert found.text == text
    assert why in found.why


def test_a_name_is_the_script_or_module() -> None:
    host = Host()
    names = {
        30: (["python3", "/home/ada/train.py", "-v"], "train.py"),
        31: (["python3", "-u", "-m", "my.module"], "my.module"),
        32: (["python3", "-c", "print()"], "python3 -c"),
        33: (["python3"], "python3"),
    }
    for pid, (argv, _) in names.items():
        host.add(pid, 20, "python3", argv)
    assert {pid: tree.name for pid, tree in host.trees().items()} == {pid: name for pid, (_, name) in names.items()}


def test_a_tree_may_be_deeper_than_pythons_stack_and_its_children_come_first() -> None:
    host = Host()
    host.add(30, 20, "python3")
    for pid in range(31, 3031):
        host.processes[pid] = Process(pid, pid - 1, 100 * pid, "sh", "sh", ("sh",), "ada")
    host.processes = dict(reversed(host.processes.items()))
    assert len(host.members()[30]) == 3001


@pytest.mark.parametrize(
    ("owner", "named", "user"),
    [
        ("ada", "boss", "ada"),
        ("root", "ada", "ada"),
        ("1007", "ada", "ada"),
        ("root", "", "root"),
        ("1007", "", "1007"),
    ],
)
def test_the_owner_of_a_process_is_the_user_whatever_a_variable_says(owner: str, named: str, user: str) -> None:
    host = Host()
    variables = {"SLURM_JOB_ID": "7", **({"SLURM_JOB_USER": named} if named else {})}
    host.processes[30] = Process(30, 20, 3000, "python3", "python3", ("python3",), owner, variables)
    assert host.trees()[30].user == user
