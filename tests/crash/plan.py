"""A seed's sequence of faults: the same for the same seed and length, whatever the machine does with them."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.crash.faults import KINDS, Draw, Injection, Kind, Step

FIRST_S: Final = 4.0
"""Time for the group to form."""
GAP_S: Final = (1.5, 6.0)
"""Between one fault's begin and the next one's; faults of different victims overlap."""


@dataclass(frozen=True)
class Fault:
    """One fault: when it begins (seconds after the start), its kind, what it does."""

    at_s: float
    kind: str
    injection: Injection

    def __str__(self) -> str:
        return f"{self.at_s:8.2f} s  {self.kind}: {self.injection.says}"


@dataclass(frozen=True)
class Due:
    """A step of a fault by its time after the start; `first` begins a fault."""

    at_s: float
    fault: Fault
    step: Step
    first: bool


def make(seed: int, seconds: float) -> tuple[Fault, ...]:
    """The faults that begin within `seconds`."""
    draw = Draw(random.Random(seed))
    faults = []
    draw.now = FIRST_S
    while draw.now < seconds:
        kind, injection = _next(draw)
        faults.append(Fault(round(draw.now, 2), kind.name, injection))
        draw.busy |= {thing: draw.now + until_s for thing, until_s in injection.busy.items()}
        draw.up = (draw.up | injection.joined) - injection.left
        draw.now += draw.between(*GAP_S)
    return tuple(faults)


def _next(draw: Draw) -> tuple[Kind, Injection]:
    """A kind by its weight; one whose victims are all busy is drawn again (poison has none)."""
    while True:
        (kind,) = draw.rng.choices(KINDS, [kind.weight for kind in KINDS])
        if (injection := kind.draw(draw)) is not None:
            return kind, injection


def steps(faults: Sequence[Fault]) -> list[Due]:
    """All steps in the order in which they are due."""
    found = [
        Due(fault.at_s + step.after_s, fault, step, place == 0)
        for fault in faults
        for place, step in enumerate(fault.injection.steps)
    ]
    return sorted(found, key=lambda due: due.at_s)


def counts(faults: Sequence[Fault]) -> Mapping[str, int]:
    """How many of each kind, in the table's order."""
    found = Counter(fault.kind for fault in faults)
    return {kind.name: found[kind.name] for kind in KINDS}
