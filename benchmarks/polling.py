"""What it costs a PyTorch process to be registered: training steps a second with and without the agent's polling.

Two processes train the same small model on one core, one registered with an endpoint and polled as ever (each 5 s), one
started without the variables. They take turns, and only one runs at a time (the other is stopped by a signal): which is
first changes with each pair, so that what drifts hits both. Printed: the median of the pairs' ratios, with and without,
of steps a second and of CPU time a step, and the interval that holds the median with 95 % confidence; then the share of
the registered process's CPU time that its other threads take, of which one polls. On a machine that has other work
to do the ratios show that, and the share is what holds.
"""

import argparse
import mmap
import os
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `tests`, when run as a file

from benchmarks.agent import cpu_ns, interval
from tests.kineto_host import Host
from tests.torchpython import torch_python
from tests.wait import until

TRAIN = """
import mmap, struct, sys, torch
torch.set_num_threads(1)
file = open(sys.argv[1], "r+b")
shared = mmap.mmap(file.fileno(), 8)
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
steps = 0
while True:
    loss = model(torch.randn(64, 256)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    steps += 1
    shared[:8] = struct.pack("=Q", steps)
"""
NAMES = ("KINETO_USE_DAEMON", "KINETO_IPC_SOCKET_DIR", "KINETO_ONDEMAND_TRACE_DIR")


@dataclass(frozen=True)
class Trainer:
    """A process that trains, stopped but for its turns."""

    process: "subprocess.Popen[bytes]"
    shared: mmap.mmap

    def turn(self, seconds: float) -> tuple[float, float, float]:
        """Let it run for so long; steps a second, CPU nanoseconds a step, and which share the main thread had not."""
        pid = self.process.pid
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.2)  # what waking up costs is neither's
        cpu, main, steps, began = cpu_ns(pid).total(), self._main_ns(), self.steps, time.monotonic()
        time.sleep(seconds)
        done, took, used = self.steps - steps, time.monotonic() - began, cpu_ns(pid).total() - cpu
        own = self._main_ns() - main
        os.kill(pid, signal.SIGSTOP)
        return done / took, used / done, 1 - own / used

    def _main_ns(self) -> int:
        pid = self.process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0])

    @property
    def steps(self) -> int:
        """So far."""
        found: int = struct.unpack("=Q", self.shared[:8])[0]
        return found


@contextmanager
def training(folder: Path, variables: dict[str, str]) -> Iterator[Trainer]:
    """One that has begun, stopped."""
    folder.mkdir()
    counted = folder / "steps"
    counted.write_bytes(bytes(8))
    environment = {name: value for name, value in os.environ.items() if name not in NAMES} | variables
    process = subprocess.Popen([torch_python(), "-c", TRAIN, str(counted)], env=environment)
    try:
        with counted.open("r+b") as file:
            trainer = Trainer(process, mmap.mmap(file.fileno(), 8))
        until(lambda: trainer.steps > 100, "a hundred steps", 120)
        os.kill(process.pid, signal.SIGSTOP)
        yield trainer
    finally:
        process.kill()
        process.wait()


def line(name: str, ratios: list[float]) -> str:
    """One row of the table."""
    low, high = interval(ratios)
    return f"{name:24} {statistics.median(ratios):8.4f} ({low:.4f} to {high:.4f})"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=5.5, help="of a turn; a process polls each 5 s")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wm") as name, ExitStack() as stack:
        base = Path(name)
        host = stack.enter_context(Host(base).listening())
        polled = dict(zip(NAMES, ("1", str(host.sockets), str(base)), strict=True))
        with_it = stack.enter_context(training(base / "with", polled))
        without = stack.enter_context(training(base / "without", {}))
        assert len(host.registry.clients()) == 1
        speeds, costs, shares = [], [], []
        for number in range(asked.pairs):
            order = (with_it, without) if number % 2 else (without, with_it)
            found = {id(each): each.turn(asked.seconds) for each in order}
            speeds.append(found[id(with_it)][0] / found[id(without)][0])
            costs.append(found[id(with_it)][1] / found[id(without)][1])
            shares.append(max(0.0, found[id(with_it)][2]))
    print(f"{asked.pairs} pairs of {asked.seconds:g} s, with / without polling")
    print(line("steps a second", speeds))
    print(line("CPU time a step", costs))
    print(line("share of other threads", shares))


if __name__ == "__main__":
    main()
