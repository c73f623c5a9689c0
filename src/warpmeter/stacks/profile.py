"""What a profile holds, whoever wrote it: stacks by thread, weighed in one unit."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from warpmeter.stacks import Unit, Weighed

MOST: Final = 2**63 - 1
"""The largest weight that is taken; more is no measurement."""
NAMELESS: Final = "(no name)"
DEEPEST: Final = 1024
"""Frames of a stack that are kept, the innermost; more is a recursion that ran away."""
CUT: Final = "[cut off]"
SAMPLES_MOST: Final = 2**32 - 1
_FACTORS: Final[Mapping[str, tuple[Unit, float]]] = {
    "nanoseconds": ("microseconds", 1e-3),
    "microseconds": ("microseconds", 1.0),
    "milliseconds": ("microseconds", 1e3),
    "seconds": ("microseconds", 1e6),
    "bytes": ("bytes", 1.0),
    "kilobytes": ("bytes", 1024.0),
    "megabytes": ("bytes", 1024.0 * 1024.0),
    "count": ("count", 1.0),
    "none": ("count", 1.0),
}


class StacksError(ValueError):
    """What was given is no profile that can be read; the message says which file, where in it, and why."""


@dataclass(frozen=True)
class Who:
    """Whose stacks: 0 and '' where the profile does not tell."""

    pid: int = 0
    process: str = ""
    tid: int = 0
    thread: str = ""


@dataclass(frozen=True)
class Part:
    """The stacks of one thread, or of all where threads are not told apart; each stack once."""

    who: Who
    stacks: tuple[Weighed, ...]


@dataclass(frozen=True)
class Profile:
    """What one file holds. `duration_s` 0 and `at` (seconds since the epoch) None where it does not tell."""

    unit: Unit
    parts: tuple[Part, ...]
    duration_s: float = 0.0
    at: float | None = None

    def stacks(self) -> Iterator[tuple[Who, Weighed]]:
        """Every stack with whose it is."""
        return ((part.who, stack) for part in self.parts for stack in part.stacks)

    @property
    def weight(self) -> int:
        """Of all."""
        return sum(stack.weight for _, stack in self.stacks())

    def at_rate(self, hertz: float) -> "Profile":
        """The same weighed by time, of samples that were taken so often a second; raises ValueError of no rate."""
        if not (math.isfinite(hertz) and 0 < hertz <= 1e6):
            raise ValueError(f"{hertz:g} is no rate of sampling: say samples a second, 1e-6 to 1,000,000")
        if any(stack.samples == SAMPLES_MOST for _, stack in self.stacks()):
            raise ValueError(f"a stack in it has {SAMPLES_MOST:,} samples or more: those are no samples, but weights")
        found = self._weighed("microseconds", 1e6 / hertz)
        if found.weight > MOST:
            raise ValueError(f"at {hertz:g} samples a second it is {found.weight / 1e6:.3g} s, which is no measurement")
        return found

    def weighed_in(self, unit: Unit) -> "Profile":
        """The same numbers, said to be in another unit."""
        return replace(self, unit=unit)

    def _weighed(self, unit: Unit, factor: float) -> "Profile":
        parts = (
            Part(part.who, tuple(replace(each, weight=round(each.samples * factor)) for each in part.stacks))
            for part in self.parts
        )
        return replace(self, unit=unit, parts=tuple(parts))


def unit_of(name: str) -> tuple[Unit, float]:
    """The unit that weights of a unit of another profiler are kept in, and what to multiply by; raises ValueError."""
    found = _FACTORS.get(name.lower())
    if found is None:
        raise ValueError(f"the unit {name!r} is none that is known: {', '.join(_FACTORS)}")
    return found


class Gathered:
    """Adds up what a reader meets, each stack of each thread once, in the order of the first meeting."""

    def __init__(self) -> None:
        self._found: dict[Who, dict[tuple[str, ...], tuple[float, int]]] = {}

    def add(self, who: Who, frames: Iterable[str], weight: float, samples: int = 1) -> None:
        """So much of a stack; raises ValueError for what is no weight."""
        if not (math.isfinite(weight) and weight >= 0):
            raise ValueError(f"a weight of {weight} is none: it is 0 or more (a difference of profiles is no profile)")
        stacks, key = self._found.setdefault(who, {}), tuple(frames)
        if len(key) > DEEPEST:
            key = (CUT, *key[1 - DEEPEST :])
        before, seen = stacks.get(key, (0, 0))
        stacks[key] = before + weight, seen + samples

    def profile(self, unit: Unit, factor: float = 1.0, duration_s: float = 0.0, at: float | None = None) -> Profile:
        """All of it; what rounds to nothing is left out. Raises ValueError where there is nothing, or far too much."""
        parts = [Part(who, tuple(self._rounded(stacks, factor))) for who, stacks in self._found.items()]
        found = Profile(unit, tuple(part for part in parts if part.stacks), duration_s, at)
        if not found.parts:
            raise ValueError("there is no stack in it that weighs anything")
        if found.weight > MOST:
            raise ValueError(f"its weights add up to {found.weight:.3g} {unit}, which is no measurement")
        return found

    @staticmethod
    def _rounded(stacks: Mapping[tuple[str, ...], tuple[float, int]], factor: float) -> Iterator[Weighed]:
        for frames, (weight, samples) in stacks.items():
            scaled = weight if factor == 1.0 else weight * factor
            rounded = round(scaled) if math.isfinite(scaled) else MOST + 1
            if rounded:
                yield Weighed(frames or (NAMELESS,), rounded, min(samples, SAMPLES_MOST))


@lru_cache(maxsize=65536)
def clean(text: str) -> str:
    """A frame's text as it can be kept: one line of valid Unicode, never empty."""
    if not text.isprintable():
        text = "".join(
            each if each.isprintable() else "\ufffd" if "\ud800" <= each <= "\udfff" else " " for each in text
        )
    return text.strip() or NAMELESS
