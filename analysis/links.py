"""What launched what: GPU event to the call that launched it, call to its operator, operator to the one around it."""

from dataclasses import dataclass

import numpy as np

from warpmeter.analysis.nesting import Nesting, nest
from warpmeter.analysis.trace import NONE, Calls, GpuEvents, Int32s, Int64s, Operators, Places, Trace


@dataclass(frozen=True, eq=False)
class Links:
    """Indexes between a trace's tables, -1 where there is none.

    `call` and `operator` have one entry a GPU event, `call_operator` one a call.
    A GPU event's call is the one of the same correlation; where several have it, the last that began before the event.
    A call's operator is the innermost one open on its thread when it begins, else the one of its external id; a GPU
    event's operator is its call's, and without one the operator of its own external id.
    """

    call: Places
    operator: Places
    call_operator: Places
    operators: Nesting

    @property
    def operator_parent(self) -> Places:
        """The operator around each operator on its thread."""
        return self.operators.parent

    @property
    def operator_depth(self) -> Int32s:
        """How many operators are around each operator on its thread."""
        return self.operators.depth


def links(trace: Trace) -> Links:
    """Join a trace's GPU events, calls and operators, n log n."""
    operators = nest(trace.operators.thread, trace.operators.start, trace.operators.end)
    call = _by_correlation(trace.gpu, trace.calls)
    call_operator = operators.innermost(trace.calls.thread, trace.calls.start)
    lone = np.flatnonzero(call_operator < 0)
    call_operator[lone] = _by_external(_told(trace.calls)[lone], trace.operators)
    operator = np.full(len(trace.gpu), NONE, np.intp)
    called = np.flatnonzero(call >= 0)
    operator[called] = call_operator[call[called]]
    lone = np.flatnonzero(operator < 0)
    operator[lone] = _by_external(_told(trace.gpu)[lone], trace.operators)
    return Links(call, operator, call_operator, operators)


def _told(events: GpuEvents | Calls) -> Int64s:
    """External ids, without those that old profilers wrote there for want of one: the correlation."""
    return np.where(events.external == events.correlation, NONE, events.external)


def _by_external(wanted: Int64s, operators: Operators) -> Places:
    """The operator of each external id, the first where several have it."""
    found = np.full(len(wanted), NONE, np.intp)
    have = np.flatnonzero(operators.external > 0)
    if not len(have) or not len(wanted):
        return found
    order = have[np.argsort(operators.external[have], kind="stable")]
    keys = operators.external[order]
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    hit = keys[at] == wanted
    found[hit] = order[at[hit]]
    return found


def _by_correlation(gpu: GpuEvents, calls: Calls) -> Places:
    """The call of each GPU event."""
    found = np.full(len(gpu), NONE, np.intp)
    have = np.flatnonzero(calls.correlation >= 0)
    if not len(have):
        return found
    order = have[np.argsort(calls.correlation[have], kind="stable")]
    keys = calls.correlation[order]
    first = np.minimum(np.searchsorted(keys, gpu.correlation), len(keys) - 1)
    hit = keys[first] == gpu.correlation
    found[hit] = order[first[hit]]
    twice = np.append(keys[1:] == keys[:-1], False)
    many = np.flatnonzero(hit & twice[first])
    if len(many):
        among = np.flatnonzero(np.isin(keys, gpu.correlation[many]))
        found[many] = _last_before(gpu, many, calls, order[among], found[many])
    return found


def _last_before(gpu: GpuEvents, events: Places, calls: Calls, candidates: Places, otherwise: Places) -> Places:
    """Of the candidate calls with an event's correlation the last that began no later than it, else `otherwise`."""
    correlation = np.concatenate([calls.correlation[candidates], gpu.correlation[events]])
    start = np.concatenate([calls.start[candidates], gpu.start[events]])
    order = np.lexsort((np.arange(len(start)), start, correlation))
    is_call = order < len(candidates)
    last = np.maximum.accumulate(np.where(is_call, np.arange(len(order)), 0))
    chosen = order[last]
    same = (chosen < len(candidates)) & (correlation[chosen] == correlation[order])
    rows = np.flatnonzero(~is_call)
    place = order[rows] - len(candidates)
    answer = otherwise.copy()
    hit = same[rows]
    answer[place[hit]] = candidates[chosen[rows[hit]]]
    return answer
