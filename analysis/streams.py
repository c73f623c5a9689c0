"""Streams: how busy each is, and why it was idle between two of its events.

Each gap ends with an event, whose launch tells the cause. *Host wait*: the launching call began after the stream had
run dry, so the GPU waited for the host. Else, *kernel wait*: a gap below the threshold, what starting the next kernel
costs by itself. Else *other*: the work was there and something else held it, such as an event of another stream.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from warpmeter.analysis.breakdown import Sort
from warpmeter.analysis.grouped import numbered
from warpmeter.analysis.intervals import union
from warpmeter.analysis.links import Links
from warpmeter.analysis.trace import Booleans, Int8s, Int64s, Places, Trace

KERNEL_WAIT_NS: Final = 30_000
"""Gaps below that are a kernel wait, as HTA counts them."""


@dataclass(frozen=True)
class Idle:
    """Gaps and their lengths by cause. Nothing of what lies before the first event or behind the last."""

    gaps: int
    idle_ns: int
    host_wait_gaps: int
    host_wait_ns: int
    kernel_wait_gaps: int
    kernel_wait_ns: int
    other_gaps: int
    other_ns: int


@dataclass(frozen=True)
class Stream:
    """One stream of one device. `busy_ns` is the union of its events, `total_ns` the sum of their durations."""

    device: int
    stream: int
    gpu_events: int
    start_ns: int
    span_ns: int
    busy_ns: int
    total_ns: int
    compute_ns: int
    comm_ns: int
    mem_ns: int
    overlapping_events: int
    """Events that began before the one before them had ended."""
    idle: Idle


@dataclass(frozen=True)
class DeviceIdle:
    """Gaps in which no stream of the device ran anything, by what the next event on any stream waited for."""

    device: int
    streams: int
    idle: Idle


@dataclass(frozen=True)
class Streams:
    """All streams of a trace, by device and number, and its devices."""

    kernel_wait_threshold_ns: int
    streams: tuple[Stream, ...]
    devices: tuple[DeviceIdle, ...]


def streams(trace: Trace, links: Links, sort: Int8s, threshold_ns: int = KERNEL_WAIT_NS) -> Streams:
    """Every stream and device, n log n; `sort` is `breakdown.sorts` of the trace's GPU events."""
    gpu = trace.gpu
    launch = _Launch(links.call >= 0, np.zeros(len(gpu), np.int64))
    launch.at[launch.known] = trace.calls.start[links.call[launch.known]]
    groups = list(_groups(gpu.device.astype(np.int64), gpu.stream))
    return Streams(
        threshold_ns,
        tuple(_stream(trace, sort, place, here, launch, threshold_ns) for place, here in groups),
        tuple(
            DeviceIdle(
                device,
                sum(place[0] == device for place, _ in groups),
                _idle(gpu.start[here], gpu.end[here], launch.take(here), threshold_ns),
            )
            for (device, _), here in _groups(gpu.device.astype(np.int64), np.zeros(len(gpu), np.int64))
        ),
    )


@dataclass(frozen=True, eq=False)
class _Launch:
    """When the call of each event began, where there is one."""

    known: Booleans
    at: Int64s

    def take(self, where: Places) -> "_Launch":
        return _Launch(self.known[where], self.at[where])


def _groups(device: Int64s, stream: Int64s) -> Iterator[tuple[tuple[int, int], Places]]:
    """The events of each device and stream, in order of start."""
    devices, device_number = numbered(device)
    names, stream_number = numbered(stream)
    group = device_number * len(names) + stream_number
    order = np.argsort(group, kind="stable")
    found, first = np.unique(group[order], return_index=True)
    for number, here in zip(found.tolist(), np.split(order, first[1:]), strict=True) if len(order) else ():
        yield (int(devices[number // len(names)]), int(names[number % len(names)])), here


def _stream(
    trace: Trace, sort: Int8s, place: tuple[int, int], here: Places, launch: _Launch, threshold_ns: int
) -> Stream:
    start, end, sort = trace.gpu.start[here], trace.gpu.end[here], sort[here]
    covered = [union(start[of], end[of]) for of in (sort == Sort.COMPUTE, sort == Sort.COMM, sort >= Sort.MEMCPY)]
    return Stream(
        *place,
        gpu_events=len(here),
        start_ns=int(start[0]),
        span_ns=int(end.max() - start[0]),
        busy_ns=union(start, end).length,
        total_ns=int(trace.gpu.duration[here].sum()),
        compute_ns=covered[0].length,
        comm_ns=covered[1].length,
        mem_ns=covered[2].length,
        overlapping_events=int((start[1:] < end[:-1]).sum()),
        idle=_idle(start, end, launch.take(here), threshold_ns),
    )


def _idle(start: Int64s, end: Int64s, launch: _Launch, threshold_ns: int) -> Idle:
    """The gaps of one stream (or device), its events in order of start."""
    reach = np.maximum.accumulate(end)[:-1]
    gap = start[1:] - reach
    there = gap > 0
    host = there & launch.known[1:] & (launch.at[1:] > reach)
    short = there & ~host & (gap < threshold_ns)
    other = there & ~host & ~short
    return Idle(*(figure for of in (there, host, short, other) for figure in (int(of.sum()), int(gap[of].sum()))))
