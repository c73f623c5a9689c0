"""The GPU's time in any trace against an oracle that counts nanosecond by nanosecond and event by event."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tracebuilder import TraceBuilder
from warpmeter.analysis.breakdown import Breakdown, Sort, breakdown, breakdowns, devices, sorts
from warpmeter.analysis.copies import copies
from warpmeter.analysis.kernels import kernels
from warpmeter.analysis.launches import launches
from warpmeter.analysis.links import links
from warpmeter.analysis.streams import streams
from warpmeter.analysis.trace import Trace

EPOCH: Final = 1_712_195_495_505_582_988
"""Nanoseconds that a float of microseconds cannot tell apart."""
NAMES: Final = {Sort.COMPUTE: ("gemm", "add"), Sort.COMM: ("ncclDevKernel_AllReduce", "my_RCCL_kernel")}
THRESHOLD: Final = 3

any_trace = settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])


@dataclass(frozen=True)
class Event:
    """One GPU event and the calls that carry its correlation, each (start, length)."""

    sort: Sort
    name: int
    start: int
    length: int
    device: int
    stream: int
    bytes: int | None
    calls: tuple[tuple[int, int], ...]

    @property
    def end(self) -> int:
        return self.start + self.length

    @property
    def text(self) -> str:
        if self.sort == Sort.MEMCPY:
            return "Memcpy DtoH (Device -> Pinned)" if self.name else "Memcpy HtoD (Pageable -> Device)"
        return "Memset (Device)" if self.sort == Sort.MEMSET else NAMES[self.sort][self.name]

    @property
    def launched(self) -> tuple[int, int] | None:
        """The call that launched it: the last that began no later than it, else the first."""
        before = [call for call in sorted(self.calls, key=lambda call: (call[0], -call[1])) if call[0] <= self.start]
        return before[-1] if before else min(self.calls, key=lambda call: (call[0], -call[1]), default=None)


events_of = st.lists(
    st.builds(
        Event,
        st.sampled_from(Sort),
        st.integers(0, 1),
        st.integers(0, 40),
        st.integers(0, 12),
        st.integers(0, 1),
        st.sampled_from([7, 20]),
        st.none() | st.integers(0, 99),
        st.lists(st.tuples(st.integers(-15, 45), st.integers(0, 9)), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=14,
)


def traced(events: Sequence[Event], epoch: int = 0) -> Trace:
    """The trace that has these events, written and read."""
    builder = TraceBuilder()
    for event in events:
        correlation = builder.correlation()
        more: dict[str, Any] = {"device": event.device, "stream": event.stream, "correlation": correlation}
        start = event.start + epoch
        if event.sort == Sort.MEMCPY:
            builder.copy(start, event.length, kind=event.text.removeprefix("Memcpy "), bytes=event.bytes, **more)
        elif event.sort == Sort.MEMSET:
            builder.set(start, event.length, bytes=event.bytes, **more)
        else:
            builder.kernel(event.text, start, event.length, **more)
        for at, length in event.calls:
            builder.call("cudaLaunchKernel", at + epoch, length, correlation=correlation)
    return builder.build()


def moments(events: Iterable[Event], *wanted: Sort) -> set[int]:
    """Every nanosecond in which one of them runs."""
    return {at for event in events if event.sort in wanted for at in range(event.start, event.end)}


def counted(events: Sequence[Event], window: range | None = None, epoch: int = 0) -> Breakdown:
    """The breakdown by counting moments."""
    first, last = min(event.start for event in events), max(event.end for event in events)
    within = range(first, last) if window is None else window
    begun = [event for event in events if window is None or event.start in window]
    compute, comm, memcpy, memset = (moments(events, sort) & set(within) for sort in Sort)
    mem = memcpy | memset
    busy = compute | comm | mem
    return Breakdown(
        len(begun),
        sum(event.sort == Sort.COMPUTE for event in begun),
        sum(event.sort == Sort.COMM for event in begun),
        sum(event.sort == Sort.MEMCPY for event in begun),
        sum(event.sort == Sort.MEMSET for event in begun),
        start_ns=(first if window is None else window.start) + epoch,
        span_ns=len(within),
        busy_ns=len(busy),
        idle_ns=len(within) - len(busy),
        compute_ns=len(compute),
        comm_ns=len(comm),
        mem_ns=len(mem),
        memcpy_ns=len(memcpy),
        memset_ns=len(memset),
        comm_compute_overlap_ns=len(comm & compute),
        mem_compute_overlap_ns=len(mem & compute),
        mem_comm_overlap_ns=len(mem & comm),
        exposed_comm_ns=len(comm - compute),
        exposed_mem_ns=len(mem - compute - comm),
        total_ns=sum(event.length for event in begun),
    )


@any_trace
@given(events_of, st.sampled_from([0, EPOCH]))
def test_breakdown(events: list[Event], epoch: int) -> None:
    trace = traced(events, epoch)
    found = breakdown(trace.gpu, sorts(trace.gpu, trace.names))

    assert found == counted(events, epoch=epoch)
    assert found.busy_ns == sum(filter(None, (found.compute_ns, found.exposed_comm_ns, found.exposed_mem_ns)))


@any_trace
@given(events_of)
def test_each_device_alone(events: list[Event]) -> None:
    trace = traced(events)

    found = {one.device: one.totals for one in devices(trace.gpu, sorts(trace.gpu, trace.names))}

    assert found == {
        device: counted([event for event in events if event.device == device])
        for device in {event.device for event in events}
    }


@any_trace
@given(events_of, st.lists(st.tuples(st.integers(-5, 60), st.integers(-2, 30)), max_size=4))
def test_breakdown_of_windows(events: list[Event], windows: list[tuple[int, int]]) -> None:
    trace = traced(events)
    table = np.array(windows, np.int64).reshape(-1, 2)

    found = breakdowns(trace.gpu, sorts(trace.gpu, trace.names), table[:, 0], table.sum(axis=1))

    assert found == [counted(events, range(start, start + length)) for start, length in windows]


def by_stream(events: Sequence[Event]) -> dict[tuple[int, int], list[Event]]:
    """The events of each stream in the order in which they begin, the longer first."""
    found: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda event: (event.start, -event.length)):
        found[event.device, event.stream].append(event)
    return found


def walked(events: Sequence[Event]) -> dict[str, list[int]]:
    """The gaps of one stream by cause. (The trace's order is kept where events begin together.)"""
    causes: dict[str, list[int]] = {"host": [], "kernel": [], "other": []}
    reach = events[0].end
    for event in events[1:]:
        if (gap := event.start - reach) > 0:
            waits = event.launched is not None and event.launched[0] > reach
            causes["host" if waits else "kernel" if gap < THRESHOLD else "other"].append(gap)
        reach = max(reach, event.end)
    return causes


def distinct(events: Sequence[Event]) -> bool:
    """No two events begin at once on a stream: which of them ends a gap would be a matter of order."""
    return len({(event.device, event.stream, event.start) for event in events}) == len(events)


@any_trace
@given(events_of.filter(distinct))
def test_streams_and_why_they_were_idle(events: list[Event]) -> None:
    trace = traced(events)
    found = streams(trace, links(trace), sorts(trace.gpu, trace.names), THRESHOLD)

    expected = by_stream(events)
    assert [(one.device, one.stream) for one in found.streams] == sorted(expected)
    for one in found.streams:
        of, idle = expected[one.device, one.stream], one.idle
        causes = walked(of)
        assert (one.gpu_events, one.busy_ns, one.total_ns) == (
            len(of),
            len(moments(of, *Sort)),
            sum(event.length for event in of),
        )
        assert (one.compute_ns, one.comm_ns) == (len(moments(of, Sort.COMPUTE)), len(moments(of, Sort.COMM)))
        assert one.mem_ns == len(moments(of, Sort.MEMCPY, Sort.MEMSET))
        assert one.overlapping_events == sum(b.start < a.end for a, b in pairwise(of))
        assert (idle.host_wait_gaps, idle.host_wait_ns) == (len(causes["host"]), sum(causes["host"]))
        assert (idle.kernel_wait_gaps, idle.kernel_wait_ns) == (len(causes["kernel"]), sum(causes["kernel"]))
        assert (idle.other_gaps, idle.other_ns) == (len(causes["other"]), sum(causes["other"]))
        assert idle.idle_ns == idle.host_wait_ns + idle.kernel_wait_ns + idle.other_ns == one.span_ns - one.busy_ns


@any_trace
@given(events_of)
def test_a_device_is_idle_when_all_its_streams_are(events: list[Event]) -> None:
    trace = traced(events)
    sort = sorts(trace.gpu, trace.names)
    found = {one.device: one for one in streams(trace, links(trace), sort).devices}

    for one in devices(trace.gpu, sort):
        assert found[one.device].idle.idle_ns == one.totals.idle_ns
        assert found[one.device].streams == len({e.stream for e in events if e.device == one.device})


@any_trace
@given(events_of)
def test_kernels_by_name(events: list[Event]) -> None:
    trace = traced(events)
    found = kernels(trace, links(trace), sorts(trace.gpu, trace.names))

    whole = sum(event.length for event in events)
    named: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        named[event.text].append(event)
    assert [one.name for one in found] == sorted(named, key=lambda name: (-sum(e.length for e in named[name]), name))
    for one in found:
        lengths = sorted(event.length for event in named[one.name])
        assert (one.count, one.total_ns, one.min_ns, one.max_ns) == (
            len(lengths),
            sum(lengths),
            lengths[0],
            lengths[-1],
        )
        assert (one.p50_ns, one.p95_ns) == (lengths[len(lengths) // 2], lengths[len(lengths) * 95 // 100])
        assert one.mean_ns == sum(lengths) / len(lengths)
        assert one.share == (sum(lengths) / whole if whole else None)
        assert set(one.streams) == {f"{event.device}/{event.stream}" for event in named[one.name]}


@any_trace
@given(events_of)
def test_launches(events: list[Event]) -> None:
    trace = traced(events)
    found = launches(trace, links(trace))

    known = [(event, event.launched) for event in events if event.launched is not None]
    delays = sorted(event.start - sum(call) for event, call in known if call)
    assert (found.matched, found.unmatched) == (len(known), len(events) - len(known))
    assert found.duplicate_correlations == sum(max(len(event.calls) - 1, 0) for event in events)
    assert found.shorter_than_call == sum(event.length < call[1] for event, call in known if call)
    assert sum(one.gpu_events for one in found.by_call) == len(known)
    if found.from_end is None:
        assert not known
        return
    assert (found.from_end.count, found.from_end.min_ns, found.from_end.max_ns) == (len(known), delays[0], delays[-1])
    assert found.from_end.p90_ns == delays[len(delays) * 90 // 100]
    assert found.from_end.negative == sum(delay < 0 for delay in delays)
    assert found.from_start is not None
    assert found.from_start.mean_ns == sum(event.start - call[0] for event, call in known if call) / len(known)


@any_trace
@given(events_of)
def test_queue_depth_is_weighted_by_time(events: list[Event]) -> None:
    trace = traced(events)
    found = {(one.device, one.stream): one for one in launches(trace, links(trace)).queues}

    groups: dict[tuple[int | None, int | None], list[tuple[Event, int]]] = defaultdict(list)
    for event in events:
        if event.launched is not None:
            groups[None, None].append((event, event.launched[0]))
            groups[event.device, event.stream].append((event, event.launched[0]))
    assert set(found) == set(groups)
    for place, waiting in groups.items():
        window = range(min(came for _, came in waiting), max(max(event.end, came) for event, came in waiting))
        depths = sorted(sum(came <= at < event.start for event, came in waiting) for at in window)
        one = found[place]
        assert (one.window_ns, one.max, one.empty_ns) == (len(window), max(depths, default=0), depths.count(0))
        assert one.mean == (sum(depths) / len(window) if depths else None)
        assert one.p50 == (depths[max(-(-len(depths) // 2) - 1, 0)] if depths else None)


@any_trace
@given(events_of)
def test_memory_operations_by_kind(events: list[Event]) -> None:
    found = {one.name: one for one in copies(traced(events))}

    kinds: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        if event.sort in (Sort.MEMCPY, Sort.MEMSET):
            kinds[event.text.partition(" (")[0] if event.sort == Sort.MEMCPY else event.text].append(event)
    assert set(found) == set(kinds)
    for name, of in kinds.items():
        sized = [event for event in of if event.bytes is not None]
        took = sum(event.length for event in sized)
        moved = sum(event.bytes or 0 for event in sized)
        assert (found[name].count, found[name].total_ns) == (len(of), sum(event.length for event in of))
        assert found[name].bytes == (moved if sized else None)
        assert found[name].gb_per_s == (moved / took if took else None)


@any_trace
@given(events_of.filter(distinct), st.integers(0, 10**6))
def test_the_order_of_the_file_does_not_matter(events: list[Event], seed: int) -> None:
    builder = TraceBuilder()
    for number, event in enumerate(events):
        builder.launch(
            f"kernel{number}",
            (event.start - 30, 2),
            (event.start, event.length),
            device=event.device,
            stream=event.stream,
        )
        builder.operator("aten::mm", event.start - 31, 5, dims=[[number, number]])
    one, other = builder.build(), builder.shuffled(seed).build()

    assert launches(one, links(one)) == launches(other, links(other))
    for trace in (one, other):
        assert len(trace.operators) == len(events)
    sort = sorts(one.gpu, one.names), sorts(other.gpu, other.names)
    assert breakdown(one.gpu, sort[0]) == breakdown(other.gpu, sort[1])
    assert kernels(one, links(one), sort[0]) == kernels(other, links(other), sort[1])
    assert streams(one, links(one), sort[0]) == streams(other, links(other), sort[1])
