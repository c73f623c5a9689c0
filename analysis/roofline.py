"""Achieved FLOP/s of matrix products, convolutions and attention, their place under the roofline, and MFU.

A product is counted once: of operators that hold each other (aten::linear, aten::addmm) the innermost that tells its
shapes counts, and all kernels launched below it are its time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from warpmeter.analysis.flops import Cost, cost, is_known
from warpmeter.analysis.links import Links
from warpmeter.analysis.matrix import is_product, precision
from warpmeter.analysis.names import uses_matrix_units
from warpmeter.analysis.sheets import Sheet, sheet
from warpmeter.analysis.trace import NONE, Booleans, Int64s, Kind, Places, Trace
from warpmeter.analysis.trees import total
from warpmeter.analysis.windows import Windows

ROWS: Final = 1000
"""Rows by operator and shape that are given; the rest is counted."""


@dataclass(frozen=True)
class OperatorRate:
    """One operator with inputs of one shape. `gpu_ns` is the time of all kernels below it, overlaps counted twice.

    `dtype` is the peak it is held against (a type of the data sheet). `flops_per_byte` is its arithmetic intensity,
    `bound` what the roofline says limits it ("compute", "memory"), `peak_share` its FLOP/s by the device's peak for
    the type, `roof_share` by what the roofline allows at this intensity. `kernel` is the one it spent most time in.
    `flops` and `bytes` are of all `count` calls. None is what cannot be told: no kernels, no types, no data sheet.
    """

    name: str
    family: str
    dims: list[Any]
    types: list[str]
    dtype: str
    count: int
    flops: int
    bytes: int | None
    gpu_ns: int
    flops_per_s: float | None
    bytes_per_s: float | None
    flops_per_byte: float | None
    bound: str | None
    peak_share: float | None
    roof_share: float | None
    kernel: str | None
    matrix_units: bool | None


@dataclass(frozen=True)
class StepRate:
    """One step: FLOPs launched in it, by its duration. `mfu` is None without a data sheet or known types."""

    name: str
    flops: int | None
    flops_per_s: float | None
    mfu: float | None


@dataclass(frozen=True)
class Roofline:
    """FLOPs of one trace; None where no operator tells shapes, which is not the same as no FLOPs.

    `gpu_ns` is the kernels' time of all counted operators, `flops_per_s` and `peak_share` are over that time.
    `mfu` is over the span of GPU events times the `devices` that ran counted kernels: the time that the FLOPs take at
    peak, by the time that passed. `products_ns` is the time of all kernels that are products by their names or their
    operators, `counted_share` how much of it was counted: where it is not near 1 all rates by wall time are too low.
    `matrix_units_ns` and `other_units_ns` are the part of `products_ns` whose kernels' names tell their units.
    `unlaunched_flops` are of operators below which no kernel is known (on the host, or its launch is missing).
    """

    device: str | None
    devices: int
    sheet: Sheet | None
    flops: int | None
    bytes: int | None
    gpu_ns: int
    flops_per_s: float | None
    peak_share: float | None
    mfu: float | None
    products_ns: int
    counted_share: float | None
    matrix_units_ns: int
    other_units_ns: int
    unlaunched_flops: int
    operators: list[OperatorRate] = field(default_factory=list)
    operators_left_out: int = 0
    steps: list[StepRate] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class _Kinds:
    """Counted operators by what they compute: one entry a name, shape and cost. `of` is each operator's kind, -1."""

    of: Places
    name: list[str]
    cost: list[Cost]
    dims: list[list[Any]]
    types: list[list[str]]

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True, eq=False)
class _Work:
    """By kind: calls with kernels and without, kernel time, the kernel's name (-1) with most of it, the peak's type."""

    calls: Int64s
    unlaunched: Int64s
    gpu_ns: Int64s
    kernel: Places
    dtype: list[str]


