"""Two ranks' clocks, held against each other by the collectives that both took part in.

Which of them match is not told by most traces, so it is found: a few collectives of one rank vote, each with its
distance to every alike one of the other; the offsets that many of them agree on are tried on all, and the one whose
ends agree best is taken (among equals the one nearest to what is expected). A line is fitted where the clocks run at
different speeds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from warpmeter.analysis.job.sequences import Sequence as Meetings
from warpmeter.analysis.job.sequences import Shared, nearest
from warpmeter.analysis.trace import Booleans, Int64s, Places

VOTERS: Final = 96
"""Collectives of one rank that look for their like on the other."""
NEAR: Final = 500
"""How many alike ones to either side of the expected moment each of them looks at."""
CANDIDATES: Final = 12
"""Offsets that are tried on all collectives, of either width."""
TIGHT_NS: Final = 20_000
"""Voters that agree so closely count for themselves: loose agreement is found with many offsets when steps are even."""
CENTRE_NS: Final = 1_000_000_000
"""Voters are taken from no longer a time in the middle, in which drifting clocks stay close to an offset."""
SOME: Final = 24
"""How many are taken from the middle at least."""
FAST_DRIFT: Final = 2e-4
"""A clock that nobody keeps may run as fast."""
TOLERANCE_NS: Final = (100_000, 5_000_000)
"""Least and most that ends may differ by when the match is looked for."""
TRIED: Final = 500
"""Collectives on which a candidate is tried."""
FASTEST_DRIFT: Final = 1e-3
"""What runs away faster is no clock."""
BINS: Final = 32
"""Into how many parts of the time the matches are divided to see a drift."""
SAME_NS: Final = 2_000
"""Candidates that come as close to each other (and some spreads more) are one."""
FEW: Final = 6
"""Of fewer matches the spread says little."""
MANY: Final = 0.6
"""Share of the most votes, or matches, from which an offset is as good as the best."""


@dataclass(frozen=True)
class Line:
    """How far a clock is ahead of another at its own time `t`: `offset_ns` + `drift` (t - `origin_ns`)."""

    offset_ns: int
    drift: float = 0.0
    origin_ns: int = 0

    def at(self, times: Int64s) -> Int64s:
        """How far it is ahead at each time."""
        drifted: Int64s = np.rint(self.drift * (times - self.origin_ns)).astype(np.int64)
        return drifted + self.offset_ns

    def moved(self, times: Int64s) -> Int64s:
        """The times by the other clock."""
        return times - self.at(times)

    def then(self, other: "Line") -> "Line":
        """To a third clock: the offset of this clock from the one that `other` leads to."""
        there = self.origin_ns - self.offset_ns
        second = other.offset_ns + round(other.drift * (there - other.origin_ns))
        return Line(
            self.offset_ns + second,
            self.drift + other.drift * (1 - self.drift),
            self.origin_ns,
        )


@dataclass(frozen=True)
class Fit:
    """`spread_ns` and `transfer_ns` (the median) of the `matched` collectives that the line was laid through."""

    line: Line
    matched: int
    spread_ns: float
    transfer_ns: int
    doubt_ns: int = 0
    """How far off another offset is that fits as well."""


@dataclass(frozen=True)
class Expected:
    """The offset that is likely before anything is compared.

    `within_ns` is how far off it may be when numbers of steps tell it: half a step; None for wall clocks.
    """

    offset_ns: int = 0
    within_ns: int | None = None


def compare(a: Meetings, b: Meetings, expected: Expected = Expected()) -> Fit | None:
    """How far `b`'s clock is ahead of `a`'s, None where too little matches.

    By collectives that nobody leaves early alone, where these suffice; else by all.
    """
    for symmetric in (True, False):
        shared = Shared.of(a, b, symmetric=symmetric)
        if shared is None:
            continue
        expected = expected if expected.within_ns is not None else _together(shared)
        tries = [_follow(shared, offset) for offset in _candidates(shared, expected.offset_ns)]
        best = _best([fit for fit in tries if fit is not None], expected, shared)
        if best is not None:
            settled = _settle(shared, np.arange(len(shared.b)), best.line, _tolerance(shared))
            return settled and replace(settled, doubt_ns=best.doubt_ns)
    return None


def _together(shared: Shared) -> Expected:
    """Wall clocks where by them both captures were made at one time; else their middles are one moment."""
    a, b = shared.a.end, shared.b.end
    both = min(int(a.max()), int(b.max())) - max(int(a.min()), int(b.min()))
    shorter = min(int(a.max() - a.min()), int(b.max() - b.min()))
    if both >= shorter // 2:
        return Expected()
    return Expected((int(b.max()) + int(b.min()) - int(a.max()) - int(a.min())) // 2)


def _tolerance(shared: Shared) -> int:
    least, most = TOLERANCE_NS
    lengths = np.concatenate([shared.a.end - shared.a.start, shared.b.end - shared.b.start])
    return int(np.clip(np.quantile(lengths, 0.25) / 2, least, most))


def _candidates(shared: Shared, expected: int) -> list[int]:
    """Offsets on which voters agree, closely or loosely, most votes first."""
    differences = np.sort(_differences(shared, _voters(shared), expected))
    close = _agreed(differences, expected, TIGHT_NS)
    loose = _agreed(differences, expected, 2 * _tolerance(shared))
    return [*close, *(offset for offset in loose if offset not in close)]


def _agreed(differences: Int64s, expected: int, width: int) -> list[int]:
    """Medians of the differences that lie in windows of that width, those with many first, of equals the expected."""
    found: list[int] = []
    most = 0
    while len(differences) and len(found) < CANDIDATES:
        votes = np.searchsorted(differences, differences + width, side="right") - np.arange(len(differences))
        top = int(votes.max())
        most = most or top
        if top < MANY * most:
            break
        tied = np.flatnonzero(votes == top)
        first = tied[np.argmin(np.abs(differences[tied] - expected))]
        chosen = differences[first : first + top]
        found.append(int(np.median(chosen)))
        differences = differences[(differences < chosen[0]) | (differences > chosen[-1])]
    return found


def _voters(shared: Shared) -> Places:
    """Places in `b`: rare kinds first, from the middle of the time."""
    central = _central(shared)
    _, which, counts = np.unique(shared.b_code[central], return_inverse=True, return_counts=True)
    rare = central[np.lexsort((central, which, counts[which]))]
    enough = np.cumsum(np.sort(counts))
    kinds = min(int(np.searchsorted(enough, VOTERS)), len(enough) - 1)
    return _evenly(rare[: int(enough[kinds])], VOTERS)


def _central(shared: Shared) -> Places:
    """Places in `b` around the middle: so near it that no drift makes one be taken for the next, but always some."""
    far = np.abs(shared.b.end - _middle(shared))
    spacing = np.diff(np.sort(shared.b.end))
    usual = float(np.quantile(spacing, 0.1)) if len(spacing) else 0.0
    near = np.flatnonzero(far <= min(usual / 4 / FAST_DRIFT, CENTRE_NS / 2))
    return near if len(near) >= SOME else np.sort(np.argsort(far, kind="stable")[:SOME])


def _middle(shared: Shared) -> int:
    return (int(shared.b.end[0]) + int(shared.b.end[-1])) // 2


def _evenly(places: Places, most: int) -> Places:
    if len(places) <= most:
        return places
    return places[np.linspace(0, len(places) - 1, most).astype(np.intp)]


def _differences(shared: Shared, voters: Places, expected: int) -> Int64s:
    """Of each voter's end to the ends of the alike ones around where it is expected."""
    found = [np.zeros(0, np.int64)]
    for code in np.unique(shared.b_code[voters]).tolist():
        ends = np.sort(shared.a.end[shared.a_code == code])
        for end in shared.b.end[voters[shared.b_code[voters] == code]].tolist():
            at = int(np.searchsorted(ends, end - expected))
            found.append(end - ends[max(at - NEAR, 0) : at + NEAR])
    return np.concatenate(found)


