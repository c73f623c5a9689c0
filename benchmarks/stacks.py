"""What sampled stacks cost: a busy loop's steps with and without a turn of sampling, and the samplers' own CPU time.

A Python program counts its steps, a fifth of a millisecond each. It is sampled by the agent's own source as ever (19
times a second), and left alone, in turn; the order turns with each pair, so that what drifts hits both. Printed: the
median of the pairs' ratios, of steps a second and of CPU time a step, with the interval that holds it with 95 %
confidence; what that makes of the default duty cycle, which samples 10 s of each 60; and the CPU time of the samplers
and of the source in a turn of 10 s, for one process, for eight, and for the whole host with perf, as a share of a core.
On a machine that has other work to do steps a second mostly show that, and CPU time a step is what holds.

`python benchmarks/stacks.py` takes five minutes: 15 pairs of two times 7 s, and three turns.
"""

import argparse
import mmap
import os
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `tests`, when run as a file

from benchmarks.agent import interval
from tests.python import PYTHON
from tests.real.stack_turns import Turns, tree
from tests.wait import until

STEPS = """
import mmap, struct, sys
file = open(sys.argv[1], "r+b")
shared = mmap.mmap(file.fileno(), 8)
def forward(batch):
    return [weigh(value) for value in batch]
def weigh(value):
    return value * 3 + 1
def backward(batch):
    total = 0
    for value in batch:
        total += value * value
    return total
steps, batch = 0, list(range(1000))
while True:
    backward(forward(batch))
    steps += 1
    shared[:8] = struct.pack("=Q", steps)
"""
DUTY = 10 / 60
WARM_S = 1.0
"""What a sampler takes to begin is in the turn that it is counted in."""


@dataclass(frozen=True)
class Loop:
    """The program."""

    process: "subprocess.Popen[bytes]"
    shared: mmap.mmap

    @property
    def steps(self) -> int:
        """So far."""
        found: int = struct.unpack("=Q", self.shared[:8])[0]
        return found

    def for_so_long(self, seconds: float) -> tuple[float, float]:
        """Steps a second, and CPU nanoseconds a step."""
        steps, cpu, began = self.steps, self._cpu_ns(), time.monotonic()
        time.sleep(seconds)
        done, used, took = self.steps - steps, self._cpu_ns() - cpu, time.monotonic() - began
        return done / took, used / done

    def _cpu_ns(self) -> int:
        return int(Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0])


@contextmanager
def looping(folder: Path, number: int = 1) -> Iterator[list[Loop]]:
    """So many of them, at work."""
    loops = []
    try:
        for each in range(number):
            counted = folder / f"steps{each}"
            counted.write_bytes(bytes(8))
            process = subprocess.Popen([PYTHON, "-c", STEPS, str(counted)])
            with counted.open("r+b") as file:
                loops.append(Loop(process, mmap.mmap(file.fileno(), 8)))
        until(lambda: all(loop.steps > 100 for loop in loops), "the programs to work", 120)
        yield loops
    finally:
        for loop in loops:
            loop.process.kill()
            loop.process.wait()


def sampled(loop: Loop, seconds: float, **settings: Any) -> tuple[float, float]:
    """While it is sampled."""
    turns = Turns([tree(loop.process.pid)], stacks_sampling_s=seconds + 2 * WARM_S, stacks_rate_hz=19, **settings)
    turns.begin()
    time.sleep(WARM_S)
    found = loop.for_so_long(seconds)
    assert turns.samplers()
    turns.finish()
    assert turns.rows
    return found


def alone(loop: Loop, seconds: float) -> tuple[float, float]:
    """While it is not."""
    time.sleep(WARM_S)
    return loop.for_so_long(seconds)


def turn_s(pids: Sequence[int], **settings: Any) -> float:
    """CPU seconds of a turn of 10 s: of the samplers, and of the source that begins them and reads what they found."""
    turns = Turns([tree(pid, f"job{pid}") for pid in pids], stacks_sampling_s=10.0, stacks_rate_hz=19, **settings)
    before = _cpu_s()
    turns.begin()
    while turns.at_work():
        time.sleep(1.0)
    return _cpu_s() - before


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def line(name: str, ratios: list[float]) -> str:
    """One row of the table."""
    low, high = interval(ratios)
    median = statistics.median(ratios)
    return f"{name:44} {median:8.4f} ({low:.4f} to {high:.4f}), {100 * DUTY * (1 - median):+.3f} % at the default duty"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=6.0, help="of each of a pair")
    parser.add_argument("--blocking", action="store_true", help="pause the process at each sample")
    asked = parser.parse_args()
    settings = {"stacks_blocking": asked.blocking}
    speeds, costs = [], []
    with tempfile.TemporaryDirectory(prefix="wm") as name:
        with looping(Path(name)) as (loop,):
            for number in range(asked.pairs):
                if number % 2:
                    plain, with_it = alone(loop, asked.seconds), sampled(loop, asked.seconds, **settings)
                else:
                    with_it, plain = sampled(loop, asked.seconds, **settings), alone(loop, asked.seconds)
                speeds.append(with_it[0] / plain[0])
                costs.append(plain[1] / with_it[1])
        print(f"{asked.pairs} pairs of {asked.seconds:g} s, sampled 19 times a second against left alone")
        print(line("steps a second", speeds), line("steps a second of CPU time", costs), sep="\n")
        with looping(Path(name), 8) as loops:
            pids = [loop.process.pid for loop in loops]
            for what, cpu_s in (
                ("one process", turn_s(pids[:1], **settings)),
                ("eight processes", turn_s(pids, **settings)),
                ("perf on the whole host", turn_s([], stacks_perf="on")),
            ):
                print(f"{what:44} {cpu_s:8.2f} s of CPU time in a turn, {100 * cpu_s / 60:.2f} % of a core")
    print(f"on a machine with {os.cpu_count()} CPUs and a load of {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
