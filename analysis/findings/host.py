"""Rules about time in which the GPU stood still because the host was late."""

from collections import Counter
from typing import Final

import numpy as np

from warpmeter.analysis.causes import ALLOCATING, INPUT, named
from warpmeter.analysis.findings.seen import Evidence, Finding, Seen, most, ns, number
from warpmeter.analysis.launches import Launches
from warpmeter.analysis.trace import Places, Spans, Trace
from warpmeter.analysis.words import count, duration, percent

INPUT_SHARE: Final = 0.05
SYNC_SHARE: Final = 0.03
ALLOCATION_SHARE: Final = 0.02
LAUNCH_SHARE: Final = 0.10
HOST_SHARE: Final = 0.10
APART_SHARE: Final = 0.01
LONG_GAP_NS: Final = 1_000_000
"""From there on the host did something else than to get to its next launch."""
LOOKED_AT: Final = 20
"""Long gaps whose middle is looked at for what the host did."""


def input_bound(seen: Seen) -> Finding | None:
    """The GPU, or on a host without one the program, waits for the next batch."""
    has_gpu = bool(seen.totals.gpu_events)
    cost = int(seen.gaps.input.sum()) if has_gpu else sum(step.input_ns or 0 for step in seen.steps)
    whole = seen.span if has_gpu else sum(step.duration_ns for step in seen.steps)
    if not whole or cost / whole < INPUT_SHARE:
        return None
    fetches = [table.take(named(seen.trace, table, INPUT)) for table in _ranges(seen.trace)]
    longest = max(int(each.duration.max(initial=0)) for each in fetches)
    fetched = sum(map(len, fetches))
    return Finding(
        "input_bound",
        f"The {'GPU' if has_gpu else 'program'} waits for input {percent(cost / whole)} of the time; "
        f"{count(fetched, 'fetch', 'fetches')} of the data loader, the longest {duration(longest)}",
        cost / whole,
        "ratio",
        cost,
        [number("fetches", fetched), *_by_name(seen.trace, fetches)],
        "Give the data loader more workers or let it prefetch (num_workers, prefetch_factor, persistent_workers), or "
        "make decoding and augmentation cheaper.",
    )


def _ranges(trace: Trace) -> tuple[Spans, Spans]:
    return trace.annotations, trace.operators


def _by_name(trace: Trace, tables: list[Spans]) -> list[Evidence]:
    found: Counter[str] = Counter()
    for table in tables:
        for name in np.unique(table.name).tolist():
            found[trace.names[name]] += int(table.duration[table.name == name].sum())
    return [ns(*pair) for pair in most(found.items())]


def host_sync(seen: Seen) -> Finding | None:
    """The host waited until the GPU had run dry, so the GPU had nothing to go on with."""
    gaps, trace = seen.gaps, seen.trace
    cost = int(gaps.sync.sum())
    if seen.share(cost) < SYNC_SHARE:
        return None
    calls = gaps.within[gaps.sync > 0]
    operators = seen.links.call_operator[calls]
    by = Counter(trace.names[name] for name in trace.operators.name[operators[operators >= 0]].tolist())
    called = Counter(trace.names[name] for name in trace.calls.name[calls].tolist())
    asked = f", {most(by.items())[0][0]} most of them" if by else ""
    return Finding(
        "host_sync",
        f"The GPU stands still {percent(seen.share(cost))} of the time after the host had waited for it; "
        f"{count(len(calls), 'wait')} let it run dry{asked}",
        seen.share(cost),
        "ratio",
        cost,
        [*(number(*pair) for pair in most(called.items())), *(number(*pair) for pair in most(by.items()))],
        "Keep values on the device: no .item(), .cpu(), print or Python condition on a tensor within the step, "
        "non_blocking copies from pinned memory, synchronize only around what is timed.",
    )


def allocator_churn(seen: Seen) -> Finding | None:
    """Memory taken from the device and given back within the trace."""
    trace = seen.trace
    calls = trace.calls.take(named(trace, trace.calls, ALLOCATING))
    cost = max(seen.covered(calls), int(seen.gaps.allocation.sum()))
    if seen.share(cost) < ALLOCATION_SHARE:
        return None
    return Finding(
        "allocator_churn",
        f"Taking memory from the device and giving it back takes {percent(seen.share(cost))} of the time: "
        f"{count(len(calls), 'call')}, the longest {duration(int(calls.duration.max()))}",
        seen.share(cost),
        "ratio",
        cost,
        [number("calls", len(calls)), *_by_name(trace, [calls])],
        "The caching allocator should do that in the first steps only: no torch.cuda.empty_cache() in the step, "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against fragmentation, less memory where it is nearly full.",
    )


