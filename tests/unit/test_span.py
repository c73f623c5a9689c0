"""The algebra of spans, by properties; and that a token comes from its own span."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpmeter.consumers.span import Partition, Span

UUID = "00000000-0000-0000-0000-00000000000a"


def span(first: int, last: int, partition: int = 0, uuid: str = UUID) -> Span:
    return Span("warpmeter.gpu-samples", uuid, partition, first, last)


spans = st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda pair: span(min(pair), max(pair)))


def offsets(of: Span) -> set[int]:
    return set(range(of.first, of.last + 1))


def test_the_token_names_the_topics_life_the_partition_and_both_ends() -> None:
    assert span(7, 9, 3).token == f"{UUID}/3/7-9"
    assert span(7, 9, 3).where == Partition("warpmeter.gpu-samples", 3)


@pytest.mark.parametrize(("first", "last"), [(-1, 3), (4, 3)])
def test_what_holds_no_offset_is_no_span(first: int, last: int) -> None:
    with pytest.raises(ValueError, match="no span"):
        span(first, last)


@given(spans, spans)
def test_the_relations_are_those_of_the_sets_of_offsets(one: Span, other: Span) -> None:
    assert one.overlaps(other) == bool(offsets(one) & offsets(other))
    assert one.inside(other) == (offsets(one) <= offsets(other))
    assert one.same(other) == (offsets(one) == offsets(other))
    assert one.before(other) == (max(offsets(one)) < min(offsets(other)))
    assert one.before(other) + other.before(one) + one.overlaps(other) == 1


@given(spans, spans)
def test_spans_of_other_partitions_or_lives_have_nothing_in_common(one: Span, other: Span) -> None:
    for stranger in (span(other.first, other.last, partition=1), span(other.first, other.last, uuid="b")):
        assert not any((one.overlaps(stranger), one.inside(stranger), one.before(stranger), one.same(stranger)))
        assert one.token != stranger.token


@given(spans, spans)
def test_two_spans_have_one_token_only_when_they_are_the_same(one: Span, other: Span) -> None:
    assert (one.token == other.token) == one.same(other)


@given(spans.filter(lambda it: it.last > it.first), st.data())
def test_a_split_leaves_nothing_out_and_nothing_twice(one: Span, data: st.DataObject) -> None:
    left, right = one.split(data.draw(st.integers(one.first + 1, one.last)))
    assert left.before(right)
    assert left.last + 1 == right.first
    assert offsets(left) | offsets(right) == offsets(one)


@given(spans, st.integers(-5, 70))
def test_a_split_that_leaves_a_side_empty_is_refused(one: Span, at: int) -> None:
    if not one.first < at <= one.last:
        with pytest.raises(ValueError, match="does not split"):
            one.split(at)


parts = st.tuples(st.uuids().map(str), st.integers(0, 12), st.integers(0, 200), st.integers(0, 200))


@given(parts, parts)
def test_a_token_says_all_of_its_span_and_nothing_else_has_it(one: tuple[str, int, int, int], other: object) -> None:
    """Read back as `ingest_batches` reads it: no two spans of any topic's life share a token."""
    uuid, partition, first, length = one
    token = span(first, first + length, partition, uuid).token
    found = re.fullmatch(r"(.+)/(\d+)/(\d+)-(\d+)", token)
    assert found
    assert (found[1], int(found[2]), int(found[3]), int(found[4])) == (uuid, partition, first, first + length)
    if one != other:
        assert isinstance(other, tuple)
        assert token != span(other[2], other[2] + other[3], other[1], other[0]).token


@given(spans, spans, spans)
def test_before_and_inside_carry_over(one: Span, two: Span, three: Span) -> None:
    if one.before(two) and two.before(three):
        assert one.before(three)
    if one.inside(two) and two.inside(three):
        assert one.inside(three)
    if one.inside(two) and two.before(three):
        assert one.before(three)
    if one.inside(two) and two.inside(one):
        assert one.same(two)


@given(spans.filter(lambda it: it.last > it.first), spans, st.data())
def test_halves_relate_as_their_whole_does(one: Span, other: Span, data: st.DataObject) -> None:
    left, right = one.split(data.draw(st.integers(one.first + 1, one.last)))
    assert left.inside(one)
    assert right.inside(one)
    assert not left.overlaps(right)
    assert one.overlaps(other) == (left.overlaps(other) or right.overlaps(other))
    assert other.before(one) == other.before(left)
    assert one.before(other) == right.before(other)
    assert len({one.token, left.token, right.token}) == 3
