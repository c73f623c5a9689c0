"""What a job tree uses: CPU time, memory, storage traffic, GPUs. Read for members only, summed by pure functions."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from warpmeter.producers import files
from warpmeter.producers.counters import fitting
from warpmeter.producers.jobs.process import parse_stat
from warpmeter.producers.source import GpuUse

IO_KEYS: Final = (b"read_bytes", b"write_bytes")


@dataclass(frozen=True)
class ProcessUsage:
    """Of one process, since it started; its ended children that were waited for are in it.

    `cpu`: clock ticks; `io`: bytes read from and written to storage, None when `/proc/<pid>/io` does not tell:
    `io_denied`, it may not be read; else there is no such file, as this kernel counts no I/O.
    """

    start: int
    cpu: int
    rss_pages: int
    io: tuple[int, int] | None
    io_denied: bool = False


@dataclass(frozen=True)
class TreeUsage:
    """Sums over a tree at one instant; None where a member does not tell."""

    monotonic: float
    cpu: int
    rss_pages: int
    io: tuple[int, int] | None


@dataclass(frozen=True)
class GpuHold:
    """What a tree holds on GPUs; None for memory when NVML does not tell it."""

    memory_mebibytes: int | None
    gpus: tuple[int, ...]
    uuids: tuple[str, ...]


def read_usage(proc: str, pid: int) -> ProcessUsage | None:
    """Ask for one process; None when it is gone."""
    folder = f"{proc}/{pid}"
    try:
        stat = parse_stat(files.read(f"{folder}/stat"))
    except (OSError, ValueError):
        return None
    try:
        io, denied = parse_io(files.read(f"{folder}/io")), False
    except OSError as error:
        if not os.path.exists(folder):  # noqa: PTH110 - hot
            return None
        io, denied = None, isinstance(error, PermissionError)
    return ProcessUsage(stat.start, stat.cpu, stat.rss_pages, io, denied)


def parse_io(text: bytes) -> tuple[int, int] | None:
    """Bytes read and written of `/proc/<pid>/io`; None when it is empty."""
    if not text:
        return None
    fields = dict(line.split(b": ", 1) for line in text.splitlines())
    read, written = (int(fields[key]) for key in IO_KEYS)
    return read, written


def summed(monotonic: float, members: Iterable[ProcessUsage]) -> TreeUsage:
    """A tree's usage from its members'."""
    found = list(members)
    ios = [member.io for member in found]
    told = [io for io in ios if io is not None]
    io = (sum(read for read, _ in told), sum(written for _, written in told)) if len(told) == len(ios) else None
    return TreeUsage(monotonic, sum(m.cpu for m in found), sum(m.rss_pages for m in found), io)


def cores_milli(before: TreeUsage, now: TreeUsage, hertz: int) -> int | None:
    """Thousandths of a core used between two instants.

    Never negative: a member that ended without being waited for takes its time along.
    """
    elapsed = now.monotonic - before.monotonic
    return round(max(0, now.cpu - before.cpu) * 1000 / hertz / elapsed) if elapsed > 0 else None


def io_between(before: TreeUsage, now: TreeUsage) -> tuple[int, int] | None:
    """Bytes read and written between two instants, None when either was not told."""
    if before.io is None or now.io is None:
        return None
    return max(0, now.io[0] - before.io[0]), max(0, now.io[1] - before.io[1])


def held(pids: Sequence[int], uses: Mapping[int, Sequence[GpuUse]]) -> GpuHold:
    """What these processes hold."""
    mine = [use for pid in pids for use in uses.get(pid, ())]
    told = [use.memory_mebibytes for use in mine]
    memory = None if None in told else fitting(sum(number for number in told if number is not None))
    return GpuHold(memory, tuple(sorted({use.gpu for use in mine})), tuple(sorted({use.uuid for use in mine})))
