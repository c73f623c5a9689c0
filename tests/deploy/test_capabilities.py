"""What the drop-ins of the agent's unit give is enough for what they are for, and none of it is too much.

Each right is tried as the kernel takes it: a user with exactly those capabilities, against another's process and files.
The whole unit, booted, is in test_packages.py.
"""

import os
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.wait import until

DROP_INS: Final = Path(__file__).parents[2] / "deploy" / "systemd" / "drop-ins"
AGENT: Final = 64_998
OTHER: Final = 64_999


def by(uid: int, given: frozenset[str], *words: str) -> list[str]:
    """A command line as that user, with these capabilities and no others."""
    rights = ",".join(["-all", *(f"+{name.lower()}" for name in sorted(given))])
    kept = [f"--{which}={rights}" for which in ("bounding-set", "inh-caps", "ambient-caps")]
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *kept, *words]


def may(given: frozenset[str], *words: str) -> bool:
    """Whether the agent's user is let do it; fails where another thing than a right lacks."""
    done = subprocess.run(by(AGENT, given, *words), capture_output=True, text=True, timeout=60, check=False)
    assert not done.returncode or re.search("Permission denied|Operation not permitted", done.stderr), done.stderr
    return not done.returncode


def lacking() -> str:
    """Why this machine cannot try it; '' when it can."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return "only root can give and take capabilities, by setpriv (util-linux)"
    tried = subprocess.run(by(AGENT, given_by("agent-captures"), "true"), capture_output=True, text=True, check=False)
    return f"capabilities cannot be given here: {tried.stderr.strip()}" if tried.returncode else ""


def given_by(drop_in: str) -> frozenset[str]:
    """The capabilities of a file of drop-ins/."""
    found = re.search(r"^AmbientCapabilities=(.*)$", (DROP_INS / f"{drop_in}.conf").read_text(), re.MULTILINE)
    assert found is not None
    return frozenset(name.removeprefix("CAP_") for name in found[1].split())


pytestmark = pytest.mark.skipif(bool(why := lacking()), reason=why)


@dataclass(frozen=True)
class Job:
    """Another user's process, and what it keeps for itself."""

    pid: int
    folder: Path

    @property
    def root(self) -> str:
        """Its files, as the agent comes to them."""
        return f"/proc/{self.pid}/root{self.folder}"

    def trace(self, folder: str) -> str:
        """A trace that it has just written, for itself alone: the path by which the agent comes to it."""
        made = self.folder / folder / f"{secrets.token_hex(4)}.json"
        made.write_text("{}")
        made.chmod(0o600)
        os.chown(made, OTHER, OTHER)
        return f"{self.root}/{folder}/{made.name}"


@pytest.fixture
def job() -> Iterator[Job]:
    """A job of OTHER, with a folder as /tmp is (`shared`) and one of its own (`own`)."""
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        folder = Path(made)  # not pytest's, which is for nobody but root
        folder.chmod(0o755)
        for name, mode, owner in (("shared", 0o1777, 0), ("own", 0o755, OTHER)):
            (folder / name).mkdir()
            (folder / name).chmod(mode)
            os.chown(folder / name, owner, owner)
        process = stack.enter_context(subprocess.Popen(by(OTHER, frozenset(), "sleep", "600")))
        stack.callback(process.kill)
        until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n", "the job to run")
        yield Job(process.pid, folder)


def test_the_rights_for_jobs_are_what_environment_and_io_of_others_take(job: Job) -> None:
    asked = ("cat", f"/proc/{job.pid}/environ", f"/proc/{job.pid}/io")
    given = given_by("agent-jobs")
    assert given == {"SYS_PTRACE", "DAC_READ_SEARCH"}
    assert may(given, *asked)
    assert [right for right in sorted(given) if may(given - {right}, *asked)] == []
    assert given_by("agent-kubelet") == given, "root without more than these"
    assert given < given_by("agent-stacks")


def test_the_rights_for_captures_are_what_reading_and_removing_traces_of_others_take(job: Job) -> None:
    given = given_by("agent-captures")
    assert may(given, "cat", job.trace("shared"))
    needless = {right for right in given if may(given - {right}, "cat", job.trace("shared"))}
    assert needless == {"FOWNER"}, "which is for the removal"
    assert may(given, "rm", job.trace("shared"))
    assert not may(given - {"FOWNER"}, "rm", job.trace("shared"))


def test_what_lies_in_a_folder_of_the_user_alone_takes_the_right_that_its_drop_in_names_beside(job: Job) -> None:
    given = given_by("agent-captures")
    assert not may(given, "rm", "-f", job.trace("own"))
    assert may(given | {"DAC_OVERRIDE"}, "rm", "-f", job.trace("own"))
    assert "add CAP_DAC_OVERRIDE" in (DROP_INS / "agent-captures.conf").read_text()
