"""What each GPU event and each wait of the host had to wait for: one predecessor each, the one that was ready last.

Nodes are GPU events, then the host's turning points (`Turns`): moments at which a thread went on because something
else was done. Between turning points a host thread depends on itself. docs/analysis.md has the rules in words.
"""

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from warpmeter.analysis.intervals import union
from warpmeter.analysis.links import Links
from warpmeter.analysis.trace import NONE, Booleans, Int32s, Int64s, Kind, Places, Trace
from warpmeter.analysis.windows import launched_at

_WAITS: Final = re.compile(r"(Device|Stream|Event|Ctx|Context)_?Synchronize|^(cuda|hip)Free$")
_COPIES: Final = re.compile(r"Memcpy")
_STREAM_WAITS: Final = re.compile(r"StreamWaitEvent")
_BACKWARD: Final = "autograd::engine::evaluate_function"
_TRIES: Final = 16
"""How many events that ended before a wait did are looked at, latest first, for one that was launched before it."""


@dataclass(frozen=True, eq=False)
class Turns:
    """Moments at which a host thread went on because of something else, by thread, then by time.

    `target` is the GPU event that a call waited for; where it is -1 the work came over from thread `other`, whose last
    event began or ended at `other_at`. `call` is the waiting call, -1 for work that came over.
    """

    thread: Int32s
    at: Int64s
    target: Places
    call: Places
    other: Int32s
    other_at: Int64s

    def __len__(self) -> int:
        return len(self.at)

    def before(self, thread: Int32s, at: Int64s) -> Places:
        """The last turn of each thread at or before each moment, -1 where there is none."""
        order = np.lexsort(
            (
                np.concatenate([np.zeros(len(self), np.int8), np.ones(len(at), np.int8)]),
                np.concatenate([self.at, at]),
                np.concatenate([self.thread, thread]),
            )
        )
        is_turn = order < len(self)
        last = np.maximum.accumulate(np.where(is_turn, order, NONE))
        found = np.full(len(at), NONE, np.intp)
        asked = order[~is_turn] - len(self)
        found[asked] = last[~is_turn]
        there = np.flatnonzero(found >= 0)
        found[there[self.thread[found[there]] != thread[there]]] = NONE
        return found


@dataclass(frozen=True, eq=False)
class Dependencies:
    """The graph: `before` of each node (GPU events, then turns), -1 where nothing is known before it.

    `by_host` tells of GPU events whether their launch decided when they began, `launched` when that was and `thread`
    where; `latency_ns` is how long a launch takes when the stream is idle (median; None where none was).
    """

    before: Places
    by_host: Booleans
    launched: Int64s
    thread: Int32s
    turns: Turns
    latency_ns: int | None


@dataclass(frozen=True, eq=False)
class _Launches:
    """When and on which thread each GPU event was launched, as far as that is `known`."""

    at: Int64s
    known: Booleans
    thread: Int32s
    latency_ns: int | None


def dependencies(trace: Trace, links: Links) -> Dependencies:
    """All predecessors, n log n."""
    stream = _stream_order(trace)
    launches = _launches(trace, links, stream)
    at, known = launches.at, launches.known
    low = np.iinfo(np.int64).min
    launch_ready = np.where(known, at + (launches.latency_ns or 0), low)
    stream_ready = np.where(stream >= 0, trace.gpu.end[stream], low)
    gpu = _later(trace, stream, _event_waits(trace, launches, np.maximum(launch_ready, stream_ready)))
    by_host = known & ((gpu < 0) | (launch_ready >= np.where(gpu >= 0, trace.gpu.end[gpu], low)))
    turns = _turns(trace, links, at, known)
    asked = np.minimum(at, trace.gpu.start)
    host = _as_nodes(turns.before(launches.thread, asked), len(trace.gpu))
    came = _as_nodes(turns.before(turns.other, turns.other_at), len(trace.gpu))
    before = np.concatenate([np.where(by_host, host, gpu), np.where(turns.target >= 0, turns.target, came)])
    return Dependencies(before, by_host, asked, launches.thread, turns, launches.latency_ns)


def _launches(trace: Trace, links: Links, stream: Places) -> _Launches:
    at, _ = launched_at(trace, links)
    thread = _launching_thread(trace, links)
    known = thread >= 0
    return _Launches(at, known, thread, _latency(trace, links, stream, at, known))


def _as_nodes(turns: Places, events: int) -> Places:
    return np.where(turns >= 0, turns + events, NONE)


