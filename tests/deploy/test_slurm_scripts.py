"""Prolog, epilog, task prolog and health check of deploy/slurm, below a real Slurm."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests import slurm
from tests.wait import until

ROOT: Final = Path(__file__).parents[2]
SCRIPTS: Final = ROOT / "deploy" / "slurm"
NODE: Final = """
Prolog={folder}/scripts/prolog
Epilog={folder}/scripts/epilog
TaskProlog={folder}/scripts/task-prolog
"""
VARIABLES: Final = ("KINETO_USE_DAEMON", "KINETO_IPC_SOCKET_DIR", "KINETO_ONDEMAND_TRACE_DIR", "PYTHONPATH")
below_slurm = pytest.mark.skipif(bool(slurm.missing()), reason=slurm.missing())


def task_prolog(folder: Path, **environment: str) -> list[str]:
    """What it prints for a task of that environment."""
    given = {
        "PATH": os.environ["PATH"], "WARPMETER_SLURM_SOCKETS": str(folder / "kineto"),
        "WARPMETER_SLURM_HOOK": str(folder / "hook"), **environment,
    }  # fmt: skip
    done = subprocess.run([SCRIPTS / "task-prolog"], env=given, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_a_task_is_given_what_run_gives_a_command(tmp_path: Path) -> None:
    (tmp_path / "kineto").mkdir()
    (tmp_path / "hook").mkdir()
    assert task_prolog(tmp_path, TMPDIR="/scratch", PYTHONPATH="/own") == [
        "export KINETO_USE_DAEMON=1", f"export KINETO_IPC_SOCKET_DIR={tmp_path}/kineto",
        "export KINETO_ONDEMAND_TRACE_DIR=/scratch", f"export PYTHONPATH={tmp_path}/hook:/own",
    ]  # fmt: skip


def test_what_the_job_set_stays(tmp_path: Path) -> None:
    (tmp_path / "kineto").mkdir()
    own = {"KINETO_USE_DAEMON": "2", "KINETO_IPC_SOCKET_DIR": "/own", "KINETO_ONDEMAND_TRACE_DIR": "/disk"}
    assert task_prolog(tmp_path, **own) == [f"export {name}={value}" for name, value in own.items()]


@pytest.mark.parametrize("no", ["0", ""])
def test_a_job_that_wants_none_of_it_is_given_nothing(tmp_path: Path, no: str) -> None:
    (tmp_path / "kineto").mkdir()
    (tmp_path / "hook").mkdir()
    assert task_prolog(tmp_path, KINETO_USE_DAEMON=no) == ["unset KINETO_USE_DAEMON"]


def test_the_hook_is_there_once(tmp_path: Path) -> None:
    for name in ("kineto", "hook"):
        (tmp_path / name).mkdir()
    assert not [line for line in task_prolog(tmp_path, PYTHONPATH=f"/own:{tmp_path}/hook") if "PYTHONPATH" in line]


def test_where_no_agent_ever_was_nothing_is_set(tmp_path: Path) -> None:
    assert task_prolog(tmp_path) == []


def test_shellcheck_finds_nothing() -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("no shellcheck: apt-get install shellcheck")
    scripts = [path for folder in ("deploy", "tests/deploy") for path in (ROOT / folder).rglob("*") if is_script(path)]
    assert len(scripts) >= 8
    done = subprocess.run(["shellcheck", "-x", *scripts], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def is_script(path: Path) -> bool:
    if not path.is_file() or path.suffix == ".py":
        return False
    first = path.read_bytes()[:40].splitlines()[:1]
    return bool(first) and (first[0] in (b"#!/bin/bash", b"#!/bin/sh") or b"shellcheck shell" in first[0])


@contextmanager
def node(folder: Path) -> Iterator[None]:
    """An agent's socket in `folder`, without the agent."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(folder / "dynolog"))
        yield
    (folder / "dynolog").unlink()


@pytest.fixture(scope="module")
def cluster() -> Iterator[slurm.Slurm]:
    """One node with the scripts; its `logger` writes into the file `said`, its agent's folder is `kineto`."""
    with slurm.slurm(NODE) as running:
        yield running


