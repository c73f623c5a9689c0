"""A busy host for the benchmark of the agent: NICs, RDMA ports, NUMA nodes, an exporter with many series."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `tests`, when run as a file

from tests.pages import page, serving
from tests.unit.fakesys import FakeSys

FAMILIES: Final = 50
SCAN_PERIOD_S: Final = 2.0
"""That of the agent's own look at processes."""
SCANNED: Final = ("pid", "ppid", "name", "username", "cmdline", "create_time", "cpu_times", "memory_info", "status")


@contextmanager
def nics(count: int) -> Iterator[int]:
    """`count` interfaces, pairs of veth(4) with names as adapters have; yields how many there are (0: not allowed)."""
    made = 0
    try:
        for number in range(0, count, 2):
            line = ["ip", "link", "add", f"wmb{number}", "type", "veth", "peer", "name", f"wmb{number + 1}"]
            if subprocess.run(line, capture_output=True, check=False).returncode != 0:
                break
            made += 2
        yield made
    finally:
        for number in range(0, made, 2):
            subprocess.run(["ip", "link", "del", f"wmb{number}"], check=False)


def root(folder: Path, ports: int, nodes: int) -> Path:
    """This host, but with RDMA ports and NUMA nodes made up: what to give the agent as `root`."""
    made = FakeSys(folder)
    for port in range(ports):
        made.port(f"mlx5_{port}/1", port_rcv_data=1 << 50, port_xmit_data=1 << 50)
    for node in range(nodes):
        made.node(f"node{node}", 1 << 27, 1 << 26, str(node), numa_hit=12345)
    for real in (Path("/"), Path("/sys"), Path("/sys/class"), Path("/sys/devices"), Path("/sys/devices/system")):
        for entry in real.iterdir():
            with suppress(FileExistsError):
                (folder / entry.relative_to("/")).symlink_to(entry)
    return folder


def series(count: int) -> bytes:
    """A page of so many series: half counters, half gauges, each of a family with five labels."""
    lines = []
    for family in range(FAMILIES):
        kind = ("counter", "gauge")[family % 2]
        name = f"bench_requests_{family}{'_total' if kind == 'counter' else ''}"
        lines += [f"# HELP {name} What is counted here.", f"# TYPE {name} {kind}"]
        lines += [
            f'{name}{{model="llama-3",engine="{i}",zone="a",method="POST",code="200"}} {time.monotonic() * (i + 1):.3f}'
            for i in range(count // FAMILIES)
        ]
    return ("\n".join(lines) + "\n").encode()


@contextmanager
def exporter(count: int) -> Iterator[str]:
    """An exporter of `count` series, counters growing; its URL."""
    with serving(page(lambda: series(count), Content_Type="text/plain; version=0.0.4")) as url:
        yield url


def scan() -> None:
    """Look at all processes for ever, as one does with psutil, keeping what it keeps of those it knows."""
    while True:
        for _ in psutil.process_iter(list(SCANNED)):
            pass
        time.sleep(SCAN_PERIOD_S)


@contextmanager
def scanner() -> Iterator[int]:
    """The same in a process of its own; its pid."""
    process = subprocess.Popen([sys.executable, __file__])
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait(10)


if __name__ == "__main__":
    scan()
