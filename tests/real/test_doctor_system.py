"""What doctor says of the sources of the system, on this host and on made-up ones."""

from pathlib import Path

from tests.unit.fakesys import FakeSys
from warpmeter.cli.doctor import Finding, system
from warpmeter.cli.system_checks import examined
from warpmeter.producers.perf import SocketSource
from warpmeter.producers.perf.kernel import Counted, Event
from warpmeter.producers.rdma import RdmaSource
from warpmeter.settings import Agent, Settings


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
