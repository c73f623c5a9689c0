"""What the sources of the system see is what SQL tells: a host's panels, and what each kind of device does."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tables import ask, land
from tests.unit.fakekernel import MLX5, RATES, FakeKernel, FakePerf, sapphire
from tests.unit.fakesys import mountstats, write
from warpmeter.producers.devices import DeviceSource
from warpmeter.producers.ethtool import Adapters
from warpmeter.producers.mounts import MountSource
from warpmeter.producers.numa import NumaSource
from warpmeter.producers.perf import SocketSource
from warpmeter.producers.rdma import RdmaSource
from warpmeter.producers.source import AnySource, Sample
from warpmeter.schemas.generated.host_samples_pb2 import Envelope
from warpmeter.settings import Agent
from warpmeter.store import Client

HostSample = Envelope.HostSample
SECONDS = 10.0


class World:
    """A host of one NIC, one RDMA port, a disk, an NFS home and two sockets; `later` is ten seconds on."""

    def __init__(self, root: Path) -> None:
        self.sys = sapphire(root)
        self.perf = FakePerf(RATES)
        self.adapters = FakeKernel({"eth0": MLX5})
        (root / "sys/class/net/eth0/device").mkdir(parents=True)
        (root / "my home").mkdir()
        self.sys.mountinfo(("0:50", "/my\\040home", "nfs4", "filer:/home", "rw"))
        self._at(0, {})

    def later(self) -> None:
        """Everything went on."""
        self.perf.seconds += SECONDS
        self.adapters.nics["eth0"] = {name: value + 50 for name, value in MLX5.items()}
        self._at(1, {"port_rcv_data": 125_000_000_000, "np_cnp_sent": 20, "link_downed": 1})

    def _at(self, step: int, port: dict[str, Any]) -> None:
        self.sys.port("mlx5_0/1", **port)
        sectors = 2_000_000 * step
        write(self.sys.proc / "diskstats", f"259 0 nvme0n1 {step} 0 {sectors} 0 0 0 0 0 0 0 0")
        received = 1_000_000_000 * step
        write(self.sys.proc / "net/dev", f"h\nh\n eth0: {received} " + "0 " * 15)
        write(self.sys.proc / "1/net/dev", f"h\nh\n eth0: {received} " + "0 " * 15)
        write(self.sys.proc / "1/mountstats", mountstats(read=500_000_000 * step, reads=10 * step, sent=12 * step))
        self.sys.node("node0", 1 << 20, 1 << 18, "0-3", numa_hit=1000 * step)
        self.sys.stat(dict.fromkeys(range(4), (500 * step, 0, 0, 500 * step, 0, 0, 0, 0)))

    def sources(self) -> list[AnySource]:
        """All that make rows of devices."""
        agent = Agent(host="gpu01", root=self.sys.root)
        return [
            DeviceSource(agent, Adapters(self.adapters)), RdmaSource(agent), MountSource(agent), NumaSource(agent),
            SocketSource(agent, self.perf),
        ]  # fmt: skip


def two_looks(sources: list[AnySource], between: Callable[[], None]) -> list[list[Any]]:
    """Rows of each source, of now."""
    before = [Sample(0.0, 0.0, source.period_s, source.read()) for source in sources]
    between()
    ts = float(int(time.time()))
    after = [Sample(ts, SECONDS, source.period_s, source.read()) for source in sources]
    return [list(source.parse(now, then).rows) for source, then, now in zip(sources, before, after, strict=True)]


@pytest.fixture
def landed(tables: Client, tmp_path: Path) -> Client:
    """The second look of every source, in the tables."""
    world = World(tmp_path)
    land(tables, "host-samples", [HostSample(host="gpu01", ts=float(int(time.time())), period_ms=1000)])
    for rows in two_looks(world.sources(), world.later):
        land(tables, "device-samples", rows)
    return tables


def test_the_panels_of_a_host_come_from_all_of_them(landed: Client) -> None:
    columns = "l2_hit_ratio, l3_hit_ratio, mem_bandwidth_bytes_per_s, network_bytes_per_s, storage_bytes_per_s"
    (found,) = ask(landed, f"SELECT {columns} FROM hosts")
    l2, l3, memory, network, storage = found
    assert (l2, l3) == (0.75, 0.5)
    assert memory == pytest.approx(2 * (12.8e9 + 6.4e9))
    assert network == pytest.approx(50e9 + 0.1e9)  # the port's 400 Gb/s, and the NIC
    assert storage == pytest.approx(102.4e6 + 50e6)  # the disk, and NFS


def test_each_kind_tells_its_own(landed: Client) -> None:
    of = "FROM device_samples WHERE kind ="
    assert ask(landed, f"SELECT device, cnp_sent_per_s, link_downs, link_bits_per_s, link_up {of} 'rdma'") == [
        ("mlx5_0/1", 2.0, 1, 400e9, True)
    ]
    assert ask(landed, f"SELECT device, rx_pauses_per_s, pause_storm_errors {of} 'nic'") == [("eth0", 5.0, 51)]
    assert ask(landed, f"SELECT device, fs_type, fs_source, retransmits_per_s, read_only {of} 'mount'") == [
        ("/my home", "nfs4", "filer:/home", 0.2, False)
    ]
    assert ask(landed, f"SELECT device, cpu_util, numa_hits_per_s, mem_total_bytes {of} 'numa'") == [
        ("node0", 0.5, 100, 1 << 30)
    ]
    assert ask(landed, f"SELECT device, instructions_per_s, memory_stall {of} 'socket' ORDER BY device") == [
        ("socket0", 6e9, 0.25), ("socket1", 6e9, 0.25),
    ]  # fmt: skip
