"""A file system that really hangs: FUSE whose server never answers. It needs root and /dev/fuse."""

import ctypes
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.real import agents
from tests.signals import tell
from tests.wait import until
from warpmeter.producers.mounts import MountSource
from warpmeter.producers.source import Health, Reading, Sample
from warpmeter.settings import Agent, Kafka

FUSE = Path("/dev/fuse")
DETACH = 2
TS = 1_800_000_000.0

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not os.access(FUSE, os.R_OK | os.W_OK), reason="needs root and /dev/fuse"
)


@dataclass
class Hung:
    """The mount. `server`: the descriptor that nobody reads."""

    point: Path
    server: int

    def die(self) -> None:
        """The server is gone: whoever waits gets an error."""
        if self.server >= 0:
            os.close(self.server)
        self.server = -1


@pytest.fixture
def hung(tmp_path: Path) -> Iterator[Hung]:
    libc = ctypes.CDLL(None, use_errno=True)
    point = tmp_path / "a home"
    point.mkdir()
    server = os.open(FUSE, os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"filer:/home", str(point).encode(), b"fuse", 0, options) != 0:
        os.close(server)
        pytest.skip(f"mount(2): {os.strerror(ctypes.get_errno())}")
    made = Hung(point, server)
    yield made
    made.die()
    libc.umount2(str(point).encode(), DETACH)


def look(source: MountSource) -> Reading:
    """One tick."""
    return source.parse(Sample(TS, 1.0, 10.0, source.read()), None)


def told(reading: Reading, mount: Hung) -> list[Health]:
    """What is said of this mount; others of this machine may be ill, too."""
    return [health for health in reading.health if health.subject == str(mount.point)]


def test_the_other_file_systems_are_measured_meanwhile_and_it_comes_back(hung: Hung) -> None:
    source = MountSource(Agent(host="h"))
    for _ in range(2):
        reading = look(source)
        rows: dict[str, Any] = {row.device: row for row in reading.rows}  # type: ignore[attr-defined]
        assert rows["/"].fs_total_mebibytes > 0
        assert str(hung.point) not in rows
        (health,) = told(reading, hung)
        assert (health.state, "filer:/home did not answer" in health.why) == ("timeout", True)
    hung.die()
    failed = "the error of a server that died"
    until(lambda: [health.state for health in told(look(source), hung)] == ["failed"], failed)
    source.close()


def test_an_agent_with_a_hung_file_system_is_on_time(hung: Hung, tmp_path: Path) -> None:
    asked = agents.settings(tmp_path, Kafka("127.0.0.1:1"), mount_interval_s=0.5)
    log = tmp_path / "log"
    with agents.running(asked, "--dry-run", "--json", log=log) as process:
        until(lambda: '"timeout"' in log.read_text() and log.read_text().count('"host-samples"') >= 20, "rows", 120)
        tell(process)
        assert process.wait(60) == 0
    rows = agents.json_rows(log.read_text())
    ill = [row["subject"] for row in rows["source-health"] if row["source"] == "mounts" and row["state"] == "timeout"]
    assert str(hung.point) in ill
    assert any(row["device"] == "/" for row in rows["device-samples"])
    assert not [row for row in rows["source-health"] if row["source"] == "host" and row["state"] != "ok"]