def _launching_thread(trace: Trace, links: Links) -> Int32s:
    """The thread of each GPU event's call, else of its operator, else -1."""
    thread = np.full(len(trace.gpu), NONE, np.int32)
    for index, of in ((links.operator, trace.operators.thread), (links.call, trace.calls.thread)):
        there = index >= 0
        thread[there] = of[index[there]]
    return thread


def _groups(*columns: Int64s | Int32s) -> Int64s:
    """One number for each combination of values."""
    group = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        _, index = np.unique(column, return_inverse=True)
        group = group * (int(index.max(initial=0)) + 1) + index
    return group


def _stream_order(trace: Trace) -> Places:
    """The event on the same stream that began before and ended last."""
    return _ended_last(_groups(trace.gpu.device, trace.gpu.stream), trace.gpu.end)


def _ended_last(group: Int64s, end: Int64s) -> Places:
    """Of the rows of the same group before each the one that ended last, -1 for the first."""
    found = np.full(len(group), NONE, np.intp)
    if len(group) < 2:
        return found
    order = np.argsort(group, kind="stable")
    by_end = np.argsort(end[order], kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[by_end] = np.arange(len(order))
    # Ranks of a group's rows lie above those of all groups before it, so that one running maximum serves all.
    best = np.maximum.accumulate(group[order] * len(order) + rank) % len(order)
    same = group[order][1:] == group[order][:-1]
    found[order[1:][same]] = order[by_end[best[:-1][same]]]
    return found


def _later(trace: Trace, first: Places, second: Places) -> Places:
    """Of two predecessors the one that ended later; what is not before the event itself is none."""
    second = np.where(second < np.arange(len(second)), second, NONE)
    low = np.iinfo(np.int64).min
    ends = [np.where(each >= 0, trace.gpu.end[each], low) for each in (first, second)]
    return np.where(ends[1] > ends[0], second, first)


def _latency(trace: Trace, links: Links, stream: Places, at: Int64s, known: Booleans) -> int | None:
    """The median time from a launch to its first kernel where the stream had nothing else to do."""
    _, first = np.unique(links.call, return_index=True)
    alone = links.call < 0
    alone[first] = True  # the others of a graph's launch wait for each other
    idle = alone & known & (trace.gpu.kind == Kind.KERNEL) & ((stream < 0) | (trace.gpu.end[stream] <= at))
    delays = (trace.gpu.start - at)[idle]
    return int(np.median(delays[delays >= 0])) if (delays >= 0).any() else None


def _event_waits(trace: Trace, launches: "_Launches", own: Int64s) -> Places:
    """The event on another stream that a GPU event waited for through a recorded event, -1 for none."""
    told = np.flatnonzero(np.isin(trace.waits.name, _named(trace, re.compile("Stream Wait Event"))))
    if len(told) and len(trace.calls):
        return _told_waits(trace, told, launches.at, launches.known)
    return _guessed_waits(trace, launches, own)


def _named(trace: Trace, pattern: re.Pattern[str]) -> Int32s:
    return np.array([i for i, name in enumerate(trace.names) if pattern.search(name)], np.int32)


def _told_waits(trace: Trace, told: Places, at: Int64s, known: Booleans) -> Places:
    """From the trace's own sync events: which stream waited for what was recorded on which."""
    waits, calls = trace.waits.take(told), trace.calls
    wait, record = (_call_of(trace, each) for each in (waits.correlation, waits.on_correlation))
    fit = (wait >= 0) & (record >= 0) & (waits.on_stream >= 0)
    waits, wait, record = waits.take(fit), wait[fit], record[fit]
    launched = np.flatnonzero(known)
    launched = launched[np.argsort(at[launched], kind="stable")]
    both = np.concatenate([trace.gpu.stream[launched], waits.stream, waits.on_stream])
    devices = np.concatenate([trace.gpu.device[launched], waits.device, waits.device])
    group = _groups(devices, both)
    of_events, of_waits, of_records = np.split(group, [len(launched), len(launched) + len(waits)])
    order = np.argsort(of_events, kind="stable")
    launched, keys = launched[order], of_events[order]
    after = _search(keys, at[launched], of_waits, calls.start[wait], "left")
    upto = _search(keys, at[launched], of_records, calls.start[record], "right") - 1
    ok = (after < len(keys)) & (upto >= 0)
    after, upto, of_waits, of_records = after[ok], upto[ok], of_waits[ok], of_records[ok]
    ok = (keys[after] == of_waits) & (keys[upto] == of_records)
    target, source = launched[after[ok]], launched[upto[ok]]
    found = np.full(len(trace.gpu), NONE, np.intp)
    latest = np.argsort(trace.gpu.end[source], kind="stable")
    found[target[latest]] = source[latest]
    return found


def _search(keys: Int64s, times: Int64s, wanted: Int64s, moments: Int64s, side: str) -> Places:
    """Where each (key, moment) would stand among rows in order of key and time."""
    order = np.lexsort(
        (
            np.concatenate([np.full(len(keys), 1, np.int8), np.full(len(wanted), 0 if side == "left" else 2, np.int8)]),
            np.concatenate([times, moments]),
            np.concatenate([keys, wanted]),
        )
    )
    is_row = order < len(keys)
    passed = np.cumsum(is_row)
    found = np.empty(len(wanted), np.intp)
    found[order[~is_row] - len(keys)] = passed[~is_row]
    return found


def _call_of(trace: Trace, correlation: Int64s) -> Places:
    """The call of each correlation, -1 where there is none."""
    order = np.argsort(trace.calls.correlation, kind="stable")
    keys = trace.calls.correlation[order]
    where = np.minimum(np.searchsorted(keys, correlation), max(len(keys) - 1, 0))
    hit = (keys[where] == correlation) & (correlation >= 0)
    return np.where(hit, order[where], NONE)


def _guessed_waits(trace: Trace, launches: "_Launches", own: Int64s) -> Places:
    """Without sync events, from calls that make a stream wait, and from time alone.

    The candidate is the event of the same device that ended last before this one began, if it was on another stream and
    not launched later. It counts where some thread made a stream wait for an event since the last launch to this one.
    It counts, too, where this event had been launched and its stream been idle (`own`: since when both) for longer than
    a launch takes, and it began within that time after the candidate's end.
    """
    found = np.full(len(trace.gpu), NONE, np.intp)
    order = np.lexsort((trace.gpu.end, trace.gpu.device))
    device = trace.gpu.device.astype(np.int64)
    last = _search(device[order], trace.gpu.end[order], device, trace.gpu.start, "right") - 1
    source = order[np.maximum(last, 0)] if len(order) else last
    waited = trace.gpu.start - trace.gpu.end[source]
    latency = launches.latency_ns or 0
    evident = (waited <= latency) & (trace.gpu.start - own > latency)
    fit = (last >= 0) & (device[source] == device) & (trace.gpu.stream[source] != trace.gpu.stream)
    fit &= launches.known & launches.known[source] & (launches.at[source] <= launches.at)  # of one graph: equal
    fit &= evident | _armed(trace, launches)
    found[fit] = source[fit]
    return found


def _armed(trace: Trace, launches: "_Launches") -> Booleans:
    """GPU events before whose launch, since the last one to the same stream, some stream was made to wait."""
    armed = np.zeros(len(trace.gpu), np.bool_)
    waits = trace.calls.start[np.isin(trace.calls.name, _named(trace, _STREAM_WAITS))]
    events = np.flatnonzero(launches.known)
    if not len(waits) or not len(events):
        return armed
    passed = np.searchsorted(waits, launches.at[events], "right")
    group = _groups(trace.gpu.device[events], trace.gpu.stream[events])
    order = np.lexsort((events, launches.at[events], group))
    earlier = np.zeros(len(order), np.int64)
    same = group[order][1:] == group[order][:-1]
    earlier[1:][same] = passed[order][:-1][same]
    armed[events[order[passed[order] > earlier]]] = True
    return armed


def _turns(trace: Trace, links: Links, at: Int64s, known: Booleans) -> Turns:
    """Waits that made a thread wait, and work that came over from another thread."""
    call, target = _waits(trace, links, at, known)
    thread, moment, other, other_at = _handed_over(trace)
    nothing = np.full(len(moment), NONE, np.intp)
    threads = np.concatenate([trace.calls.thread[call], thread])
    moments = np.concatenate([trace.calls.end[call], moment])
    order = np.lexsort((moments, threads))
    return Turns(
        thread=threads[order],
        at=moments[order],
        target=np.concatenate([target, nothing])[order],
        call=np.concatenate([call, nothing])[order],
        other=np.concatenate([np.full(len(call), NONE, np.int32), other])[order],
        other_at=np.concatenate([np.zeros(len(call), np.int64), other_at])[order],
    )


def _waits(trace: Trace, links: Links, at: Int64s, known: Booleans) -> tuple[Places, Places]:
    """Calls that returned because a GPU event ended during them, and that event."""
    call = np.flatnonzero(np.isin(trace.calls.name, _named(trace, _WAITS)))
    target = _last_ended(trace, call, at, known)
    copies = np.isin(trace.calls.name, _named(trace, _COPIES))
    own = np.flatnonzero((links.call >= 0) & copies[links.call]) if len(copies) else np.empty(0, np.intp)
    end = trace.calls.end[links.call[own]]
    own = own[(trace.gpu.end[own] <= end) & (trace.gpu.end[own] > trace.calls.start[links.call[own]])]
    made = target >= 0
    return np.concatenate([call[made], links.call[own]]), np.concatenate([target[made], own])


def _last_ended(trace: Trace, call: Places, at: Int64s, known: Booleans) -> Places:
    """The GPU event launched before each call that ended last within it; on the call's stream where that is told."""
    order = np.argsort(trace.gpu.end, kind="stable")
    place = np.searchsorted(trace.gpu.end[order], trace.calls.end[call], "right") - 1
    stream = _waited_stream(trace, call)
    found = np.full(len(call), NONE, np.intp)
    open_ = np.arange(len(call))
    for _ in range(_TRIES):
        open_ = open_[place[open_] >= 0]
        event = order[place[open_]]
        during = trace.gpu.end[event] > trace.calls.start[call[open_]]
        open_, event = open_[during], event[during]
        fit = ~known[event] | (at[event] < trace.calls.start[call[open_]])
        fit &= (stream[open_] < 0) | (stream[open_] == trace.gpu.stream[event])
        found[open_[fit]] = event[fit]
        open_ = open_[~fit]
        place[open_] -= 1
    return found


def _waited_stream(trace: Trace, call: Places) -> Int64s:
    """The stream that a call waited for, where the trace's sync events tell it."""
    stream = np.full(len(call), NONE, np.int64)
    told = np.flatnonzero(np.isin(trace.waits.name, _named(trace, re.compile("Stream Sync"))))
    if len(told):
        order = told[np.argsort(trace.waits.correlation[told], kind="stable")]
        keys, wanted = trace.waits.correlation[order], trace.calls.correlation[call]
        where = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        hit = (keys[where] == wanted) & (wanted >= 0)
        stream[hit] = trace.waits.stream[order[where[hit]]]
    return stream


def _handed_over(trace: Trace) -> tuple[Int32s, Int64s, Int32s, Int64s]:
    """Where threads of the backward pass took over from others, and others from them.

    A thread that did nothing for a while goes on; a thread of the other sort did something after it last did: that is
    where the work came from. Threads of one sort never hand over to each other, for nothing tells that they did.
    """
    threads = np.concatenate([trace.operators.thread, trace.calls.thread])
    start = np.concatenate([trace.operators.start, trace.calls.start])
    end = np.concatenate([trace.operators.end, trace.calls.end])
    backward = np.unique(trace.operators.thread[np.isin(trace.operators.name, _named(trace, re.compile(_BACKWARD)))])
    others = np.setdiff1d(np.unique(trace.operators.thread), backward)
    nothing = np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int64)
    if not len(backward) or not len(others):
        return nothing
    found = [nothing]
    by_thread = np.argsort(threads, kind="stable")
    of = np.split(by_thread, np.cumsum(np.bincount(threads))[:-1])
    for mine, theirs in ((backward, others), (others, backward)):
        where = np.flatnonzero(np.isin(threads, theirs))
        source, moment = _moments(threads[where], start[where], end[where])
        found += [_took_over(int(each), start[of[each]], end[of[each]], source, moment) for each in mine]
    thread, at, other, other_at = (np.concatenate(each) for each in zip(*found, strict=True))
    return thread, at, other, other_at


def _moments(thread: Int32s, start: Int64s, end: Int64s) -> tuple[Int32s, Int64s]:
    """All begins and ends, in order, with their threads."""
    moment = np.concatenate([start, end])
    order = np.argsort(moment, kind="stable")
    return np.concatenate([thread, thread])[order], moment[order]


def _took_over(
    thread: int, start: Int64s, end: Int64s, source: Int32s, moment: Int64s
) -> tuple[Int32s, Int64s, Int32s, Int64s]:
    active = union(start, end)
    resumed, paused = active.start, np.concatenate([[np.iinfo(np.int64).min], active.end[:-1]])[: len(active)]
    last = np.searchsorted(moment, resumed, "left") - 1  # before: at one moment two threads would follow each other
    there = np.flatnonzero((last >= 0) & (moment[np.maximum(last, 0)] > paused))
    last = last[there]
    return np.full(len(there), thread, np.int32), resumed[there], source[last], moment[last]
