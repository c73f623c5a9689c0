"""CPU of each source of the system: one tick, its read and its rows, on a made-up host with 16 NICs of 3,000 counters
each, 8 RDMA ports, 8 NUMA nodes, 128 CPUs, 40 file systems, and four groups of CPU counters.

Files come from a folder in memory, ioctl and counters from stand-ins, so what drivers and firmware take is not in it;
the file systems are real calls of statvfs(2). Printed: the median of the ticks' CPU time, of all threads of this
process, and the share of one core at the source's own period.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `tests`, when run as a file

from tests.unit.fakekernel import GENUINE_SAPPHIRE, MLX5, RATES, FakeKernel, FakePerf
from tests.unit.fakesys import FakeSys, write
from warpmeter.producers.devices import DeviceSource
from warpmeter.producers.ethtool import Adapters
from warpmeter.producers.host import HostSource
from warpmeter.producers.mounts import MountSource
from warpmeter.producers.numa import NumaSource
from warpmeter.producers.perf import SocketSource
from warpmeter.producers.rdma import RdmaSource
from warpmeter.producers.source import AnySource, Sample
from warpmeter.settings import Agent

NICS, PORTS, NODES, CPUS, MOUNTS, QUEUE_COUNTERS = 16, 8, 8, 128, 40, 3000
SHARED_MEMORY: Final = Path("/dev/shm")


def host(root: Path) -> FakeSys:
    """The made-up host."""
    sys = FakeSys(root)
    ticks = (100_000, 0, 50_000, 1_000_000, 10, 0, 100, 0)
    sys.stat(dict.fromkeys(range(CPUS), ticks))
    for node in range(NODES):
        begin = node * CPUS // NODES
        sys.node(f"node{node}", 1 << 27, 1 << 26, f"{begin}-{begin + CPUS // NODES - 1}", numa_hit=12345)
    for port in range(PORTS):
        sys.port(f"mlx5_{port}/1", port_rcv_data=1 << 50, port_xmit_data=1 << 50)
    write(sys.proc / "net/dev", "h\nh\n" + "".join(f" eth{nic}: " + "123456789 " * 16 + "\n" for nic in range(NICS)))
    write(sys.proc / "diskstats", "".join(f"259 {disk} nvme{disk}n1 " + "1234567 " * 17 + "\n" for disk in range(8)))
    for nic in range(NICS):
        folder = sys.sys / f"class/net/eth{nic}"
        (folder / "device").mkdir(parents=True)
        for name, value in (("speed", 400_000), ("operstate", "up"), ("carrier_changes", 3), ("ifindex", nic)):
            write(folder / name, value)
    points = [("/" if number == 0 else f"/data{number}") for number in range(MOUNTS)]
    sys.mountinfo(*((f"8:{number}", point, "ext4", "/dev/sda", "rw") for number, point in enumerate(points)))
    for point in points:
        (root / point.lstrip("/")).mkdir(exist_ok=True)
    for name in (
        "meminfo",
        "loadavg",
        "vmstat",
        "uptime",
        "net/snmp",
        "pressure/cpu",
        "pressure/memory",
        "pressure/io",
    ):
        write(sys.proc / name, (Path("/proc") / name).read_text() if (Path("/proc") / name).exists() else "")
    write(sys.proc / "sys/fs/file-nr", "1 0 2")
    write(sys.proc / "cpuinfo", GENUINE_SAPPHIRE)
    write(sys.sys / "devices/system/cpu/online", f"0-{CPUS - 1}")
    for cpu in range(CPUS):
        write(sys.sys / f"devices/system/cpu/cpu{cpu}/topology/physical_package_id", cpu * 2 // CPUS)
    return sys


def sources(root: Path) -> Iterator[AnySource]:
    """Those of the system, with what cannot be had here replaced."""
    agent = Agent(host="h", root=root)
    nic = {f"rx{number}_packets": number for number in range(QUEUE_COUNTERS)} | MLX5
    yield HostSource(agent)
    yield DeviceSource(agent, Adapters(FakeKernel({f"eth{number}": nic for number in range(NICS)})))
    yield RdmaSource(agent)
    yield MountSource(agent)
    yield NumaSource(agent)
    yield SocketSource(agent, FakePerf(RATES))


def tick_ms(source: AnySource, ticks: int) -> float:
    """Median CPU of a tick."""
    before: Sample[object] | None = None
    took = []
    for tick in range(ticks + 1):
        began = time.process_time()
        sample = Sample(float(tick), 1.0 + tick * source.period_s, source.period_s, source.read())
        for row in source.parse(sample, before).rows:
            row.SerializeToString()
        took.append((time.process_time() - began) * 1000)
        before = sample
    return statistics.median(took[1:])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ticks", type=int, default=50)
    ticks = parser.parse_args().ticks
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None) as folder:
        host(Path(folder))
        print(f"| source | CPU of a tick, ms | period, s | of one core ({os.cpu_count()} CPUs here) |")
        print("|---|---|---|---|")
        total = 0.0
        for source in sources(Path(folder)):
            cost = tick_ms(source, ticks)
            share = cost / 1000 / source.period_s
            total += share
            print(f"| {source.name} | {cost:.2f} | {source.period_s:g} | {share:.2%} |")
        print(f"| all | | | {total:.2%} |")


if __name__ == "__main__":
    main()