def roofline(trace: Trace, links: Links, steps: Windows, device: str | None = None) -> Roofline:
    """FLOPs and rates of a trace and of its steps.

    `device` is a name for the data sheet where the trace does not tell what it ran on, or not by a name that is known.
    """
    kinds = _kinds(trace, links)
    events = _counted_events(trace, links, kinds)
    work = _work(trace, kinds, events)
    name = device or _device(trace)
    limits = sheet(name) if name is not None else None
    ideal = _ideal_ns(kinds, work, limits)
    rows = _order(work)
    return Roofline(
        device=name,
        sheet=limits,
        operators=[_rate(trace, kinds, work, limits, i) for i in rows[:ROWS]],
        operators_left_out=max(0, len(rows) - ROWS),
        steps=_steps(trace, kinds, events, steps, ideal),
        **_whole(trace, kinds, events, work, ideal),
    )


def _kinds(trace: Trace, links: Links) -> _Kinds:
    """The innermost operators that tell what they compute, by what that is."""
    names = np.array([is_known(name) for name in trace.names], np.bool_)
    there = np.flatnonzero(names[trace.operators.name] & (trace.operators.inputs >= 0)) if len(names) else _nothing()
    key = trace.operators.name[there].astype(np.int64) * len(trace.inputs) + trace.operators.inputs[there]
    keys, index = np.unique(key, return_inverse=True)
    found: dict[str, int] = {}
    kinds = _Kinds(np.full(len(trace.operators), NONE, np.intp), [], [], [], [])
    of_key = np.array([_kind(trace, kinds, found, int(each)) for each in keys], np.intp)
    if len(there):
        kinds.of[there] = of_key[index]
        kinds.of[_around_others(links, kinds.of >= 0)] = NONE
    return kinds


def _nothing() -> Places:
    return np.empty(0, np.intp)


