"""Rules asked of the store: within bounds, and their answers as subjects."""

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from warpmeter.alerts import Rule, RuleError
from warpmeter.alerts.rule import NAME, NOW, takes
from warpmeter.scheduler.alerts.machine import Subject
from warpmeter.settings import Alerts, Store
from warpmeter.store import client

MOST: Final = 10_000
"""Subjects of a rule: one of more is not meant to be heard of by anybody."""
LONGEST_LABEL: Final = 1000
VALUE: Final = "value"
STARTS: Final = "starts"
STILL: Final = "still"
_TAKEN: Final = ("rule", "severity")
Ask = Callable[[Rule, float], Sequence[Subject]]


def ask(store: Store, limits: Alerts, rule: Rule, now: float) -> list[Subject]:
    """The subjects of a rule at `now`, by this thread's client. Raises ClickHouseError; RuleError for an answer that
    no alert can be made of.
    """
    bounds: dict[str, Any] = {
        "readonly": 1,
        "max_execution_time": limits.rule_s,
        "max_memory_usage": limits.rule_memory,
        "max_result_rows": MOST,
        "result_overflow_mode": "throw",
    }
    values = {**rule.values(), **({NOW: moment(now)} if takes(rule.sql, NOW) else {})}
    # Given values, the client takes a text without parameters for one of Python's, and each % in it for a place of one.
    answer = client(store, patience_s=int(limits.rule_s) + 10).query(rule.sql, values or None, settings=bounds)
    return subjects(answer.column_names, answer.result_rows)


def moment(now: float) -> str:
    """A time as ClickHouse takes it, to the millisecond."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def subjects(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[Subject]:
    """Rows of an answer, which has no columns where it has no rows; raises RuleError."""
    if not rows:
        return []
    if VALUE not in columns:
        raise RuleError(f"its sql gives no column {VALUE}, and has {', '.join(columns)}")
    at = columns.index(VALUE)
    for name in columns[:at]:
        if name in _TAKEN or NAME.fullmatch(name.replace("_", "-")) is None:
            raise RuleError(f"{name!r} cannot be a label: letters, digits and '_', not {' or '.join(_TAKEN)}")
    return [_subject(columns, at, row) for row in rows]


def _subject(columns: Sequence[str], at: int, row: Sequence[Any]) -> Subject:
    told = dict(zip(columns[at + 1 :], row[at + 1 :], strict=True))
    starts, still = bool(told.pop(STARTS, True)), text(told.pop(STILL, None))
    try:
        value = None if row[at] is None else float(row[at])
    except (TypeError, ValueError):
        raise RuleError(f"its value is a {type(row[at]).__name__}, and no number") from None
    labels = {name: text(each) for name, each in zip(columns[:at], row[:at], strict=True)}
    if long := [name for name, label in labels.items() if len(label) > LONGEST_LABEL]:
        raise RuleError(f"its label {long[0]} has more than {LONGEST_LABEL} characters: labels name, details tell")
    if value is not None and not math.isfinite(value):  # of nothing by nothing: not known, and no number of JSON's
        value = None
    return Subject(labels, value, {name: text(each) for name, each in told.items()}, starts, still)


def text(value: Any) -> str:
    """A value of the store as a label or a summary has it."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, list | tuple):
        return ", ".join(map(text, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
