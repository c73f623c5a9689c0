"""`warpmeter doctor --pid` on this machine's own processes, and as another user than theirs."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from tests.python import PYTHON
from tests.real.up import warpmeter
from tests.wait import until

SECRET = "do-not-tell-4711"
AS_NOBODY = """
import os, sys
from pathlib import Path
import rich._emoji_codes  # as late as it is printed, nobody may read what lies in root's home
from warpmeter.cli import explaining
from warpmeter.settings import Agent
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
sys.exit(explaining.run(Agent(), Path("/nowhere"), int(sys.argv[1]), sys.argv[2] == "json"))
"""


@pytest.fixture
def python() -> Iterator[int]:
    """Pid of a python below a shell, with a rank and a secret in its environment."""
    environ = {**os.environ, "SLURM_JOB_ID": "77", "SLURM_PROCID": "3", "SLURM_STEP_ID": "0", "API_KEY": SECRET}
    line = f'"{PYTHON}" -c "import time; time.sleep(600)" & wait'
    shell = subprocess.Popen(["bash", "-c", line], process_group=0, env=environ)
    try:
        until(lambda: psutil.Process(shell.pid).children(), "the child")
        (child,) = psutil.Process(shell.pid).children()
        until(lambda: child.cmdline()[:1] == [PYTHON], "the child's program: it is a copy of the shell until then")
        yield child.pid
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()


def test_a_job_of_this_host(python: int) -> None:
    done = subprocess.run(warpmeter("doctor", "--pid", str(python), "--json"), capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["chain"][0]["pid"], told["chain"][-1]["pid"]) == (1, python)
    assert (told["job_id"], told["scheduler"], told["rank"]) == ("77", "slurm", 3)
    assert SECRET not in done.stdout.decode()


def test_for_people(python: int) -> None:
    done = subprocess.run(warpmeter("doctor", "--pid", str(python)), capture_output=True, timeout=120, text=True)
    assert "SLURM_PROCID" in done.stdout
    assert "process tree id" in done.stdout
    assert SECRET not in done.stdout


def test_no_process_and_no_job_are_status_1() -> None:
    done = subprocess.run(warpmeter("doctor", "--pid", "999999999"), capture_output=True, timeout=120, text=True)
    assert (done.returncode, "there is no process 999999999" in done.stderr) == (1, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_users_process_says_what_may_not_be_read(python: int) -> None:
    line = [sys.executable, "-c", AS_NOBODY, str(python)]
    done = subprocess.run([*line, "json"], capture_output=True, timeout=120, text=True)
    told = json.loads(done.stdout)
    assert set(told["unreadable"]) >= {"environ", "exe"}
    assert told["variables"] == {}
    assert (told["scheduler"], told["job_id"].rpartition(":")[0].endswith(f":{python}")) == ("none", True)
    shown = subprocess.run([*line, "table"], capture_output=True, timeout=120, text=True)
    assert "its environment may not be read; run it as root" in shown.stdout
    assert f"/proc/{python}/environ" in shown.stdout
