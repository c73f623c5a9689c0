"""One run: play a seed's faults on the world, mend it, drain it, compare."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.crash import plan
from tests.crash.compare import Comparison, compare, drain
from tests.crash.plan import Fault
from tests.crash.world import Ended, World

TICK_S: Final = 0.02
LEAST_UNDER_FAULTS: Final = 0.25
"""At least this share of the rows must land while faults go on: a consumer that only recovers at the end is none."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """What a run did and found."""

    seed: int
    minutes: float
    faults: Sequence[Fault]
    ended: Sequence[Ended]
    comparison: Comparison
    took_s: float

    @property
    def kinds(self) -> Mapping[str, int]:
        """Faults by kind."""
        return plan.counts(self.faults)

    @property
    def findings(self) -> Sequence[str]:
        """What is wrong; empty after a run in which nothing was lost or doubled."""
        return self.comparison.findings


def run(seed: int, minutes: float, folder: Path, tell: Tell) -> Outcome:
    """All of it, under `folder`. `tell` takes progress and each fault as it begins, in words."""
    began, seconds = time.monotonic(), minutes * 60
    faults = plan.make(seed, seconds)
    tell(f"starting three brokers and an engine under {folder}")
    with closing(World(folder)) as world:
        world.start()
        _play(world, faults, seconds, tell)
        chaos_ended = time.time()
        tell("mending")
        world.mend()
        world.feed.flush()
        drain(world, tell)
        wrong = world.stop_ingest()
        tell("comparing")
        found = compare(world, chaos_ended)
        found.differ("consumers that did not stop", wrong)
        found.differ("consumers that halted", (f"{item.who}: {item.words}" for item in world.ended if item.halted))
        _demand_progress(found)
    return Outcome(seed, minutes, faults, tuple(world.ended), found, round(time.monotonic() - began, 1))


def _play(world: World, faults: Sequence[Fault], seconds: float, tell: Tell) -> None:
    """Do what is due when it is due; between that produce, and start again what ended by itself."""
    due, done, ended = plan.steps(faults), 0, 0
    while (elapsed := time.monotonic() - world.began) < seconds or due:
        world.feed.due(min(elapsed, seconds))
        world.watch()
        for item in world.ended[ended:]:
            tell(f"{item.who} ended by itself at {item.at_s:g} s with status {item.code}: {item.words[-200:]}")
        ended = len(world.ended)
        while due and due[0].at_s <= elapsed:
            step = due.pop(0)
            if step.first:
                done += 1
                state = f"{world.feed.acknowledged_rows} rows acknowledged, {world.up} consumers"
                tell(f"{done}/{len(faults)} {step.fault}; {state}")
            step.step.do(world)
        time.sleep(TICK_S)


def _demand_progress(found: Comparison) -> None:
    share = found.figures["landed under faults, share"]
    if share < LEAST_UNDER_FAULTS:
        found.findings.append(f"only {share:.0%} of the rows landed while faults went on, the rest after them")
