"""Answers of rules as subjects: what cannot be meant is the rule's fault, and said."""

import math
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from warpmeter.alerts import RuleError
from warpmeter.scheduler.alerts.asking import LONGEST_LABEL, subjects

COLUMNS: Final = ("host", "value", "why")


@pytest.mark.parametrize(
    ("value", "told"), [(1, 1.0), (None, None), (math.nan, None), (math.inf, None), (-math.inf, None)]
)  # fmt: skip
def test_a_value_is_a_number_that_json_has_or_not_known(value: Any, told: float | None) -> None:
    (found,) = subjects(COLUMNS, [("a", value, "x")])
    assert found.value == told


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (("a", datetime(2026, 1, 1, tzinfo=UTC), ""), "its value is a datetime, and no number"),
        (("a", "abc", ""), "its value is a str, and no number"),
        (("a" * (LONGEST_LABEL + 1), 1.0, ""), "its label host has more than 1000 characters"),
    ],
)  # fmt: skip
def test_what_no_alert_can_be_made_of_is_said_the_same_each_time(row: tuple[Any, ...], why: str) -> None:
    with pytest.raises(RuleError, match=why):
        subjects(COLUMNS, [row])
