"""Kernels of a run's captures against those of the runs before it: which came, went, got slower. Pure.

A run has hundreds of kernels, so chance has many tries: told is what costs `COSTS` of the GPU time by being slower, and
is slower as `detect` has it of runs. Where fewer runs were captured than that takes, it is slower than in each of them
by half of what they differ by, and by `LEAST` of their median.
"""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from warpmeter.regressions.detect import is_worse, past_of
from warpmeter.regressions.runs import Kernel, Run
from warpmeter.regressions.said import KernelChange, What

LEAST: Final = 0.10
APART: Final = 0.5
"""Of what the runs before differ by: so much slower than the slowest of them."""
COSTS: Final = 0.01
SEEN: Final = 0.01
"""Of the GPU time: a kernel of less comes and goes unseen."""
FEWEST: Final = 2
"""Runs with captures before, at least."""
TOLD: Final = 20


def kernel_changes(now: Run, past: Sequence[Run]) -> tuple[KernelChange, ...]:
    """The costliest first."""
    before = [run.kernels for run in past if run.kernels]
    if not now.kernels or len(before) < FEWEST:
        return ()
    found = [*_slower(now, past), *_came(now, past), *_went(now, past)]
    return tuple(sorted(found, key=lambda each: (-_cost(each), each.name))[:TOLD])


def _cost(change: KernelChange) -> float:
    """Share of the GPU time that it makes."""
    if change.before is not None and change.now is not None:
        return change.share * (1 - change.before / change.now)
    return change.share


def _slower(now: Run, past: Sequence[Run]) -> Iterator[KernelChange]:
    for key, kernel in now.kernels.items():
        means = [run.kernels[key].mean_seconds for run in past if key in run.kernels]
        if len(means) < FEWEST or not _is_slower(kernel.mean_seconds, means):
            continue
        change = _change("slower", key, kernel, median(means), kernel.mean_seconds)
        if _cost(change) >= COSTS:
            yield change


def _is_slower(mean: float, means: Sequence[float]) -> bool:
    if (past := past_of(means)) is not None:
        return is_worse(mean, past, up=True)
    return mean > max(means) + APART * (max(means) - min(means)) and mean >= (1 + LEAST) * median(means)


def _came(now: Run, past: Sequence[Run]) -> Iterator[KernelChange]:
    """Not there in any of the runs before that were captured on that model of GPU."""
    for key, kernel in now.kernels.items():
        seen = [run for run in past if any(model == key[0] for model, _ in run.kernels)]
        if kernel.share >= SEEN and len(seen) >= FEWEST and not any(key in run.kernels for run in seen):
            yield _change("came", key, kernel, None, kernel.mean_seconds)


def _went(now: Run, past: Sequence[Run]) -> Iterator[KernelChange]:
    """There in each of them."""
    models = {model for model, _ in now.kernels}
    seen = [run for run in past if run.kernels]
    for key, kernel in seen[-1].kernels.items():
        everywhere = all(key in run.kernels for run in seen)
        if kernel.share >= SEEN and key[0] in models and key not in now.kernels and everywhere:
            yield _change("went", key, kernel, kernel.mean_seconds, None)


def _change(what: What, key: tuple[str, str], kernel: Kernel, before: float | None, now: float | None) -> KernelChange:
    return KernelChange(what, key[1], kernel.short_name, key[0], before, now, kernel.share)
