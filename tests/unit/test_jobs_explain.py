"""Why a process is a job, or is none, as `warpmeter doctor --pid` says it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.fakeproc import KERNEL_THREAD, Fake, FakeProc
from warpmeter.producers import files
from warpmeter.producers.jobs.explain import Explanation, Link, explain
from warpmeter.producers.source import SourceError
from warpmeter.settings import Agent


class Host:
    """A shell of Ada's with python below it."""

    def __init__(self, root: Path) -> None:
        self.root, self.proc = root, FakeProc(root)
        self.proc.put(
            Fake(10, 1, "containerd-shim", ["/usr/bin/containerd-shim-runc-v2", "-id", "7"]),
            Fake(20, 10, "bash", ["-bash"], start=2000),
            Fake(30, 20, "python3", ["python3", "train.py"], start=3000, environ={"HOME": "/secret", "RANK": "1"}),
            Fake(31, 30, "gcc", ["gcc", "x.c"], start=3100),
        )

    def explain(self, pid: int, **settings: str) -> Explanation:
        """What is said of a pid."""
        return explain(Agent(host="gpu01", root=self.root, **settings), pid)  # type: ignore[arg-type]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """One."""
    return Host(tmp_path)


def test_a_job_by_the_expression_shows_its_chain_and_the_part_that_matched(host: Host) -> None:
    found = host.explain(30)
    assert [(link.pid, link.comm, link.name) for link in found.chain] == [
        (1, "systemd", "systemd"),
        (10, "containerd-shim", "containerd-shim-runc-v2"),
        (20, "bash", "bash"),
        (30, "python3", "python3"),
    ]
    assert found.tree_id == "systemd/containerd-shim-runc-v2/bash/python3"
    assert found.matched == "systemd/containerd-shim-runc-v2/bash/python3"
    assert (found.job_id, found.top, found.members) == ("gpu01:30:1799000030", 30, 2)
    assert found.why == (
        "a job by the expression, which matches the tree id of pid 30; it is the topmost process of its tree"
    )


def test_only_the_variables_of_jobs_are_shown(host: Host) -> None:
    assert host.explain(30).variables == {"RANK": "1"}


def test_a_child_belongs_to_the_topmost_match(host: Host) -> None:
    found = host.explain(31)
    assert (found.top, found.job_id) == (30, "gpu01:30:1799000030")
    assert "it is below pid 30" in found.why
    assert found.chain[-1] == Link(31, found.chain[-1].user, "gcc", "gcc")


def test_a_schedulers_variable_is_what_decided(host: Host) -> None:
    host.proc.put(Fake(40, 1, "a.out", environ={"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0", "SLURM_PROCID": "3"}))
    found = host.explain(40)
    assert (found.job_id, found.scheduler, found.rank, found.matched) == ("77", "slurm", 3, "")
    assert "SLURM_JOB_ID of pid 40" in found.why


def test_no_job_says_why(host: Host) -> None:
    found = host.explain(20)
    assert (found.job_id, found.top, found.matched) == (None, None, "")
    assert "the expression does not match its tree id, and no variable" in found.why


def test_what_is_ignored_says_so(host: Host) -> None:
    assert host.explain(30, job_ignore="train").why == "job_ignore (train) matches its tree id or command line"


def test_what_warpmeter_run_started_says_so_where_no_shell_is_above(host: Host) -> None:
    host.proc.put(
        Fake(50, 1, "warpmeter", ["warpmeter", "run", "--", "python3", "train.py"], start=4000),
        Fake(51, 50, "python3", ["python3", "train.py"], start=4100),
    )
    found = host.explain(51)
    assert (found.matched, found.job_id) == ("", "gpu01:51:1799000041")
    assert found.why == "a job by `warpmeter run`, which started pid 51; it is the topmost process of its tree"


def test_warpmeters_own_are_never_jobs(host: Host) -> None:
    host.proc.put(Fake(50, 20, "python3", ["python3", "-m", "warpmeter.producers"], start=4000))
    assert "is warpmeter's own" in host.explain(50).why


def test_an_environment_that_may_not_be_read_is_said(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    read: Callable[[str], bytes] = files.read

    def refused(path: str) -> bytes:
        if path.endswith("20/environ"):
            raise PermissionError(13, "Permission denied", path)
        return read(path)

    monkeypatch.setattr(files, "read", refused)
    assert "the environment of pid 20 may not be read" in host.explain(20).why


@pytest.mark.parametrize(
    ("fake", "words"),
    [
        (Fake(60, 2, "kworker/0:1", flags=KERNEL_THREAD), "is a thread of the kernel"),
        (Fake(61, 1, "sh", state="Z"), "has ended"),
        (None, "there is no process 62"),
    ],
)
def test_what_is_no_process_is_named(host: Host, fake: Fake | None, words: str) -> None:
    if fake is not None:
        host.proc.put(fake)
    with pytest.raises(LookupError, match=words):
        host.explain(fake.pid if fake is not None else 62)


def test_a_broken_expression_is_named(host: Host) -> None:
    with pytest.raises(SourceError, match="is no regular expression"):
        host.explain(30, job_pattern="(")
