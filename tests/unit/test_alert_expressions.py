"""Expressions of matchers: what people write fits as they mean it, and none takes long."""

import pytest

from warpmeter.alerts.expression import ExpressionError, compiled, fits


@pytest.mark.parametrize(
    ("expression", "value", "fit"),
    [
        ("gpu-00(07|08)", "gpu-0008", True), ("(?i)GPU-.*", "gpu-1", True), ("^gpu-[0-9]{4}$", "gpu-0001", True),
        (r"rack\d+\.example", "rack12.example", True), ("(?P<a>x)(?:y)", "xy", True), ("a{b}", "a{b}", True),
        ("", "", True), ("[]a]+", "]a", True), (".", "\n", False), ("é.*", "é", True), ("gpu", "gpu-1", False),
    ],
)  # fmt: skip
def test_what_people_write(expression: str, value: str, fit: bool) -> None:
    assert fits(expression, value) is fit


@pytest.mark.parametrize("expression", ["(a+)+b", "(a|a)*b", "a?" * 60 + "a" * 60 + "b", ".*.*.*.*.*.*b", "((a*)*)*b"])
def test_none_takes_for_ever(expression: str) -> None:
    assert not fits(expression, "a" * 300)
    assert fits(expression, "a" * 100 + "b")


@pytest.mark.parametrize("expression", ["(", "(?!a)b", r"(a)\1", "a{1,3000}", "(a{90}){90}", "a**", "\ud800"])
def test_what_cannot_be_held_to_is_refused(expression: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ExpressionError):
        compiled(expression)
    assert capfd.readouterr() == ("", "")
