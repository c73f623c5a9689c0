"""Numbers of a trace against Python's decimals."""

from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from warpmeter.analysis.read.numbers import UNREADABLE, addresses, integers, nanoseconds, number, small

NUMBERS = st.from_regex(r"-?[0-9]{1,16}(\.[0-9]{1,12})?", fullmatch=True)
ODD = st.sampled_from(
    ["1e5", '"12.5"', "1e400", '""', '"abc"', "null", "-", ".5", "1.2.3", "99999999999999999999", '"1 2"', "[1]", "1-2",
     "--1", "1.-2", '"- 1"', "NaN", "Infinity", "1_0", "0x10", "9" * 500, "true", "1E-3", '"١"']
)  # fmt: skip


def exact(text: str) -> int:
    """What the text means in nanoseconds."""
    try:
        value = (Decimal(text.strip('"')) * 1000).quantize(Decimal(1), ROUND_HALF_UP)
    except ArithmeticError:
        return UNREADABLE
    return int(value) if abs(value) < 9 * 10**18 else UNREADABLE


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(st.lists(NUMBERS, max_size=30))
def test_decimal_text_is_read_exactly(texts: list[str]) -> None:
    assert nanoseconds([Raw(text.encode()) for text in texts]).tolist() == list(map(exact, texts))


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(st.lists(NUMBERS, max_size=5), ODD, st.lists(NUMBERS, max_size=5))
def test_what_is_no_plain_number_spoils_no_other(before: list[str], odd: str, after: list[str]) -> None:
    found = nanoseconds([Raw(text.encode()) for text in [*before, odd, *after]]).tolist()
    assert found[: len(before)] == list(map(exact, before))
    assert found[len(before) + 1 :] == list(map(exact, after))
    known = {"1e5": 100_000_000, '"12.5"': 12_500, ".5": 500, "1E-3": 1, '"١"': 1000}
    assert found[len(before)] == known.get(odd, UNREADABLE)


def test_whole_numbers_that_no_column_holds_are_not_there() -> None:
    assert integers([1, None, 1 << 63, -(1 << 63), 1 << 80]).tolist() == [1, -1, -1, -(1 << 63), -1]
    assert small([1, None, 1 << 31, -(1 << 31)]).tolist() == [1, -1, -1, -(1 << 31)]
    assert addresses([1, None, (1 << 64) - 1]).tolist() == [1, -1, -1]
    assert [number(word) for word in (5, "7", "stream 7", None, True, "", "9" * 30, "-3")] == [
        5,
        7,
        -1,
        -1,
        -1,
        -1,
        -1,
        -1,
    ]
