"""The plain calls of the table, prepared for one GPU."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from warpmeter.producers.gpu import nvml
from warpmeter.producers.gpu.found import Found
from warpmeter.producers.gpu.nvml import GpuProcess, Handle, Numbers, Problem
from warpmeter.producers.gpu.table import Call

COMPLETE_READS: Final = 2
"""The first read has no rates and the second has; with the slow values in both, the second is complete (`--once`)."""
SHARED_OVER_S: Final = 2.0
"""A GPU is shared as its processes used it in so many seconds: NVML samples them about once a second."""


class Prepared:
    """A call on one GPU, by the first of its ways that works here."""

    def __init__(self, call: Call, gpu: Handle) -> None:
        self.call = call
        self._ways = self._prepared(gpu)
        self._way: nvml.Read | None = next(self._ways, None)

    def _prepared(self, gpu: Handle) -> Iterator[nvml.Read]:
        return (read for way in self.call.ways if (read := way(gpu)) is not None)

    def read(self) -> Numbers | Problem:
        """Its numbers; `unsupported` when no way is left."""
        got: Numbers | Problem = nvml.NO_FUNCTION
        while self._way is not None:
            got = self._way()
            if not isinstance(got, Problem) or got.state != "unsupported":
                return got
            self._way = next(self._ways, None)
        return got


def took(call: Call, numbers: Numbers, found: Found) -> None:
    """Puts a call's numbers to its columns; a way that gives fewer leaves the last columns unsupported."""
    for column, number in zip(call.columns, numbers, strict=False):
        found.took(column, call.factor, number)
    if len(numbers) < len(call.columns):
        found.failed(call.columns[len(numbers) :], nvml.NO_FUNCTION)


class Calls:
    """All of the table's calls that a GPU supports. `slow_every`: reads from one slow read to the next."""

    def __init__(self, gpu: Handle, calls: Iterable[Call], slow_every: int, turn: int) -> None:
        """`turn`: which of the reads are the slow ones, so that not all GPUs are slow at once."""
        prepared = [Prepared(call, gpu) for call in calls]
        self._quick = [each for each in prepared if not each.call.slow]
        self._slow = [each for each in prepared if each.call.slow]
        self._slow_every, self._turn, self._reads = slow_every, turn, 0

    def read(self, found: Found) -> Problem | None:
        """Reads what is due; a Problem ends the read of this GPU."""
        slow = self._reads < COMPLETE_READS or (self._reads + self._turn) % self._slow_every == 0
        self._reads += 1
        return self._read(self._quick, found) or (self._read(self._slow, found) if slow else None)

    @staticmethod
    def _read(due: list[Prepared], found: Found) -> Problem | None:
        unsupported: list[Prepared] = []
        for prepared in due:
            got = prepared.read()
            if not isinstance(got, Problem):
                took(prepared.call, got, found)
            elif got.fatal:
                return got
            else:
                found.failed(prepared.call.columns, got)
                unsupported += [prepared] if got.state == "unsupported" else []
        for prepared in unsupported:
            due.remove(prepared)
        return None


@dataclass(frozen=True)
class Processes:
    """All processes of a GPU. `uses`: what each did lately, by pid; None when that is not known, or was not asked."""

    all: tuple[GpuProcess, ...]
    uses: Mapping[int, nvml.Use] | None = None


class ProcessReader:
    """The processes with a compute context on a GPU, clients of an MPS server included, and what they did lately."""

    def __init__(self, gpu: Handle, now: Callable[[], float] = time.time) -> None:
        self._compute: nvml.ProcessList | None = nvml.compute_processes(gpu)
        self._mps: nvml.ProcessList | None = nvml.mps_processes(gpu)
        self._utilization, self._now = nvml.Utilization(gpu), now

    def read(self, found: Found, over_s: float | None) -> Processes | Problem | None:
        """All of them; None when the list cannot be had; a Problem ends the read of this GPU.

        `over_s`: ask what each did in so many seconds; else that is asked only of several, who share the GPU.
        """
        if self._compute is None:
            return None
        got = self._compute.read()
        if isinstance(got, Problem):
            if not got.fatal:
                self._without(got, found)
            return got if got.fatal else None
        pids = {process.pid for process in got}
        processes = (*got, *(client for client in self._clients() if client.pid not in pids))
        found.took("processes", 1, len(processes))
        asked = bool(processes) and (over_s is not None or len(processes) > 1)
        return Processes(processes, self._uses(over_s or SHARED_OVER_S) if asked else None)

    def _uses(self, over_s: float) -> Mapping[int, nvml.Use] | None:
        got = self._utilization.read(int((self._now() - over_s) * 1e6))
        return None if isinstance(got, Problem) else got

    def _without(self, why: Problem, found: Found) -> None:
        found.failed(("processes",), why)
        self._compute = None if why.state == "unsupported" else self._compute

    def _clients(self) -> tuple[GpuProcess, ...]:
        if self._mps is None:
            return ()
        got = self._mps.read()
        if not isinstance(got, Problem):
            return got
        self._mps = None if got.state == "unsupported" else self._mps
        return ()
