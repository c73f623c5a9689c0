"""Shapes of the page's drawings as numbers: paths, ticks, positions. Nothing here knows of HTML."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from warpmeter.analysis.memory import DeviceMemory
from warpmeter.analysis.overview import Lane, Overview
from warpmeter.analysis.report import RankReport
from warpmeter.analysis.roofline import OperatorRate, Roofline
from warpmeter.analysis.steps import Step
from warpmeter.analysis.words import duration, percent, rate, size

STEPS: Final = 500
"""Steps that the chart of steps shows at most: the first ones."""


@dataclass(frozen=True)
class Part:
    """A part of a stacked bar: where it begins and how long it is, 0-100, and what is told of it."""

    kind: str
    start: float
    length: float
    text: str


@dataclass(frozen=True)
class Area:
    """A filled path; areas are drawn in their order, so that a lower one covers the one behind it."""

    kind: str
    path: str


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: its place, 0-100, and its text."""

    at: float
    text: str


@dataclass(frozen=True)
class Column:
    """One step of the chart: its parts from the bottom up, in a height of 100."""

    parts: list[Part]
    text: str


@dataclass(frozen=True)
class Point:
    """An operator in the roofline: its place, 0-100 from the left and the top, its radius, and what is told of it."""

    x: float
    y: float
    radius: float
    kind: str
    text: str


@dataclass(frozen=True)
class Roof:
    """The roofline: a broken line a type, points, and both logarithmic axes."""

    lines: list[tuple[str, str]]
    points: list[Point]
    below: list[Tick]
    beside: list[Tick]


def bar(parts: Iterable[tuple[str, str, int | None]], whole: int | None) -> list[Part]:
    """Parts of a whole side by side, each a kind, a name and ns; those without length are left out."""
    drawn: list[Part] = []
    start = 0.0
    for kind, name, ns in parts:
        if ns and whole:
            drawn.append(Part(kind, start, 100 * ns / whole, f"{name}: {duration(ns)}, {percent(ns / whole)}"))
            start += 100 * ns / whole
    return drawn


def time_bar(rank: RankReport) -> list[Part]:
    """The span: computation, what communication and copies it did not hide, and idle time."""
    return bar(
        [
            ("compute", "computation", rank.compute_ns),
            ("comm", "exposed communication", rank.exposed_comm_ns),
            ("mem", "exposed copies and sets", rank.exposed_mem_ns),
            ("idle", "idle", rank.idle_ns),
        ],
        rank.span_ns,
    )


def idle_bar(rank: RankReport) -> list[Part]:
    """Idle time by what the GPU waited for."""
    causes = rank.idle_causes
    if causes is None:
        return []
    return bar(
        [
            ("input", "input", causes.input_ns),
            ("wait", "a host that had waited for the GPU", causes.sync_ns),
            ("mem", "taking or giving back memory", causes.allocation_ns),
            ("calls", "the host's next launch", causes.launching_ns),
            ("idle", "nothing on the host: launched before", causes.device_ns),
            ("rest", "not known", causes.unknown_ns),
        ],
        rank.idle_ns,
    )


def lane_areas(lane: Lane, overview: Overview) -> list[Area]:
    """One lane: the busy part of each stretch, its parts on top of each other; the highest first."""
    sums = [0] * len(next(iter(lane.parts.values())))
    areas: list[Area] = []
    for kind, values in lane.parts.items():
        sums = [below + ns for below, ns in zip(sums, values, strict=True)]
        if any(values):
            areas.insert(0, Area(kind, _steps_path([_percent(ns, overview.stretch_ns) for ns in sums])))
    return areas


def _percent(part: float, whole: float) -> int:
    """Of 100, never 0 for something."""
    return max(1, min(100, round(100 * part / whole))) if part > 0 and whole > 0 else 0


def _steps_path(heights: Sequence[int]) -> str:
    """A path over columns of these heights (of 100), one wide each, closed at the bottom."""
    path, last = ["M0,100"], 0
    for x, height in enumerate(heights):
        if height != last:
            path.append(f"H{x}V{100 - height}")
            last = height
    return f"{''.join(path)}H{len(heights)}V100Z"


def time_ticks(length: int, count: int = 8) -> list[Tick]:
    """Round times from 0 to a length in ns."""
    if length <= 0:
        return []
    step = _round(length / count)
    return [Tick(100 * at / length, duration(at)) for at in (step * i for i in range(int(length / step) + 1))]