def _follow(shared: Shared, offset: int) -> Fit | None:
    """Tries an offset on collectives ever farther from the middle, with the drift that the nearer ones show."""
    far = np.abs(shared.b.end - _middle(shared))
    line, tolerance = Line(offset, 0.0, _middle(shared)), _tolerance(shared)
    inside, reach = _central(shared), 0
    while len(inside) < len(far):
        line = _match(shared, _evenly(inside, TRIED), line, tolerance) or line
        reach = 4 * max(reach, int(far[inside].max()), 1)
        inside = np.flatnonzero(far <= reach)
    return _settle(shared, _evenly(inside, TRIED), line, tolerance)


def _match(shared: Shared, places: Places, line: Line, tolerance: int) -> Line | None:
    other, difference = nearest(shared, places, line)
    good = np.abs(difference) <= tolerance
    if not good.any():
        return None
    return _fit(shared.b.end[places[good]], shared.b.end[places[good]] - shared.a.end[other[good]], line.origin_ns)


def _settle(shared: Shared, places: Places, line: Line, tolerance: int) -> Fit | None:
    """The line through those of `places` that match, of these the short transfers where there are enough."""
    for _ in range(3):
        other, difference = nearest(shared, places, line)
        good = _mutual(other, difference, tolerance) & shared.together(places, other)
        if not good.any():
            return None
        mine, theirs = places[good], other[good]
        transfer = np.minimum(shared.b.end[mine] - shared.b.start[mine], shared.a.end[theirs] - shared.a.start[theirs])
        short = transfer <= 4 * np.quantile(transfer, 0.1)
        short = short if short.sum() >= 8 else np.ones(len(transfer), np.bool_)
        at, ahead = shared.b.end[mine[short]], shared.b.end[mine[short]] - shared.a.end[theirs[short]]
        line = _fit(at, ahead, line.origin_ns)
        spread = _spread(ahead - line.at(at))
        tolerance = min(tolerance, round(9 * spread) + int(np.median(transfer)) + 1_000)
    if abs(line.drift) > FASTEST_DRIFT:
        return None
    return Fit(line, int(good.sum()), spread, int(np.median(transfer[short])))