def _cheaper(launch: Launches) -> str:
    """How many events cost less than their launch, if it is some."""
    share = launch.shorter_than_call / launch.matched
    if share < 0.01:
        return ""
    return f"; {percent(share)} of {count(launch.matched, 'event')} are shorter than the call that launched them"


def launch_bound(seen: Seen) -> Finding | None:
    """The host launches more slowly than the GPU works."""
    gaps = seen.gaps
    short = (gaps.launching > 0) & (gaps.launching < LONG_GAP_NS)
    cost = int(gaps.launching[short].sum())
    if seen.share(cost) < LAUNCH_SHARE or seen.launch is None:
        return None
    launch = seen.launch
    calls = [number(f"{each.name}, {duration(each.mean_ns)} each", each.calls) for each in launch.by_call[:3]]
    return Finding(
        "launch_bound",
        f"The GPU waits for the host to launch its next work {percent(seen.share(cost))} of the time, in "
        f"{count(int(short.sum()), 'gap')}{_cheaper(launch)}",
        seen.share(cost),
        "ratio",
        cost,
        [ns("median gap", int(np.median(gaps.launching[short]))), *calls],
        "Launch less and more at once: CUDA graphs, torch.compile (mode='reduce-overhead'), fused or foreach "
        "optimizers, larger batches.",
    )


def clocks_apart(seen: Seen) -> Finding | None:
    """GPU events that begin before the calls that launched them: the trace's two clocks do not agree."""
    delay = seen.launch.from_start if seen.launch is not None else None
    if delay is None or delay.negative < APART_SHARE * delay.count:
        return None
    return Finding(
        "clocks_apart",
        f"{count(delay.negative, 'GPU event')} of {delay.count:,} begin before the call that launched them, by up to "
        f"{duration(-delay.min_ns)}: the clocks of host and GPU are apart",
        delay.negative / delay.count,
        "ratio",
        0,
        [number("events before their calls", delay.negative), ns("earliest before its call", -delay.min_ns)],
        "Trust nothing that compares the two: delays, queues, causes of idle time, the critical path. Figures of the "
        "GPU or of the host alone hold.",
    )


def host_bound(seen: Seen) -> Finding | None:
    """The host did something else for long."""
    gaps, trace = seen.gaps, seen.trace
    long = np.flatnonzero(gaps.launching >= LONG_GAP_NS)
    cost = int(gaps.launching[long].sum())
    if seen.share(cost) < HOST_SHARE:
        return None
    doing = most(_doing(seen, long).items())
    what = f", mostly in {doing[0][0]}" if doing else ""
    return Finding(
        "host_bound",
        f"The GPU waits for the host {percent(seen.share(cost))} of the time, in {count(len(long), 'gap')} of a "
        f"millisecond and more{what}",
        seen.share(cost),
        "ratio",
        cost,
        [ns("longest gap", int(gaps.launching[long].max())), *(ns(*pair) for pair in doing)],
        "Look at what the host does there (flame graph): move it out of the step, into another process, or onto the "
        "device." + ("" if len(trace.frames) else " Record with with_stack=True to see the Python code."),
    )


def _doing(seen: Seen, long: Places) -> Counter[str]:
    """What the launching thread was in at the middle of the longest of these gaps, weighted by their length."""
    gaps, trace = seen.gaps, seen.trace
    found: Counter[str] = Counter()
    for gap in long[np.argsort(-gaps.launching[long], kind="stable")[:LOOKED_AT]].tolist():
        middle = int(gaps.start[gap] + gaps.end[gap]) // 2
        name = _innermost(trace, int(trace.calls.thread[gaps.call[gap]]), middle)
        if name:
            found[name] += int(gaps.launching[gap])
    return found


def _innermost(trace: Trace, thread: int, at: int) -> str:
    """The innermost range, frame or operator of a thread at a moment."""
    latest, name = -1, ""
    for table in (trace.annotations, trace.frames, trace.operators, trace.calls):
        open_ = np.flatnonzero((table.thread == thread) & (table.start <= at) & (table.end > at))
        if len(open_) and int(table.start[open_[-1]]) >= latest:
            latest, name = int(table.start[open_[-1]]), trace.names[int(table.name[open_[-1]])]
    return name
