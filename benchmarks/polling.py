"""What it costs a PyTorch process to be registered: training steps a second with and without the agent's polling.

Three processes train the same small model on one core: one started without the variables, one registered with an
endpoint and polled as ever (each 5 s), and one as `warpmeter run` starts it, polled and its optimizer steps counted.
They take turns, and only one runs at a time (the others are stopped by a signal); the order turns with each round, so
that what drifts hits all. Printed: the median of the rounds' ratios to the first, of steps a second and of CPU time a
step, and the interval that holds the median with 95 % confidence; then the share of the process's CPU time that
its other threads take, of which one polls. On a machine that has other work to do the ratios show that, and the share
is what holds. Counting costs the same a step, however long that is: the model's is short, a third of a millisecond.

`python benchmarks/polling.py` takes four and a half minutes: 15 rounds of three turns of 5.7 s.
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
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `tests`, when run as a file

from benchmarks.agent import cpu_ns, interval
from tests.kineto_host import Host
from tests.torchpython import torch_python
from tests.wait import until
from warpmeter.cli import launching

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
LEFT_OUT = ("KINETO_USE_DAEMON", "KINETO_IPC_SOCKET_DIR", "KINETO_ONDEMAND_TRACE_DIR", "PYTHONPATH")


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
def training(folder: Path, variables: Mapping[str, str]) -> Iterator[Trainer]:
    """One that has begun, stopped."""
    folder.mkdir()
    counted = folder / "steps"
    counted.write_bytes(bytes(8))
    environment = {name: value for name, value in os.environ.items() if name not in LEFT_OUT} | {**variables}
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
    return f"{name:44} {statistics.median(ratios):8.4f} ({low:.4f} to {high:.4f})"


@dataclass(frozen=True)
class Cost:
    """Of each round: steps a second and CPU time a step against those of the process without anything."""

    speeds: list[float]
    costs: list[float]
    others: list[float]

    def take(self, mine: tuple[float, float, float], plain: tuple[float, float, float]) -> None:
        """One round."""
        self.speeds.append(mine[0] / plain[0])
        self.costs.append(mine[1] / plain[1])
        self.others.append(max(0.0, mine[2]))

    def lines(self, name: str) -> Iterator[str]:
        """Rows of the table."""
        yield line(f"{name}: steps a second", self.speeds)
        yield line(f"{name}: CPU time a step", self.costs)
        yield line(f"{name}: share of other threads", self.others)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=15, help="rounds, each of which makes a pair of ratios")
    parser.add_argument("--seconds", type=float, default=5.5, help="of a turn; a process polls each 5 s")
    asked = parser.parse_args()
    found = {"polled": Cost([], [], []), "polled and counted": Cost([], [], [])}
    with tempfile.TemporaryDirectory(prefix="wm") as name, ExitStack() as stack:
        base = Path(name)
        host = stack.enter_context(Host(base).listening())
        trainers = {
            "plain": stack.enter_context(training(base / "plain", {})),
            "polled": stack.enter_context(training(base / "polled", variables(host, base, count_steps=False))),
            "polled and counted": stack.enter_context(training(base / "counted", variables(host, base))),
        }
        assert len(host.registry.clients()) == 2
        step_ms = []
        for number in range(asked.pairs):
            order = deque(trainers)
            order.rotate(number)
            seen = {each: trainers[each].turn(asked.seconds) for each in order}
            step_ms.append(1000 / seen["plain"][0])
            for each, cost in found.items():
                cost.take(seen[each], seen["plain"])
    print(f"{asked.pairs} rounds of {asked.seconds:g} s a turn, against a process without; a step takes "
          f"{statistics.median(step_ms):.2f} ms")  # fmt: skip
    for each, cost in found.items():
        print(*cost.lines(each), sep="\n")


def variables(host: Host, traces: Path, count_steps: bool = True) -> Mapping[str, str]:
    """What `warpmeter run` sets."""
    return launching.setup(host.sockets, traces, {}, count_steps).variables


if __name__ == "__main__":
    main()
