"""Trace analysis: the whole default command on generated traces, beside HolisticTraceAnalysis on the same file.

Each run is `warpmeter analyze --json` as a process of its own: wall seconds, CPU seconds, and the most memory that it
and its own processes held together. What it says is held to what was written. HolisticTraceAnalysis gets an environment
of its own under the user's cache folder, and does less: breakdown, overlap, kernels, idle time, launches, queue. Held
against each other is the work, file to figures, without the start of interpreters and libraries; that is shown, too.

Exit status 1 when a limit is missed: the long trace in 12 s and 4 GiB, a tenth of HolisticTraceAnalysis' time and half
of its memory, 64 ranks in 4 GiB, and time that grows no more than linearly (by CPU seconds, a quarter more allowed).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from threading import Event, Thread
from typing import Any, Final

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `benchmarks`, when run as a file

from benchmarks.fleet import print_table
from benchmarks.traces import Known, write
from tests.brokers.maven import cache_folder

SECONDS: Final = 12.0
MEMORY: Final = 4 << 30
TIMES_FASTER: Final = 10
HTA: Final = "HolisticTraceAnalysis==0.5.0"
COMMAND: Final = (sys.executable, "-m", "warpmeter", "analyze", "--json")
OURS: Final = """
import sys, time
import msgspec
from warpmeter.analysis.capture import capture
began = time.perf_counter()
document = msgspec.json.encode(capture(sys.argv[1:]))
print(msgspec.json.encode({"took_s": time.perf_counter() - began}).decode())
"""
"""What the command does, with its own time: HolisticTraceAnalysis is a library, so work is held against work."""
TURNS: Final = 3
SMALL_EVENTS: Final = 230_000
"""Events of 60 MB."""


@dataclass(frozen=True)
class Spent:
    """What a command took."""

    wall_s: float
    cpu_s: float
    peak_bytes: int

    def cells(self) -> list[str]:
        """For a table."""
        return [f"{self.wall_s:.1f}", f"{self.cpu_s:.1f}", f"{self.peak_bytes / 2**20:,.0f}"]


class Peak(Thread):
    """The most memory that a process and its descendants hold together, looked at all the time."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._process, self._done, self.bytes = psutil.Process(pid), Event(), 0
        self.start()

    def run(self) -> None:
        """Looks until it is told to stop."""
        while not self._done.wait(0.02):
            self.bytes = max(self.bytes, sum(map(_resident, self._processes())))

    def _processes(self) -> list[psutil.Process]:
        try:
            return [self._process, *self._process.children(recursive=True)]
        except psutil.Error:
            return []

    def stop(self) -> int:
        """The peak."""
        self._done.set()
        self.join()
        return self.bytes


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def spend(command: Sequence[str], said: Path) -> Spent:
    """Runs a command, what it says to a file. SystemExit when it fails."""
    with said.open("wb") as out:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        peak = Peak(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        wall, process.returncode = time.perf_counter() - began, os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return Spent(wall, usage.ru_utime + usage.ru_stime, peak.stop())


def analyzed(path: Path, known: Known) -> tuple[Spent, dict[str, Any]]:
    """Our command on one trace, and its report, held to what was written."""
    said = path.with_suffix(".said")
    spent = spend([*COMMAND, str(path)], said)
    rank: dict[str, Any] = json.loads(said.read_bytes())["ranks"][0]
    found = {kernel["name"]: [kernel["count"], kernel["total_ns"]] for kernel in rank["kernels"]}
    if rank["events"] != known.events or found != known.kernels:
        raise SystemExit(f"{path}: the report is not what was written")
    return spent, rank


def linear(what: str, sizes: Sequence[int], spent: Sequence[Spent]) -> bool:
    """Whether each size took at most a quarter more CPU than in proportion to the one before."""
    rows = [[f"{size:,}", *one.cells()] for size, one in zip(sizes, spent, strict=True)]
    print_table(f"Growth by {what}", [what, "wall s", "CPU s", "peak MiB"], rows)
    each = [one.cpu_s / size for size, one in zip(sizes, spent, strict=True)]
    return all(later <= 1.25 * earlier for earlier, later in pairwise(each))


def by_events(folder: Path, events: int, steps: int) -> tuple[bool, Spent]:
    """Four sizes up to the longest, whose own cost is given."""
    sizes = [events // 8, events // 4, events // 2, events]
    spent = [_once(folder, size, steps) for size in sizes]
    return linear("events", sizes, spent), spent[-1]


def by_steps(folder: Path, events: int) -> bool:
    """Four numbers of steps in as many events."""
    sizes = [60, 240, 960, 3_840]
    spent = [_once(folder, events, size) for size in sizes]
    rows = [[f"{size:,}", *one.cells()] for size, one in zip(sizes, spent, strict=True)]
    print_table(f"Growth by steps, {events:,} events", ["steps", "wall s", "CPU s", "peak MiB"], rows)
    return spent[-1].cpu_s <= 2 * spent[0].cpu_s


def _once(folder: Path, events: int, steps: int) -> Spent:
    path = folder / "trace.json"
    known = write(path, events, steps)
    spent, _ = analyzed(path, known)
    path.unlink()
    return spent


def hta_python() -> str:
    """The interpreter of an environment with HolisticTraceAnalysis, made when it is not there yet."""
    folder = cache_folder() / HTA.replace("==", "-")
    if not (folder / "ready").exists():
        print(f"Setting up {folder} (once)…", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        install = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", HTA, "numpy<2.3"]
        subprocess.run(install, check=True)
        (folder / "ready").touch()
    return str(folder / "bin" / "python")


def beside_hta(folder: Path, steps: int) -> bool:
    """Both on 60 MB, in turns: time, memory, and whether they say the same."""
    path, said = folder / "trace.json", folder / "turn.said"
    known = write(path, SMALL_EVENTS, steps)
    commands = {
        "warpmeter analyze": [sys.executable, "-c", OURS, str(path)],
        "HolisticTraceAnalysis": [hta_python(), str(Path(__file__).with_name("hta_figures.py")), str(path)],
    }
    spent: dict[str, list[Spent]] = {name: [] for name in commands}
    took: dict[str, list[float]] = {name: [] for name in commands}
    figures: dict[str, Any] = {}
    for _ in range(TURNS):
        for name, command in commands.items():
            spent[name].append(spend(command, said))
            figures = json.loads(said.read_bytes().splitlines()[-1])
            took[name].append(figures["took_s"])
    rows = {name: (median(took[name]), *_middle(spent[name])) for name in commands}
    (ours, wall, light), (theirs, their_wall, heavy) = rows.values()
    head = ["", "the analysis s", "with start s", "peak MiB"]
    cells = [[name, f"{one:.2f}", f"{two:.2f}", f"{three / 2**20:.0f}"] for name, (one, two, three) in rows.items()]
    times = ["times ours", f"{theirs / ours:.1f}", f"{their_wall / wall:.1f}", f"{heavy / light:.1f}"]
    size = f"{path.stat().st_size / 1e6:.0f} MB, {known.events:,} events, {steps} steps"
    print_table(f"{size}: median of {TURNS} turns", head, [*cells, times])
    _, rank = analyzed(path, known)
    return same_figures(rank, figures) and theirs >= TIMES_FASTER * ours and heavy >= 2 * light


def _middle(spent: Sequence[Spent]) -> tuple[float, float]:
    return median(one.wall_s for one in spent), median(one.peak_bytes for one in spent)


def same_figures(rank: dict[str, Any], figures: dict[str, Any]) -> bool:
    """Span, idle, computation, overlap and each kernel's sum, to the precision of its floats."""
    overlap = 100 * rank["comm_compute_overlap_ns"] / rank["comm_ns"]
    pairs = [
        ("span_ns", rank["span_ns"], 1000 * figures["span_us"]),
        ("idle_ns", rank["idle_ns"], 1000 * figures["idle_us"]),
        ("compute_ns", rank["compute_ns"], 1000 * figures["compute_us"]),
        ("overlap, 0.01 %", 100 * overlap, 100 * figures["overlap_percent"]),
    ]
    theirs = figures["kernels_us"]
    sums = max(abs(kernel["total_ns"] - 1000 * theirs[kernel["name"]]) for kernel in rank["kernels"])
    rows = [[name, f"{ours:,.0f}", f"{other:,.1f}"] for name, ours, other in pairs]
    rows.append(["kernels' sums, greatest difference in ns", "0", f"{sums:,.1f}"])
    print_table("The same figures", ["", "warpmeter", "HolisticTraceAnalysis"], rows)
    return all(abs(ours - other) <= max(1.0, 1e-6 * ours) for _, ours, other in pairs) and sums <= 1000


def ranks(folder: Path, most: int) -> bool:
    """One command over up to so many ranks of 60 MB each."""
    files = [folder / f"rank{rank}.json" for rank in range(most)]
    with ProcessPoolExecutor() as pool:
        list(pool.map(partial(_rank, world=most), files, range(most)))
    sizes = [most // 8, most // 4, most // 2, most]
    spent = []
    for size in sizes:
        some = folder / f"some{size}"
        some.mkdir()
        for file in files[:size]:
            (some / file.name).hardlink_to(file)
        spent.append(spend([*COMMAND, str(some)], folder / "ranks.said"))
    return linear("ranks of 60 MB", sizes, spent) and max(one.peak_bytes for one in spent) <= MEMORY


def _rank(path: Path, rank: int, world: int) -> None:
    write(path, SMALL_EVENTS, 20, rank, world)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is gone in the end."""
    with tempfile.TemporaryDirectory(prefix="warpmeter-bench-") as folder:
        yield Path(folder)


def main() -> int:
    """All tables; 1 when a limit is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--events", type=int, default=5_000_000, help="of the longest trace (default: 5,000,000, 1.3 GB)"
    )
    parser.add_argument("--steps", type=int, default=300, help="of it (default: 300)")
    parser.add_argument("--ranks", type=int, default=64, help="at most (default: 64; 0 leaves them away)")
    parser.add_argument("--no-hta", action="store_true", help="leave HolisticTraceAnalysis away")
    asked = parser.parse_args()
    held = {}
    with scratch() as folder:
        held["linear in events"], longest = by_events(folder, asked.events, asked.steps)
        held["the long trace"] = longest.wall_s <= SECONDS and longest.peak_bytes <= MEMORY
        held["linear in steps"] = by_steps(folder, asked.events // 4)
        if not asked.no_hta:
            held["beside HolisticTraceAnalysis"] = beside_hta(folder, asked.steps)
        if asked.ranks:
            held["ranks"] = ranks(folder, asked.ranks)
    print("\n" + "\n".join(f"{'held  ' if good else 'MISSED'} {what}" for what, good in held.items()))
    return int(not all(held.values()))


if __name__ == "__main__":
    sys.exit(main())