def _mutual(other: Places, difference: Int64s, tolerance: int) -> Booleans:
    """Matches within the tolerance, of several with one and the same the nearest."""
    good = np.abs(difference) <= tolerance
    order = np.lexsort((np.abs(difference), other))
    again = np.zeros(len(other), np.bool_)
    again[order[1:]] = other[order[1:]] == other[order[:-1]]
    return good & ~again


def _best(fits: Sequence[Fit], expected: Expected, shared: Shared) -> Fit | None:
    """Of the fits that match about as much as any, those with about the least spread; of these the one expected.

    Steps may be so even that an offset by whole steps fits as well. Then the numbers of the steps decide; without
    them more matches weigh more than wall clocks, for captures are begun together and clocks are set apart. What fits
    as well in every way is the doubt that is left.
    """
    inside = [fit for fit in fits if abs(fit.line.offset_ns - expected.offset_ns) <= (expected.within_ns or 0)]
    fits = inside or fits
    most = max((fit.matched for fit in fits), default=0)
    if most < min(2, len(shared.a), len(shared.b)):
        return None
    many = [fit for fit in fits if fit.matched >= MANY * most]
    least = min(fit.spread_ns for fit in many)
    about = 2 * least + 1_000 if most >= FEW else max(2 * least, TIGHT_NS)
    close = [fit for fit in many if fit.spread_ns <= about]
    if len(close) > 1:
        close = _most(close, [_matches(shared, fit) for fit in close], min(len(shared.a), len(shared.b)))
    best = min(close, key=lambda fit: abs(fit.line.offset_ns - expected.offset_ns))
    apart = [abs(fit.line.offset_ns - best.line.offset_ns) for fit in close]
    same = SAME_NS + round(6 * best.spread_ns)
    return replace(best, doubt_ns=max((each for each in apart if each > same), default=0))


def _most(fits: Sequence[Fit], matches: Sequence[int], whole: int) -> list[Fit]:
    """Those with most matches; about as many are as good where the profiler lost some, so that none matches all."""
    enough = max(matches) if max(matches) == whole else 0.95 * max(matches)
    return [fit for fit, number in zip(fits, matches, strict=True) if number >= enough]


def _matches(shared: Shared, fit: Fit) -> int:
    """How many of all match."""
    other, difference = nearest(shared, np.arange(len(shared.b)), fit.line)
    return int(_mutual(other, difference, _tolerance(shared)).sum())


def _fit(at: Int64s, ahead: Int64s, origin: int) -> Line:
    """A level line, or a tilted one where that is clearly better."""
    flat = Line(int(np.median(ahead)), 0.0, origin)
    length = int(at.max() - at.min())
    if len(at) < 8 or not length:
        return flat
    tilted = flat
    for _ in range(3):  # each pass takes the tilt within the bins out of the next
        slope = _slope(at, ahead - tilted.at(at))
        level = ahead - tilted.offset_ns - np.rint((tilted.drift + slope) * (at - origin)).astype(np.int64)
        tilted = Line(tilted.offset_ns + int(np.median(level)), tilted.drift + slope, origin)
    return tilted if abs(tilted.drift) * length > 3 * _spread(ahead - tilted.at(at)) else flat


def _slope(at: Int64s, ahead: Int64s) -> float:
    """The median slope between medians of parts of the time (Theil-Sen)."""
    number = min(BINS, len(at) // 2)
    each = len(at) // number
    order = np.argsort(at, kind="stable")[: number * each].reshape(number, each)
    x, y = (at[order] - at[0]).mean(axis=1), np.median(ahead[order], axis=1)
    left, right = np.triu_indices(number, 1)
    apart = x[right] > x[left]
    return float(np.median((y[right] - y[left])[apart] / (x[right] - x[left])[apart])) if apart.any() else 0.0


def _spread(values: Int64s) -> float:
    """Median distance from the median, scaled to a standard deviation of normal values."""
    return 1.4826 * float(np.median(np.abs(values - np.median(values)))) if len(values) else 0.0
