"""Launches: how long the GPU's work waits between the host's call and its start, and how much of it waits.

A kernel whose delay is below zero from the call's end began while the call had not yet returned; that is usual.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from warpmeter.analysis.grouped import numbered, place_of, sort_within
from warpmeter.analysis.links import Links
from warpmeter.analysis.trace import Int64s, Places, Trace

_ROOM: Final = 1 << 61


@dataclass(frozen=True)
class Delay:
    """Times between a call and the start of what it launched, each GPU event once."""

    count: int
    negative: int
    """How many are below zero."""
    mean_ns: float
    min_ns: int
    p50_ns: int
    p90_ns: int
    p95_ns: int
    p99_ns: int
    max_ns: int


@dataclass(frozen=True)
class LaunchCall:
    """The calls of one name that launched something: `gpu_events` is what they launched, `total_ns` the host's time."""

    name: str
    calls: int
    gpu_events: int
    total_ns: int
    mean_ns: float
    p50_ns: int
    max_ns: int


@dataclass(frozen=True)
class Queue:
    """How many GPU events were launched and not begun, over time: from the first launch to the last event's end.

    An event waits from the start of its call to its own start. `stream` is None for the whole trace.
    """

    device: int | None
    stream: int | None
    window_ns: int
    mean: float | None
    p50: int | None
    p95: int | None
    max: int
    empty_ns: int
    """How long nothing waited."""


@dataclass(frozen=True)
class Launches:
    """What is known of the launching of GPU events; delays are None where no event has a call."""

    gpu_events: int
    matched: int
    unmatched: int
    calls: int
    duplicate_correlations: int
    """Calls whose correlation another call before them has as well."""
    shorter_than_call: int
    """GPU events shorter than the call that launched them."""
    from_end: Delay | None
    from_start: Delay | None
    by_call: tuple[LaunchCall, ...]
    queues: tuple[Queue, ...]


def launches(trace: Trace, links: Links) -> Launches:
    """Delays and queues of a trace, n log n."""
    known = np.flatnonzero(links.call >= 0)
    call = links.call[known]
    start = trace.gpu.start[known]
    correlations = np.sort(trace.calls.correlation[trace.calls.correlation >= 0])
    return Launches(
        gpu_events=len(trace.gpu),
        matched=len(known),
        unmatched=len(trace.gpu) - len(known),
        calls=len(trace.calls),
        duplicate_correlations=int((correlations[1:] == correlations[:-1]).sum()),
        shorter_than_call=int((trace.gpu.duration[known] < trace.calls.duration[call]).sum()),
        from_end=_delay(start - trace.calls.end[call]),
        from_start=_delay(start - trace.calls.start[call]),
        by_call=_by_call(trace, call),
        queues=_queues(trace, known, call),
    )


def _delay(delays: Int64s) -> Delay | None:
    if not len(delays):
        return None
    delays = np.sort(delays)
    at = {percent: int(delays[place_of(len(delays), percent)]) for percent in (50, 90, 95, 99)}
    return Delay(
        count=len(delays),
        negative=int((delays < 0).sum()),
        mean_ns=float(delays.mean()),
        min_ns=int(delays[0]),
        p50_ns=at[50],
        p90_ns=at[90],
        p95_ns=at[95],
        p99_ns=at[99],
        max_ns=int(delays[-1]),
    )


def _by_call(trace: Trace, call: Places) -> tuple[LaunchCall, ...]:
    """Calls by name, most GPU events first."""
    if not len(call):
        return ()
    launched = np.bincount(call, minlength=len(trace.calls))
    used = np.flatnonzero(launched)
    names, group = numbered(trace.calls.name[used])
    figures = sort_within(group, trace.calls.duration[used])
    gpu_events = np.bincount(group, launched[used]).astype(np.int64)
    columns = (figures.count, gpu_events, figures.total, figures.percentile(50), figures.percentile(100))
    rows = zip(names.tolist(), *(column.tolist() for column in columns), strict=True)
    made = [
        LaunchCall(trace.names[name], count, events, total, total / count, median, greatest)
        for name, count, events, total, median, greatest in rows
    ]
    return tuple(sorted(made, key=lambda one: (-one.gpu_events, one.name)))


def _queues(trace: Trace, known: Places, call: Places) -> tuple[Queue, ...]:
    """The whole trace, then each stream."""
    if not len(known):
        return ()
    gpu = trace.gpu.take(known)
    came = trace.calls.start[call]
    left = np.maximum(gpu.start, came)
    devices, device = numbered(gpu.device)
    streams, stream = numbered(gpu.stream)
    group = device * len(streams) + stream
    order = np.argsort(group, kind="stable")
    found, first = np.unique(group[order], return_index=True)
    queues = [_queue(None, None, came, left, gpu.end)]
    for number, here in zip(found.tolist(), np.split(order, first[1:]), strict=True):
        place = int(devices[number // len(streams)]), int(streams[number % len(streams)])
        queues.append(_queue(*place, came[here], left[here], gpu.end[here]))
    return tuple(queues)


def _queue(device: int | None, stream: int | None, came: Int64s, left: Int64s, end: Int64s) -> Queue:
    first, last = int(came.min()), max(int(end.max()), int(left.max()))
    moments, change = _changes(came, left)
    depth = np.cumsum(change)
    lasts = np.diff(np.append(moments, last))
    time = np.bincount(depth[lasts > 0], lasts[lasts > 0], minlength=1).astype(np.int64)
    window = last - first
    upto = np.cumsum(time)
    half, most = (int(np.searchsorted(upto, window * share)) for share in (0.5, 0.95))
    return Queue(
        device,
        stream,
        window,
        mean=int((left - came).sum()) / window if window else None,
        p50=half if window else None,
        p95=most if window else None,
        max=len(time) - 1,
        empty_ns=int(time[0]),
    )


def _changes(came: Int64s, left: Int64s) -> tuple[Int64s, Int64s]:
    """When the depth changes, in order, and by what: +1 for each that came, before -1 for each that left at once."""
    first = int(came.min())
    if int(left.max()) - first < _ROOM:
        packed = np.sort(np.concatenate([(came - first) * 2, (left - first) * 2 + 1]))
        return (packed >> 1) + first, 1 - 2 * (packed & 1)
    moments = np.concatenate([came, left])
    order = np.argsort(moments, kind="stable")
    return moments[order], np.where(order < len(came), 1, -1)