@pytest.fixture
def scripts(cluster: slurm.Slurm) -> Iterator[Path]:
    """The scripts as they are, in the cluster's folder."""
    folder = cluster.folder / "scripts"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(SCRIPTS, folder)
    for name in ("kineto", "hook", "bin"):
        (cluster.folder / name).mkdir(exist_ok=True)
    logger = cluster.folder / "bin" / "logger"
    logger.write_text(f'#!/bin/sh\nshift 5\necho "$*" >> {cluster.folder}/said\n')
    logger.chmod(0o755)
    put(
        folder / "task-prolog",
        f"WARPMETER_SLURM_SOCKETS={cluster.folder}/kineto WARPMETER_SLURM_HOOK={cluster.folder}/hook",
    )
    put(
        folder / "lib.sh",
        f"export PATH={cluster.folder}/bin:/usr/bin:/bin WARPMETER_SOCKET={cluster.folder}/kineto/dynolog",
    )
    yield folder
    shutil.rmtree(folder)


def put(script: Path, assignments: str) -> None:
    """Before all else that it does; Slurm runs prologs with an environment of its own."""
    first, rest = script.read_text().split("\n", 1)
    script.write_text(f"{first}\n{assignments}\n{rest}")


def done(cluster: slurm.Slurm, script: str, *options: str) -> int:
    """A job from its start to the end of its epilog; the node must be as before."""
    job = cluster.submit(script, *options)
    until(lambda: cluster.state(job) in ("COMPLETED", "FAILED", "CANCELLED"), f"job {job}")
    assert cluster.state(job) == "COMPLETED"
    until(lambda: "idle" in cluster.run("sinfo", "--noheader", "--format=%t"), f"the node to be idle after job {job}")
    return job


@pytest.mark.long
@below_slurm
@pytest.mark.usefixtures("scripts")
def test_tasks_have_the_variables_and_who_stays_behind_is_told(cluster: slurm.Slurm) -> None:
    with node(cluster.folder / "kineto"):
        job = done(
            cluster,
            "srun --ntasks=2 sh -c 'env > env-$SLURM_PROCID'\n"
            f"setsid sleep 120 > /dev/null 2>&1 & echo $! > {cluster.folder}/left",
            "--ntasks=2",
        )
    for rank in range(2):
        seen = dict(
            line.split("=", 1) for line in (cluster.folder / f"env-{rank}").read_text().splitlines() if "=" in line
        )
        assert {name: seen[name] for name in VARIABLES} == {
            "KINETO_USE_DAEMON": "1", "KINETO_IPC_SOCKET_DIR": f"{cluster.folder}/kineto",
            "KINETO_ONDEMAND_TRACE_DIR": "/tmp", "PYTHONPATH": f"{cluster.folder}/hook",
        }  # fmt: skip
    said = cluster.folder / "said"
    until(said.exists, "the epilog to tell")
    left = (cluster.folder / "left").read_text().strip()
    try:
        assert said.read_text() == f"job {job} left 1 processes: {left} (sleep)\n"
    finally:
        subprocess.run(["kill", left], check=False)
        said.unlink()


@pytest.mark.long
@below_slurm
def test_no_prolog_however_broken_fails_a_job_or_drains_its_node(cluster: slurm.Slurm, scripts: Path) -> None:
    job = done(cluster, "true")
    said = cluster.folder / "said"
    assert said.read_text().startswith(f"job {job}: no agent listens at {cluster.folder}/kineto/dynolog")
    said.unlink()
    for broken in ("exit 3", "no_such_command; false", "set -e; false", "if then"):
        (scripts / "lib.sh").write_text(f"{broken}\n")
        put(scripts / "task-prolog", "trap 'exit 0' EXIT\n" + ("false" if broken == "if then" else broken))
        done(cluster, "srun true")
    (scripts / "lib.sh").unlink()
    done(cluster, "srun true")


@pytest.mark.long
@below_slurm
def test_the_health_check_hints_in_the_nodes_comment_and_leaves_others_alone(
    cluster: slurm.Slurm, scripts: Path
) -> None:
    def comment() -> str:
        _, found, rest = cluster.run("scontrol", "show", "node", cluster.node).partition("Comment=")
        return rest.splitlines()[0].strip() if found else ""

    def check() -> None:
        environment = {**cluster.environ, "SLURMD_NODENAME": cluster.node}
        subprocess.run([scripts / "health"], env=environment, timeout=120, check=True)

    check()
    assert comment() == "warpmeter: no agent"
    with node(cluster.folder / "kineto"):
        check()
        assert comment() == ""
        cluster.run("scontrol", "update", f"NodeName={cluster.node}", "Comment=fan 3 is loud")
        check()
    check()
    assert comment() == "fan 3 is loud"
    assert "idle" in cluster.run("sinfo", "--noheader", "--format=%t")
