"""Which ranks, which steps: numbers as people write them, and a trace cut to its steps."""

import re
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from warpmeter.analysis.trace import Booleans, Frames, GpuAnnotations, GpuEvents, Int64s, Places, Trace
from warpmeter.analysis.windows import Windows, place

_PART: Final = re.compile(r"(\d+)(?:-(\d+))?")
_RANK: Final = re.compile(r"rank[-_=.]?(\d{1,6})(?!\d|.*rank[-_=.]?\d)", re.I)


@dataclass(frozen=True)
class Numbers:
    """A set of whole numbers as ranges, first and last included."""

    ranges: tuple[tuple[int, int], ...]

    def __contains__(self, number: int) -> bool:
        return any(first <= number <= last for first, last in self.ranges)

    def __str__(self) -> str:
        return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in self.ranges)


def numbers(text: str) -> Numbers:
    """`5`, `5-8`, `0,8-11`; raises ValueError for what is none."""
    found = [_PART.fullmatch(part.strip()) for part in text.split(",")]
    ranges = [(int(part[1]), int(part[2] or part[1])) for part in found if part]
    if len(ranges) != len(found) or any(first > last for first, last in ranges):
        raise ValueError(f"{text!r}: write numbers as 5, 5-8 or 0,8-11")
    return Numbers(tuple(ranges))


def rank_in(file: str) -> int | None:
    """The rank that a file's name tells, as the profiler's handlers and people write it: `rank3.json.gz`."""
    found = _RANK.search(file.rsplit("/", 1)[-1])
    return int(found[1]) if found else None


class SelectionError(ValueError):
    """Steps were asked for that the trace does not have; says which it has."""


def chosen(steps: Windows, wanted: Numbers) -> Places:
    """The places of the steps with these numbers (their place in time, from 0, where they have none)."""
    numbers = [index if number is None else number for index, number in enumerate(steps.numbers)]
    found = np.flatnonzero([number in wanted for number in numbers])
    if not len(found):
        have = f"it has {min(numbers)} to {max(numbers)}" if numbers else "none were found in it"
        raise SelectionError(f"no step {wanted} in this trace; {have}")
    return found


def cut(trace: Trace, steps: Windows, where: Places) -> Trace:
    """The trace of some steps alone: what the host began within their windows, and the GPU events launched there.

    Python frames that reach into the steps from outside are kept, cut at the first step's start and the last one's end.
    """
    inside = partial(_inside, steps, where)
    tables = {
        name: (table := getattr(trace, name)).take(inside(table.start))
        for name in ("calls", "operators", "annotations", "waits", "allocations", "flows", "counters")
    }
    gpu = trace.gpu.take(np.isin(steps.of_gpu, where))
    seen = _during(trace.gpu_annotations, gpu)
    frames = _clipped(trace.frames, int(steps.start[where[0]]), int(steps.end[where[-1]]))
    return replace(trace, gpu=gpu, gpu_annotations=trace.gpu_annotations.take(seen), frames=frames, **tables)


def _inside(steps: Windows, where: Places, at: Int64s) -> Booleans:
    return np.isin(place(at, steps.start, steps.end), where)


def _during(annotations: GpuAnnotations, gpu: GpuEvents) -> Booleans:
    """Which of them begin while these events run."""
    if not len(gpu):
        return np.zeros(len(annotations), np.bool_)
    first, last = int(gpu.start[0]), int(gpu.end.max())
    return (annotations.start >= first) & (annotations.start < last)


def _clipped(frames: Frames, start: int, end: int) -> Frames:
    within = frames.take((frames.start < end) & (frames.end > start))
    begins, ends = np.maximum(within.start, start), np.minimum(within.end, end)
    return replace(within, start=begins, duration=ends - begins)
