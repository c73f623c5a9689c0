"""Interval algebra against sets of moments, the slow way that nobody can get wrong."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from warpmeter.analysis.intervals import Intervals, measure, union

Spans = list[tuple[int, int]]

spans_of = st.lists(st.tuples(st.integers(-20, 40), st.integers(-2, 12)), max_size=15)
moments_of = st.integers(-30, 60)


def moments(spans: Spans) -> set[int]:
    """Every nanosecond that the (start, length) pairs cover."""
    return {at for start, length in spans for at in range(start, start + length)}


def made(spans: Spans) -> Intervals:
    """The same as intervals."""
    table = np.array(spans, np.int64).reshape(-1, 2)
    return union(table[:, 0], table[:, 0] + table[:, 1])


def holds(covered: Intervals, expected: set[int]) -> None:
    """The intervals are those moments, in the one form that a set has."""
    pairs = list(zip(covered.start.tolist(), covered.end.tolist(), strict=True))
    assert {at for start, end in pairs for at in range(start, end)} == expected
    assert covered.length == len(expected)
    assert all(start < end for start, end in pairs)
    assert all(end < start for (_, end), (start, _) in pairwise(pairs))
    assert covered.start.dtype == covered.end.dtype == np.dtype(np.int64)


@given(spans_of)
def test_a_union_covers_what_its_parts_cover(spans: Spans) -> None:
    holds(made(spans), moments(spans))


@given(spans_of, spans_of)
def test_or_and_minus_are_those_of_sets(one: Spans, other: Spans) -> None:
    holds(made(one) | made(other), moments(one) | moments(other))
    holds(made(one) & made(other), moments(one) & moments(other))
    holds(made(one) - made(other), moments(one) - moments(other))


@given(spans_of, moments_of, moments_of)
def test_a_window_and_its_gaps_share_it_out(spans: Spans, start: int, end: int) -> None:
    window = set(range(start, end))

    holds(made(spans).clip(start, end), moments(spans) & window)
    holds(made(spans).gaps(start, end), window - moments(spans))


@given(spans_of, st.lists(st.tuples(moments_of, moments_of), max_size=8))
def test_each_window_measures_what_lies_in_it(spans: Spans, windows: Spans) -> None:
    table = np.array(windows, np.int64).reshape(-1, 2)

    lengths = measure(made(spans), table[:, 0], table[:, 1])

    assert lengths.tolist() == [len(moments(spans) & set(range(start, end))) for start, end in windows]
    assert lengths.dtype == np.int64


@given(spans_of, moments_of)
def test_what_lies_before_a_moment(spans: Spans, at: int) -> None:
    assert made(spans).before(np.array([at], np.int64)).tolist() == [sum(m < at for m in moments(spans))]


def test_nanoseconds_of_an_epoch_are_exact() -> None:
    now = 1_712_195_495_505_582_988
    covered = union(np.array([now, now + 1, now + 5], np.int64), np.array([now + 1, now + 2, now + 9], np.int64))

    assert (covered.start.tolist(), covered.end.tolist()) == ([now, now + 5], [now + 2, now + 9])
    assert measure(covered, np.array([now + 1], np.int64), np.array([now + 6], np.int64)).tolist() == [2]
