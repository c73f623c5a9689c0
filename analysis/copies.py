"""Copies and sets of the GPU's memory by kind: how many, how much, how fast."""

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from warpmeter.analysis.grouped import sort_within
from warpmeter.analysis.trace import Kind, Trace

_PATH: Final = re.compile(r"(Memcpy .*?)\s*\((.*)\)")


@dataclass(frozen=True)
class MemoryOperations:
    """All copies of one direction, or sets of one target. 1 GB/s is 10⁹ bytes a second, so one byte a nanosecond.

    `bytes` and `gb_per_s` count the operations whose size the trace tells; None where it tells none, or they took
    no time.
    """

    name: str
    count: int
    total_ns: int
    mean_ns: float
    min_ns: int
    max_ns: int
    p50_ns: int
    bytes: int | None
    gb_per_s: float | None
    paths: tuple[tuple[str, int], ...]
    """What the profiler says of the two ends, as `Pinned -> Device`, and how often; empty where it says nothing."""


def copies(trace: Trace) -> list[MemoryOperations]:
    """Memory operations by kind, most time first."""
    gpu = trace.gpu.take(trace.gpu.kind != Kind.KERNEL)
    if not len(gpu):
        return []
    counted = np.bincount(gpu.name)
    used = np.flatnonzero(counted)
    split = [_split(trace.names[name]) for name in used.tolist()]
    names = sorted({name for name, _ in split})
    number = np.zeros(len(counted), np.intp)
    number[used] = [names.index(name) for name, _ in split]
    group = number[gpu.name]
    figures = sort_within(group, gpu.duration)
    sized = gpu.bytes >= 0
    sizes, times, told = (
        np.zeros(len(names), np.int64),
        np.zeros(len(names), np.int64),
        np.bincount(group[sized], minlength=len(names)),
    )
    np.add.at(sizes, group[sized], gpu.bytes[sized])
    np.add.at(times, group[sized], gpu.duration[sized])
    columns = (figures.count, figures.total, *(figures.percentile(percent) for percent in (0, 100, 50)))
    rows = zip(names, *(column.tolist() for column in (*columns, told, sizes, times)), strict=True)
    made = [
        MemoryOperations(
            name,
            count,
            total,
            total / count,
            least,
            greatest,
            median,
            bytes=size if known else None,
            gb_per_s=size / time if time else None,
            paths=tuple(
                (path, int(counted[of])) for of, (n, path) in zip(used, split, strict=True) if n == name and path
            ),
        )
        for name, count, total, least, greatest, median, known, size, time in rows
    ]
    return sorted(made, key=lambda one: (-one.total_ns, one.name))


def _split(name: str) -> tuple[str, str]:
    """`Memcpy HtoD (Pinned -> Device)` is of kind `Memcpy HtoD`; a set's target is part of its kind."""
    found = _PATH.fullmatch(name)
    return (found[1], found[2]) if found else (name, "")
