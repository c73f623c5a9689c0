"""Whether numbers got worse: one run against the runs before it, and one place in a series of windows. Pure.

**Between runs** (`worse_runs`): each run is one figure, held against those before it by Student's prediction interval,
with the trimmed mean and the winsorised deviation of Tukey and McLaughlin (Sankhya A 25, 1963) in place of mean and
deviation, so that an odd run in the past does not hide the next one. A run that is worse does not become a part of the
past that later ones are held against: what got worse stays worse until it is `REMEMBERED` runs old. Where the past
itself has a change for the better, what was before that counts no more.

**Within a run** (`change_point`): Pettitt's rank test (Applied Statistics 28, 1979) for one change of the median at an
unknown place. Windows follow each other and are not independent, so its variance is multiplied by
(1 + r) / (1 - r), r being their correlation from one to the next once the change itself is taken out (Bayley and
Hammersley, 1946; for Pettitt's test: Serinaldi and Kilsby, 2016).

Both ask for more than chance: a change of at least `LEAST` between runs and `LEAST_WITHIN` within one. How often clean
series are said to be worse is measured by tests/unit/test_regressions_detect.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Series = NDArray[np.float64]

FALSE_ALARMS: Final = 0.001
"""So often is a clean run said to be worse, of one metric, where runs differ as a normal distribution has it."""
NEARLY: Final = 0.7
CHANCE: Final = 0.01
"""The same of a series of windows by Pettitt's test alone; with what is asked for beside it, FALSE_ALARMS."""
LEAST: Final = 0.05
LEAST_WITHIN: Final = 0.10
"""Smaller changes are not told, however sure: of the figure before."""
FEWEST_RUNS: Final = 4
"""Fewer in the past tell nothing about how much runs differ."""
REMEMBERED: Final = 20
"""So many runs before it are what a run is held against."""
FLOOR: Final = 0.005
"""Runs that agree better than so are taken to differ by it: figures are rounded."""
SHORTEST: Final = 5
"""Windows on either side of a change, at least; or runs."""
FEWEST_WINDOWS: Final = 12
PAST_CHANCE: Final = 0.05
"""A past that is taken for changed and was not is only shorter."""
DEVIATIONS: Final = 2.0
"""A change within a run is more than so many deviations of its windows."""
_MAD: Final = 1.4826
"""Of the median absolute deviation to the deviation of a normal distribution."""
_T: Final = (
    318.31, 22.327, 10.215, 7.173, 5.893, 5.208, 4.785, 4.501, 4.297, 4.144, 4.025, 3.930, 3.852, 3.787, 3.733, 3.686,
    3.646, 3.610, 3.579, 3.552,
)  # fmt: skip
"""Student's t that is passed once in 1,000, by degrees of freedom from 1."""


@dataclass(frozen=True)
class Past:
    """What runs before were like: the middle of them, how far the next may be off, how many there were."""

    middle: float
    within: float
    runs: int


@dataclass(frozen=True)
class Worse:
    """A run that is worse than those before it: its place, theirs, and since which run it has been so."""

    at: int
    past: Past
    since: int


@dataclass(frozen=True)
class Change:
    """A series that changed for the worse: the first window of what came after, and both medians; `p` of chance."""

    at: int
    before: float
    after: float
    p: float


def _t(degrees: int) -> float:
    """Of FALSE_ALARMS; beyond the table by the first term of Fisher's expansion."""
    if degrees <= len(_T):
        return _T[degrees - 1]
    z = NormalDist().inv_cdf(1 - FALSE_ALARMS)
    return z + (z**3 + z) / (4 * degrees)


