"""Rules asked of the store: within bounds, and their answers as subjects."""

import math
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import islice
from typing import Any, Final

from warpmeter.alerts import Rule, RuleError, fingerprint
from warpmeter.alerts.rule import NAME, NOW, takes
from warpmeter.scheduler.alerts.machine import Subject
from warpmeter.settings import Alerts, Store
from warpmeter.store import client

MOST: Final = 10_000
"""Subjects of a rule that have alerts at one time: more are not meant to be heard of by anybody."""
READ: Final = 50_000
"""Rows of an answer that are read, so that of more subjects than MOST it is still known which are over."""
LONGEST_LABEL: Final = 1000
VALUE: Final = "value"
STARTS: Final = "starts"
STILL: Final = "still"
_TAKEN: Final = ("rule", "severity")


@dataclass(frozen=True)
class Answer:
    """The subjects of a rule: `whole` False where the store has more of them than READ; `cut` names a label that was
    too long and had its end replaced, '' where none was.
    """

    subjects: Sequence[Subject] = ()
    whole: bool = True
    cut: str = ""

    def within(self, rule: str, known: AbstractSet[str]) -> "Taken":
        """What alerts are made of: all, or of more than MOST those that are `known` by their fingerprints, and of the
        others the first until MOST are open. Of those that were not read nothing can be said: they stay as they are.
        """
        if self.whole and len(self.subjects) <= MOST:
            return Taken(self.subjects, why=self.cut)
        marked = {fingerprint(rule, each.labels): each for each in self.subjects}
        held = [each for mark, each in marked.items() if mark in known]
        room = max(0, MOST - (len(held) if self.whole else len(known)))
        new = [each for mark, each in marked.items() if mark not in known and each.starts]
        taken = [*held, *islice(new, room)]
        more = f"{len(marked) - len(taken):,} more" if self.whole else f"more than {READ - len(taken):,} others"
        why = f"it has more than {MOST:,} subjects: {len(taken):,} are taken, and {more} have no alert of their own"
        return Taken(taken, frozenset() if self.whole else frozenset(known), f"{why}; {self.cut}" if self.cut else why)


@dataclass(frozen=True)
class Taken:
    """Subjects, the fingerprints of which nothing can be said, and in words what was left out or cut, '' if nothing."""

    subjects: Sequence[Subject]
    unknown: frozenset[str] = frozenset()
    why: str = ""


Ask = Callable[[Rule, float], Answer]


def ask(store: Store, limits: Alerts, rule: Rule, now: float) -> Answer:
    """What a rule says at `now`, by this thread's client. Raises ClickHouseError; RuleError for an answer that no alert
    can be made of.
    """
    bounds: dict[str, Any] = {
        "readonly": 1,
        "max_execution_time": limits.rule_s,
        "max_memory_usage": limits.rule_memory,
        "max_result_rows": READ + 1,  # one more tells that there are more: it breaks off at the end of a block
        "result_overflow_mode": "break",
    }
    values = {**rule.values(), **({NOW: moment(now)} if takes(rule.sql, NOW) else {})}
    # Given values, the client takes a text without parameters for one of Python's, and each % in it for a place of one.
    answer = client(store, patience_s=int(limits.rule_s) + 10).query(rule.sql, values or None, settings=bounds)
    return answered(answer.column_names, answer.result_rows)


def moment(now: float) -> str:
    """A time as ClickHouse takes it, to the millisecond."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def answered(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Answer:
    """Rows of an answer, which has no columns where it has no rows; raises RuleError. One subject whose label is too
    long keeps none of the others: it is cut, and a digest of it tells it from those that begin as it does.
    """
    if not rows:
        return Answer()
    if VALUE not in columns:
        raise RuleError(f"its sql gives no column {VALUE}, and has {', '.join(columns)}")
    at = columns.index(VALUE)
    for name in columns[:at]:
        if name in _TAKEN or NAME.fullmatch(name.replace("_", "-")) is None:
            raise RuleError(f"{name!r} cannot be a label: letters, digits and '_', not {' or '.join(_TAKEN)}")
    long = next((name for place, name in enumerate(columns[:at]) if any(_is_long(row[place]) for row in rows)), "")
    cut = f"its label {long} has more than {LONGEST_LABEL} characters, and is cut: labels name, details tell"
    return Answer([_subject(columns, at, row) for row in rows[:READ]], len(rows) <= READ, cut if long else "")


def _subject(columns: Sequence[str], at: int, row: Sequence[Any]) -> Subject:
    told = dict(zip(columns[at + 1 :], row[at + 1 :], strict=True))
    starts, still = bool(told.pop(STARTS, True)), text(told.pop(STILL, None))
    try:
        value = None if row[at] is None else float(row[at])
    except (TypeError, ValueError):
        raise RuleError(f"its value is a {type(row[at]).__name__}, and no number") from None
    labels = {name: _bounded(text(each)) for name, each in zip(columns[:at], row[:at], strict=True)}
    if value is not None and not math.isfinite(value):  # of nothing by nothing: not known, and no number of JSON's
        value = None
    return Subject(labels, value, {name: text(each) for name, each in told.items()}, starts, still)


def _is_long(value: Any) -> bool:
    return len(text(value)) > LONGEST_LABEL


def _bounded(label: str) -> str:
    if len(label) <= LONGEST_LABEL:
        return label
    digest = blake2b(label.encode(), digest_size=8).hexdigest()
    return f"{label[: LONGEST_LABEL - len(digest) - 1]}…{digest}"


def text(value: Any) -> str:
    """A value of the store as a label or a summary has it."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, list | tuple):
        return ", ".join(map(text, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
