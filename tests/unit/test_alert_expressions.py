"""Expressions of matchers: what fits is what Python says, and none takes long."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpmeter.alerts.expression import ExpressionError, compiled, fits

_atoms = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", r"\.", "^", "$", "", "1", "-"])
_often = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,2}", "{1,}", "*?"])
_expressions = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map("".join),
        st.lists(inner, min_size=1, max_size=3).map("|".join),
        st.tuples(inner, _often).map(lambda both: f"({both[0]}){both[1]}"),
    ),
    max_leaves=8,
)


@given(_expressions, st.text("ab1.-", max_size=6))
def test_what_fits_is_what_python_says(expression: str, value: str) -> None:
    assert fits(expression, value) is (re.fullmatch(expression, value) is not None)


@pytest.mark.parametrize(
    ("expression", "value", "fit"),
    [
        ("gpu-00(07|08)", "gpu-0008", True), ("(?i)GPU-.*", "gpu-1", True), ("^gpu-[0-9]{4}$", "gpu-0001", True),
        (r"rack\d+\.example", "rack12.example", True), ("(?P<a>x)(?:y)", "xy", True), ("a{b}", "a{b}", True),
        ("", "", True), ("[]a]+", "]a", True), (".", "\n", False), ("é.*", "é", True),
    ],
)  # fmt: skip
def test_what_people_write(expression: str, value: str, fit: bool) -> None:
    assert fits(expression, value) is fit is (re.fullmatch(expression, value) is not None)


@pytest.mark.parametrize("expression", ["(a+)+b", "(a|a)*b", "a?" * 60 + "a" * 60 + "b", ".*.*.*.*.*.*b", "((a*)*)*b"])
def test_none_takes_for_ever(expression: str) -> None:
    assert not fits(expression, "a" * 300)
    assert fits(expression, "a" * 100 + "b")


@pytest.mark.parametrize(
    "expression", ["(", "(?!a)b", r"(a)\1", "a{1,3000}", "(a{90}){90}", "a**", "(" * 60 + ")" * 60]
)
def test_what_cannot_be_held_to_is_refused(expression: str) -> None:
    with pytest.raises(ExpressionError):
        compiled(expression)