def past_of(figures: Sequence[float]) -> Past | None:
    """What the next run may be like, by those before it; None where there are too few."""
    if len(figures) < FEWEST_RUNS:
        return None
    values = np.sort(np.asarray(figures, dtype=np.float64))
    cut = 0 if len(values) < 6 else max(1, len(values) // 10)
    kept = values[cut : len(values) - cut]
    winsorised = np.clip(values, kept[0], kept[-1])
    scale = float(winsorised.std(ddof=1)) * ((len(values) - 1) / (len(kept) - 1)) ** 0.5
    middle = float(kept.mean())
    scale = max(scale, FLOOR * abs(middle))
    return Past(middle, _t(len(kept) - 1) * scale * (1 + 1 / len(kept)) ** 0.5, len(values))


def is_worse(figure: float, past: Past, up: bool) -> bool:
    """Whether a run is worse than chance has it; `up`: more is worse."""
    by = figure - past.middle if up else past.middle - figure
    return by > past.within and by >= LEAST * abs(past.middle)


def worse_runs(figures: "Sequence[float] | Series", up: bool) -> list[Worse]:
    """Of all runs of a job, the earliest first, those that are worse than the ones before."""
    good: list[float] = []
    found: list[Worse] = []
    since: int | None = None
    for at, figure in enumerate(map(float, figures)):
        past = past_of(_of_now(good, up))
        if past is None or not is_worse(figure, past, up):
            good = [*good, figure][-REMEMBERED:]
            since = None
            continue
        since = at if since is None else since
        found.append(Worse(at, past, since))
        if at - since >= REMEMBERED:  # what it is by now
            good, since = [float(each) for each in figures[since : at + 1]][-REMEMBERED:], None
    return found


def _of_now(figures: Sequence[float], up: bool) -> Sequence[float]:
    """The past since it last changed for the better."""
    better = change_point(figures, not up, LEAST, PAST_CHANCE)
    return figures if better is None else figures[better.at :]


def change_point(
    figures: "Sequence[float] | Series", up: bool, least: float = LEAST_WITHIN, chance: float = CHANCE
) -> Change | None:
    """Where a series changed for the worse, and stayed so; None where it did not, or is too short to tell.

    Of several changes the last: what came before is held against it while it is worse than that.
    """
    values = np.asarray(figures, dtype=np.float64)
    if _is_level(values, least):
        return None
    start, end, found = 0, len(values), None
    for _ in range(8):  # each looks at what is after, or before, the change before
        part = values[start:end]
        if len(part) < 2 * SHORTEST or (split := _pettitt(part))[1] > chance:
            break
        at, p = split
        before, after = float(np.median(part[:at])), float(np.median(part[at:]))
        by = after - before if up else before - after
        if by > 0 and _large(part, at, abs(by), least):
            found = Change(start + at, before, after, p)
            start += at
        elif by > 0:
            break
        else:  # it got better there: what follows is what counts
            found, start = None, start + at
    return found if found is None or len(values) - found.at >= SHORTEST else None


def _is_level(values: Series, least: float) -> bool:
    """Whether medians of SHORTEST windows each are so close that no change of `least` can be there: most series are,
    and are looked at no further."""
    parts = len(values) // SHORTEST
    if parts < 2:
        return True
    medians = np.median(values[len(values) - parts * SHORTEST :].reshape(parts, SHORTEST), axis=1)
    return float(np.ptp(medians)) < NEARLY * least * abs(float(np.median(medians)))


def _large(part: Series, at: int, by: float, least: float) -> bool:
    before = float(np.median(part[:at]))
    return by >= least * abs(before) and by > DEVIATIONS * _deviation(_flat(part, at))


def _flat(part: Series, at: int, deep: int = 2) -> Series:
    """What is left of it without the change, and without those that stand out on either side of it."""
    flat: Series = np.concatenate([_side(side, deep) for side in (part[:at], part[at:])])
    return flat


def _side(side: Series, deep: int) -> Series:
    plain: Series = side - np.median(side)
    if not deep or len(side) < 2 * SHORTEST:
        return plain
    at, _ = _split(side)
    flat = _flat(side, at, deep - 1)
    apart = abs(float(np.median(side[:at]) - np.median(side[at:])))
    return flat if apart > 2 * DEVIATIONS * _deviation(flat) else plain


def _deviation(flat: Series) -> float:
    return float(_MAD * np.median(np.abs(flat)))


def _pettitt(values: Series) -> tuple[int, float]:
    """The first place after the change, and how probable it is by chance."""
    count = len(values)
    at, statistic = _split(values)
    inflated = (count**3 + count**2) * _inflation(_ranks(_flat(values, at)))
    return at, float(min(1.0, 2 * np.exp(-6 * statistic**2 / inflated)))


def _split(values: Series) -> tuple[int, float]:
    """Where both sides differ most by their ranks, and Pettitt's K there."""
    count = len(values)
    u = 2 * np.cumsum(_ranks(values))[:-1] - np.arange(1, count) * (count + 1)
    u[: SHORTEST - 1] = u[count - SHORTEST :] = 0
    at = int(np.argmax(np.abs(u)))
    return at + 1, float(abs(u[at]))


def _ranks(values: Series) -> Series:
    """From 1; equal ones share the mean of theirs."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    shared: Any = ends - (counts - 1) / 2
    ranks: Series = shared[which]
    return ranks


def _inflation(ranks: Series) -> float:
    """By how much windows that follow each other tell less than as many that do not."""
    flat = ranks - ranks.mean()
    square = float((flat * flat).sum())
    if not square:
        return 1.0
    follows = float((flat[:-1] * flat[1:]).sum()) / square
    r = min(0.95, max(0.0, follows + 1 / len(ranks)))  # its estimate is too low by about so much
    return (1 + r) / (1 - r)
