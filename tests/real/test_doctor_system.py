"""What doctor says of the sources of the system, on this host and on made-up ones."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.unit.fakesys import FakeSys
from warpmeter.cli.doctor import system
from warpmeter.cli.finding import Finding
from warpmeter.cli.system_checks import examined
from warpmeter.producers.perf import SocketSource
from warpmeter.producers.perf.kernel import Counted, Event
from warpmeter.producers.rdma import RdmaSource
from warpmeter.settings import Agent, Settings

AS_NOBODY: Final = """
import json, os, sys
from dataclasses import asdict
from warpmeter.cli.system_checks import sampled
from warpmeter.settings import Agent
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
print(json.dumps([asdict(sampled(Agent(**settings))) for settings in json.loads(sys.argv[1])]))
"""


def findings(agent: Agent) -> dict[str, Finding]:
    """By check."""
    return {finding.check: finding for finding in system(Settings(agent=agent))}


def test_this_host() -> None:
    found = findings(Agent())
    assert list(found) == ["devices", "rdma", "mounts", "numa", "cpu_counters", "stacks"]
    assert (found["devices"].verdict, found["mounts"].verdict) == ("ok", "ok")
    assert all(finding.seen for finding in found.values())


def test_what_is_switched_off_is_not_examined() -> None:
    assert list(findings(Agent(rdma=False, mounts=False, cpu_counters=False, numa=False, stacks=False))) == ["devices"]


def test_a_counter_at_its_limit_is_a_warning(tmp_path: Path) -> None:
    FakeSys(tmp_path).port("mlx5_0/1", symbol_error=65535)
    found = examined(RdmaSource(Agent(root=tmp_path)))
    assert found.verdict == "warning"
    assert "1 device; mlx5_0/1/symbol_error failed" in found.seen


class Forbidding:
    """A kernel that lets nobody count."""

    def open(self, event: Event, cpu: int, group: int) -> int:
        """See Perf."""
        raise PermissionError(13, f"{event.counter} {cpu} {group}")

    def start(self, descriptor: int) -> None:
        """See Perf."""

    def read(self, descriptor: int, events: int) -> Counted:
        """See Perf."""
        return Counted(descriptor, 0, (0,) * events)

    def close(self, descriptors: object) -> None:
        """See Perf."""


def test_counters_that_may_not_be_read_are_a_warning_with_the_remedy() -> None:
    found = examined(SocketSource(Agent(), Forbidding()))
    assert found.verdict == "warning"
    assert "CAP_PERFMON" in found.seen


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not look at its own processes")
def test_samplers_that_may_not_sample_are_a_warning_with_the_remedy() -> None:
    """As the agent would find for processes of jobs: here it is the Python that runs this test."""
    asked: list[dict[str, Any]] = [{}, {"stacks_perf": "off"}]
    line = [sys.executable, "-c", AS_NOBODY, json.dumps(asked)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    both, alone = json.loads(done.stdout)
    for found in (both, alone):
        assert (found["verdict"], "CAP_SYS_PTRACE" in found["seen"]) == ("warning", True)
        assert "Python processes (pid" in found["seen"]
    assert ("perf" in both["seen"], "; perf" in alone["seen"]) == (True, False)
    if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) > 0:
        assert "CAP_PERFMON" in both["seen"]
