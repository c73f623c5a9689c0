"""Answers of rules as subjects: what cannot be meant is the rule's fault, and said."""

import math
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from warpmeter.alerts import RuleError
from warpmeter.scheduler.alerts.asking import LONGEST_LABEL, READ, answered

COLUMNS: Final = ("host", "value", "why")


@pytest.mark.parametrize(
    ("value", "told"), [(1, 1.0), (None, None), (math.nan, None), (math.inf, None), (-math.inf, None)]
)  # fmt: skip
def test_a_value_is_a_number_that_json_has_or_not_known(value: Any, told: float | None) -> None:
    (found,) = answered(COLUMNS, [("a", value, "x")]).subjects
    assert found.value == told


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (("a", datetime(2026, 1, 1, tzinfo=UTC), ""), "its value is a datetime, and no number"),
        (("a", "abc", ""), "its value is a str, and no number"),
    ],
)  # fmt: skip
def test_what_no_alert_can_be_made_of_is_said_the_same_each_time(row: tuple[Any, ...], why: str) -> None:
    with pytest.raises(RuleError, match=why):
        answered(COLUMNS, [row])


def test_a_label_that_is_too_long_is_cut_and_keeps_none_of_the_others() -> None:
    names = ["a", "b" * LONGEST_LABEL, *("c" * LONGEST_LABEL + end for end in "de")]
    answer = answered(COLUMNS, [(name, 1.0, "") for name in names])
    hosts = [each.labels["host"] for each in answer.subjects]
    assert hosts[:2] == names[:2]
    assert [len(host) for host in hosts[2:]] == [LONGEST_LABEL] * 2
    assert len(set(hosts)) == len(names)
    assert "its label host has more than 1000 characters, and is cut" in answer.cut
    assert not answered(COLUMNS, [(name, 1.0, "") for name in names[:2]]).cut


def test_of_an_answer_without_end_a_part_is_read() -> None:
    rows = [(str(number), 1.0, "") for number in range(READ + 1)]
    assert [answered(COLUMNS, rows[:count]).whole for count in (READ, READ + 1)] == [True, False]