def size_ticks(most: float, count: int = 4) -> list[Tick]:
    """Round sizes from 0 to the most, from the top."""
    if most <= 0:
        return []
    unit = float(1 << 10 * max(0, int(math.log2(most)) // 10))
    step = _round(most / unit / count) * unit
    return [Tick(100 - 100 * at / most, size(at)) for at in (step * i for i in range(int(most / step) + 1))]


def _round(value: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= value * 0.999)


def step_marks(rank: RankReport) -> list[Tick]:
    """Where steps begin in the overview; named where there is room."""
    overview = rank.overview
    if overview is None or len(rank.steps) > 100:
        return []
    length = max(1, overview.end_ns - overview.start_ns)
    named = len(rank.steps) <= 12
    there = [
        step
        for step in rank.steps
        if step.start_ns < overview.end_ns and step.start_ns + step.duration_ns > overview.start_ns
    ]
    return [
        Tick(max(0.0, 100 * (step.start_ns - overview.start_ns) / length), step.name if named else "") for step in there
    ]


def step_columns(steps: Sequence[Step]) -> list[Column]:
    """What the GPU did in each step's window, as columns whose height is the window's length."""
    shown = steps[:STEPS]
    most = max((step.duration_ns for step in shown), default=0)
    return [Column(list(_step_parts(step, most)), _step_text(step)) for step in shown] if most else []


def _step_parts(step: Step, most: int) -> Iterator[Part]:
    low = 0.0
    during = step.during
    parts = (
        ("compute", during.compute_ns),
        ("comm", during.exposed_comm_ns),
        ("mem", during.exposed_mem_ns),
        ("idle", step.duration_ns if during.idle_ns is None else during.idle_ns),
    )
    for kind, ns in parts:
        if ns:
            yield Part(kind, low, 100 * ns / most, "")
            low += 100 * ns / most


def _step_text(step: Step) -> str:
    lines = [f"{step.name}: {duration(step.duration_ns)}"]
    figures = (
        ("computation", step.during.compute_ns),
        ("exposed communication", step.during.exposed_comm_ns),
        ("exposed copies", step.during.exposed_mem_ns),
        ("idle", step.during.idle_ns),
    )
    return "\n".join(lines + [f"{name} {duration(ns)}" for name, ns in figures if ns])


def memory_path(device: DeviceMemory) -> tuple[str, str]:
    """Allocated as an area and reserved as a line, in a box of 1,000 by 100; the second empty where it is not told."""
    line = device.timeline
    if not line.at_ns:
        return "", ""
    first, length = line.at_ns[0], max(1, line.at_ns[-1] - line.at_ns[0])
    most = memory_most(device)
    xs = [round(1000 * (at - first) / length, 1) for at in line.at_ns]
    allocated = _corners(xs, line.allocated_bytes, most)
    reserved = _corners(xs, line.reserved_bytes, most) if line.reserved_bytes else ""
    return f"M0,100{allocated}V100Z", f"M{reserved[1:].replace('V', ',', 1)}" if reserved else ""


def _corners(xs: Sequence[float], values: Sequence[int], most: float) -> str:
    return (
        "".join(f"H{x:g}V{100 - 100 * max(0, value) / most:.2f}" for x, value in zip(xs, values, strict=True)) + "H1000"
    )


def memory_most(device: DeviceMemory) -> float:
    """The height of the memory chart in bytes."""
    return max(1, device.peak_bytes, device.peak_reserved_bytes or 0)


def roof(found: Roofline) -> Roof | None:
    """Operators by arithmetic intensity and FLOP/s; None where none tells both."""
    rated = [each for each in found.operators if each.flops_per_byte and each.flops_per_s]
    if not rated:
        return None
    peaks = _peaks(found, rated)
    bandwidth = found.sheet.memory_bytes_per_s if found.sheet is not None else None
    xs = _Axis.around(
        [each.flops_per_byte or 1 for each in rated] + [peak / bandwidth for peak in peaks.values() if bandwidth]
    )
    ys = _Axis.around([each.flops_per_s or 1 for each in rated] + list(peaks.values()))
    lines = [(kind, _roof_line(peak, bandwidth, xs, ys)) for kind, peak in peaks.items() if bandwidth]
    most = max(each.gpu_ns for each in rated) or 1
    points = [
        Point(
            xs.place(each.flops_per_byte or 1),
            100 - ys.place(each.flops_per_s or 1),
            3 + 9 * math.sqrt(each.gpu_ns / most),
            each.bound or "rest",
            _rate_text(each),
        )
        for each in rated
    ]
    beside = [Tick(100 - at, rate(value, "FLOP/s")) for at, value in ys.decades()]
    return Roof(lines, points, [Tick(at, f"{value:g}") for at, value in xs.decades()], beside)


def _peaks(found: Roofline, rated: Iterable[OperatorRate]) -> Mapping[str, float]:
    if found.sheet is None:
        return {}
    peaks = found.sheet.peak_flops_per_s
    return {dtype: peaks[dtype] for dtype in dict.fromkeys(each.dtype for each in rated) if dtype in peaks}


def _rate_text(each: OperatorRate) -> str:
    share = "" if each.roof_share is None else f", {percent(each.roof_share)} of the roof"
    achieved = rate(each.flops_per_s or 0, "FLOP/s")
    return (
        f"{each.name} {each.dims}\n{achieved} at {each.flops_per_byte or 0:.3g} FLOP/B{share}\n{duration(each.gpu_ns)}"
    )


def _roof_line(peak: float, bandwidth: float, xs: "_Axis", ys: "_Axis") -> str:
    """From the left edge up along the memory's bandwidth, then level at the peak."""
    ridge = peak / bandwidth
    left = max(xs.low, ys.low / bandwidth)
    corners = (
        [(left, left * bandwidth), (ridge, peak), (xs.high, peak)] if ridge > left else [(left, peak), (xs.high, peak)]
    )
    return " ".join(f"{xs.place(x):.2f},{100 - ys.place(y):.2f}" for x, y in corners)


@dataclass(frozen=True)
class _Axis:
    """Logarithmic, from one power of ten to another."""

    low: float
    high: float

    @classmethod
    def around(cls, values: Sequence[float]) -> "_Axis":
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 0.1)
        return cls(10.0**low, 10.0 ** max(high, low + 1))

    def place(self, value: float) -> float:
        """0 at the low end, 100 at the high one."""
        return 100 * math.log10(value / self.low) / math.log10(self.high / self.low)

    def decades(self) -> list[tuple[float, float]]:
        count = round(math.log10(self.high / self.low))
        every = max(1, count // 8)
        return [(100 * i / count, self.low * 10.0**i) for i in range(0, count + 1, every)]
