"""Kernels, copies and sets by name: how often, how long, on which streams and launched by what."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from warpmeter.analysis.breakdown import SORTS
from warpmeter.analysis.grouped import Sorted, numbered, sort_within, sums
from warpmeter.analysis.links import Links
from warpmeter.analysis.names import short_name, uses_matrix_units
from warpmeter.analysis.trace import Int8s, Int64s, Kind, Places, Trace

LAUNCHERS: Final = 5
"""At most so many launching operators are told of a kernel, those with the most time."""


@dataclass(frozen=True)
class Launcher:
    """An operator that launched a kernel: how often and for how much of the GPU's time."""

    name: str
    count: int
    total_ns: int


@dataclass(frozen=True)
class Kernel:
    """All GPU events of one name. `share` is of the sum of all durations; `sort` as in `breakdown.SORTS`."""

    name: str
    short_name: str
    sort: str
    count: int
    total_ns: int
    min_ns: int
    max_ns: int
    p50_ns: int
    p95_ns: int
    mean_ns: float
    share: float | None
    streams: tuple[str, ...]
    """As `device/stream`."""
    operators: tuple[Launcher, ...]
    """The innermost operators that launched it, most time first; empty where the trace does not say."""
    occupancy: float | None
    """Kineto's estimate 0-1, mean over its time; None where the trace has none."""
    matrix_units: bool | None
    """Whether its name says that it runs on tensor cores; None for what is no matrix work, or does not say."""
    launched: int
    """How many of them have their launching call in the trace."""
    launch_delay_mean_ns: float | None
    """Of those: from the end of the call to the start, mean; None where there is none."""
    bytes: int | None
    """That copies or sets moved, of those whose size is told; None of kernels, and where none is."""
    sized_ns: int
    """Durations of those together."""


def kernels(trace: Trace, links: Links, sort: Int8s) -> list[Kernel]:
    """By name, most time first (ties by name), n log n; `sort` is `breakdown.sorts` of the trace's GPU events."""
    gpu = trace.gpu
    if not len(gpu):
        return []
    used, group = numbered(gpu.name)
    sort_of = np.zeros(len(used), np.int8)
    sort_of[group] = sort
    figures = _figures(sort_within(group, gpu.duration))
    streams, operators, occupancy = _streams(trace, group), _operators(trace, links, group), _occupancy(trace, group)
    launched, sizes = _launched(trace, links, group), _sizes(trace, group)
    total = int(gpu.duration.sum())
    made = []
    for place, name in enumerate(trace.names[number] for number in used.tolist()):
        kind, of = SORTS[sort_of[place]], figures[place]
        made.append(
            Kernel(
                name,
                short_name(name),
                kind,
                **of,
                mean_ns=of["total_ns"] / of["count"],
                share=of["total_ns"] / total if total else None,
                streams=streams[place],
                operators=operators[place],
                occupancy=occupancy[place],
                matrix_units=uses_matrix_units(name) if kind == "compute" else None,
                **launched[place],
                **sizes[place],
            )
        )
    return sorted(made, key=lambda kernel: (-kernel.total_ns, kernel.name))


def _figures(of: Sorted) -> list[dict[str, int]]:
    """Count, total, min, max, p50 and p95 of each group, by their field's name."""
    columns = {
        "count": of.count,
        "total_ns": of.total,
        "min_ns": of.percentile(0),
        "max_ns": of.percentile(100),
        "p50_ns": of.percentile(50),
        "p95_ns": of.percentile(95),
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _streams(trace: Trace, group: Places) -> list[tuple[str, ...]]:
    """Where the events of each name ran."""
    devices, device = numbered(trace.gpu.device)
    streams, stream = numbered(trace.gpu.stream)
    found = np.unique((group * len(devices) + device) * len(streams) + stream)
    told: list[list[str]] = [[] for _ in range(int(group.max()) + 1)]
    for key in found.tolist():
        place, number = divmod(key, len(streams))
        told[place // len(devices)].append(f"{devices[place % len(devices)]}/{streams[number]}")
    return [tuple(each) for each in told]


def _operators(trace: Trace, links: Links, group: Places) -> list[tuple[Launcher, ...]]:
    """What launched the events of each name, the most time first."""
    told: list[list[Launcher]] = [[] for _ in range(int(group.max()) + 1)]
    known = np.flatnonzero(links.operator >= 0)
    operator = trace.operators.name[links.operator[known]].astype(np.int64)
    width = len(trace.names)
    keys, counts, totals = sums(group[known] * np.int64(width) + operator, trace.gpu.duration[known])
    for key, count, total in zip(keys.tolist(), counts.tolist(), totals.tolist(), strict=True):
        told[key // width].append(Launcher(trace.names[key % width], count, total))
    return [tuple(sorted(each, key=lambda one: (-one.total_ns, one.name))[:LAUNCHERS]) for each in told]


def _launched(trace: Trace, links: Links, group: Places) -> list[dict[str, Any]]:
    """How many of each name have a known call, and how long they began after it had returned."""
    known = np.flatnonzero(links.call >= 0)
    delays = trace.gpu.start[known] - trace.calls.end[links.call[known]]
    counts, totals = _sums(group[known], delays, int(group.max()) + 1)
    return [
        {"launched": count, "launch_delay_mean_ns": total / count if count else None}
        for count, total in zip(counts.tolist(), totals.tolist(), strict=True)
    ]


def _sizes(trace: Trace, group: Places) -> list[dict[str, Any]]:
    """What copies and sets of each name moved, and how long those took."""
    gpu = trace.gpu
    sized = np.flatnonzero((gpu.kind != Kind.KERNEL) & (gpu.bytes >= 0))
    width = int(group.max()) + 1
    counts, sizes = _sums(group[sized], gpu.bytes[sized], width)
    _, times = _sums(group[sized], gpu.duration[sized], width)
    return [
        {"bytes": size if count else None, "sized_ns": time}
        for count, size, time in zip(counts.tolist(), sizes.tolist(), times.tolist(), strict=True)
    ]


def _sums(group: Places, values: Int64s, width: int) -> tuple[Int64s, Int64s]:
    """Number and exact sum of the values of each group."""
    totals = np.zeros(width, np.int64)
    np.add.at(totals, group, values)
    return np.bincount(group, minlength=width).astype(np.int64), totals


def _occupancy(trace: Trace, group: Places) -> list[float | None]:
    """The estimate of each name, weighted by time (by count where nothing of it has a length)."""
    known = np.flatnonzero(~np.isnan(trace.gpu.occupancy))
    value, group_of = trace.gpu.occupancy[known].astype(np.float64), group[known]
    weights: list[Int64s] = [trace.gpu.duration[known], np.ones(len(known), np.int64)]
    size = int(group.max()) + 1
    answer: list[float | None] = [None] * size
    for weight in reversed(weights):
        whole = np.bincount(group_of, weight, minlength=size)
        part = np.bincount(group_of, weight * value, minlength=size)
        for place in np.flatnonzero(whole).tolist():
            answer[place] = round(float(part[place] / whole[place]), 6)  # the estimate itself has two digits
    return answer