def _kind(trace: Trace, kinds: _Kinds, found: dict[str, int], key: int) -> int:
    name, inputs = trace.names[key // len(trace.inputs)], trace.inputs[key % len(trace.inputs)]
    each = cost(name, inputs)
    if each is None:
        return NONE
    place = found.setdefault(f"{name} {inputs.dims} {inputs.types} {each.flops}", len(kinds))
    if place == len(kinds):
        kinds.name.append(name)
        kinds.cost.append(each)
        kinds.dims.append(list(inputs.dims))
        kinds.types.append(list(inputs.types))
    return place


def _around_others(links: Links, chosen: Booleans) -> Booleans:
    """Chosen operators that have another chosen one below them; -1 parents fall on the last, unused place."""
    below = np.zeros(len(chosen) + 1, np.bool_)
    for level in range(int(links.operator_depth.max(initial=0)), 0, -1):
        here = np.flatnonzero(links.operator_depth == level)
        here = here[chosen[here] | below[here]]
        below[links.operator_parent[here]] = True
    return below[:-1] & chosen


def _counted_events(trace: Trace, links: Links, kinds: _Kinds) -> Places:
    """For each GPU event the counted operator that it was launched below, -1 for none and for copies."""
    up = np.where(kinds.of >= 0, np.arange(len(kinds.of)), NONE)
    for level in range(1, int(links.operator_depth.max(initial=0)) + 1):
        here = np.flatnonzero((links.operator_depth == level) & (up < 0))
        up[here] = up[links.operator_parent[here]]
    launched = (links.operator >= 0) & (trace.gpu.kind == Kind.KERNEL)
    events = np.full(len(trace.gpu), NONE, np.intp)
    events[launched] = up[links.operator[launched]]
    return events


def _work(trace: Trace, kinds: _Kinds, events: Places) -> _Work:
    ran = np.zeros(len(kinds.of), np.bool_)
    ran[events[events >= 0]] = True
    counted = kinds.of >= 0
    kernel = _longest_kernels(trace, kinds, events)
    texts = ["" if name < 0 else trace.names[name] for name in kernel.tolist()]
    return _Work(
        calls=np.bincount(kinds.of[counted & ran], minlength=len(kinds)),
        unlaunched=np.bincount(kinds.of[counted & ~ran], minlength=len(kinds)),
        gpu_ns=total(_kind_of(kinds, events), trace.gpu.duration, len(kinds)),
        kernel=kernel,
        dtype=[precision(each.dtype, text) for each, text in zip(kinds.cost, texts, strict=True)],
    )


def _kind_of(kinds: _Kinds, events: Places) -> Places:
    return np.where(events >= 0, np.append(kinds.of, NONE)[events], NONE)


def _longest_kernels(trace: Trace, kinds: _Kinds, events: Places) -> Places:
    """The kernel that each kind spent most time in: of those that are products by name, if there are any."""
    longest = np.full(len(kinds), NONE, np.intp)
    there = np.flatnonzero(events >= 0)
    key = _kind_of(kinds, events)[there] * len(trace.names) + trace.gpu.name[there]
    keys, index = np.unique(key, return_inverse=True)
    time = total(index.astype(np.intp), trace.gpu.duration[there], len(keys))
    kind, name = keys // max(len(trace.names), 1), keys % max(len(trace.names), 1)
    order = np.lexsort((time, _products_by_name(trace)[name]))
    longest[kind[order]] = name[order]
    return longest


def _products_by_name(trace: Trace) -> Booleans:
    """Which names of GPU events are those of products."""
    product = np.zeros(len(trace.names), np.bool_)
    for name in np.unique(trace.gpu.name).tolist():
        product[name] = is_product(trace.names[name])
    return product


def _order(work: _Work) -> list[int]:
    """Kinds that were called, those with most kernel time first."""
    order = np.argsort(-work.gpu_ns, kind="stable")
    return [int(i) for i in order[(work.calls + work.unlaunched)[order] > 0]]


def _peak(limits: Sheet | None, dtype: str) -> float | None:
    return limits.peak_flops_per_s.get(dtype) if limits is not None else None


def _ideal_ns(kinds: _Kinds, work: _Work, limits: Sheet | None) -> list[float | None]:
    """How long one call takes at the device's peak."""
    peaks = [_peak(limits, dtype) for dtype in work.dtype]
    pairs = zip(kinds.cost, peaks, strict=True)
    return [None if peak is None else 1e9 * each.flops / peak for each, peak in pairs]


def _rate(trace: Trace, kinds: _Kinds, work: _Work, limits: Sheet | None, i: int) -> OperatorRate:
    each, count, gpu_ns = kinds.cost[i], int(work.calls[i]), int(work.gpu_ns[i])
    moved = None if each.bytes is None else each.bytes * count
    speed = _per_second(each.flops * count, gpu_ns)
    intensity = each.flops / each.bytes if each.bytes else None
    peak = _peak(limits, work.dtype[i])
    roof = _roof(peak, intensity, limits)
    kernel = trace.names[int(work.kernel[i])] if work.kernel[i] >= 0 else None
    return OperatorRate(
        name=kinds.name[i],
        family=each.family,
        dims=kinds.dims[i],
        types=kinds.types[i],
        dtype=work.dtype[i],
        count=count + int(work.unlaunched[i]),
        flops=each.flops * (count + int(work.unlaunched[i])),
        bytes=None if each.bytes is None else each.bytes * (count + int(work.unlaunched[i])),
        gpu_ns=gpu_ns,
        flops_per_s=speed,
        bytes_per_s=_per_second(moved, gpu_ns),
        flops_per_byte=intensity,
        bound=None if roof is None or peak is None else "compute" if roof >= peak else "memory",
        peak_share=_share(speed, peak),
        roof_share=_share(speed, roof),
        kernel=kernel,
        matrix_units=uses_matrix_units(kernel) if kernel is not None else None,
    )


def _per_second(amount: int | None, ns: int) -> float | None:
    return 1e9 * amount / ns if amount is not None and ns > 0 else None


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _roof(peak: float | None, intensity: float | None, limits: Sheet | None) -> float | None:
    if peak is None or intensity is None or limits is None:
        return None
    return min(peak, intensity * limits.memory_bytes_per_s)


def _device(trace: Trace) -> str | None:
    """The name of the device with most GPU time, if the trace describes it."""
    names = {device.id: device.name for device in trace.devices if device.name}
    if len(set(names.values())) == 1:
        return next(iter(names.values()))
    ids, index = np.unique(trace.gpu.device, return_inverse=True)
    time = total(index.astype(np.intp), trace.gpu.duration, len(ids))
    return names.get(int(ids[np.argmax(time)])) if len(ids) else None


def _whole(trace: Trace, kinds: _Kinds, events: Places, work: _Work, ideal: Sequence[float | None]) -> dict[str, Any]:
    """The fields of a Roofline that are sums over the trace."""
    calls = work.calls.tolist()
    flops = sum(each.flops * count for each, count in zip(kinds.cost, calls, strict=True))
    ran = [(each, count, best) for each, count, best in zip(kinds.cost, calls, ideal, strict=True) if count]
    moved = [None if each.bytes is None else each.bytes * count for each, count, _ in ran]
    best = _sum([None if time is None else time * count for _, count, time in ran])
    gpu_ns = int(work.gpu_ns.sum())
    devices = len(np.unique(trace.gpu.device[events >= 0]))
    span = int(trace.gpu.end.max() - trace.gpu.start.min()) if len(trace.gpu) else 0
    return {
        "devices": devices,
        "flops": flops if ran else None,
        "bytes": None if None in moved or not ran else sum(each for each in moved if each is not None),
        "gpu_ns": gpu_ns,
        "flops_per_s": _per_second(flops, gpu_ns) if ran else None,
        "peak_share": _share(best, gpu_ns),
        "mfu": _share(best, span * devices),
        "unlaunched_flops": sum(
            each.flops * count for each, count in zip(kinds.cost, work.unlaunched.tolist(), strict=True)
        ),
        **_products(trace, events, gpu_ns),
    }


def _sum(values: Sequence[float | None]) -> float | None:
    """None where there is nothing, or something that is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _products(trace: Trace, events: Places, counted_ns: int) -> dict[str, Any]:
    """Time of all kernels that multiply matrices, and on which units."""
    product = _products_by_name(trace)
    units = np.zeros(len(trace.names), np.int8)
    for name in np.flatnonzero(product).tolist():
        told = uses_matrix_units(trace.names[name])
        units[name] = 0 if told is None else 1 if told else 2
    chosen = ((events >= 0) | product[trace.gpu.name]) & (trace.gpu.kind == Kind.KERNEL)
    named = chosen & product[trace.gpu.name]
    products_ns = int(trace.gpu.duration[chosen].sum())
    return {
        "products_ns": products_ns,
        "counted_share": _share(counted_ns, products_ns),
        "matrix_units_ns": int(trace.gpu.duration[named & (units[trace.gpu.name] == 1)].sum()),
        "other_units_ns": int(trace.gpu.duration[named & (units[trace.gpu.name] == 2)].sum()),
    }


def _steps(
    trace: Trace, kinds: _Kinds, events: Places, steps: Windows, ideal: Sequence[float | None]
) -> list[StepRate]:
    """A counted operator belongs to the step that its first kernel belongs to."""
    step = np.full(len(kinds.of), NONE, np.intp)
    there = np.flatnonzero(events >= 0)[::-1]
    step[events[there]] = steps.of_gpu[there]
    chosen = np.flatnonzero(step >= 0)
    keys, counts = np.unique(step[chosen] * max(len(kinds), 1) + kinds.of[chosen], return_counts=True)
    flops: list[int] = [0] * len(steps)
    nothing = None if all(time is None for time in ideal) else 0.0
    best: list[list[float | None]] = [[nothing] for _ in range(len(steps))]
    for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
        each = key % len(kinds)
        time = ideal[each]
        flops[key // len(kinds)] += kinds.cost[each].flops * count
        best[key // len(kinds)].append(None if time is None else time * count)
    devices = len(np.unique(trace.gpu.device[there]))
    lengths = (steps.end - steps.start).tolist()
    if not len(there):
        return [StepRate(name, None, None, None) for name in steps.names]
    return [
        StepRate(name, flops[i], _per_second(flops[i], lengths[i]), _share(_sum(best[i]), lengths[i] * devices))
        for i, name in enumerate(steps.names)
    ]
