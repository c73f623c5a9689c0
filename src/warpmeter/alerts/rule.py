"""Rules: what is to be told, as SQL over the views with a header, or as a table of the settings.

A built-in rule is a file of `sql/alerts`, named as the rule is (`gpu-hot` in gpu_hot.sql). Its header says what it is
about in plain words, then in a line each

    -- severity: critical         info, warning or critical
    -- for: 120                   seconds in which the condition must hold, at each evaluation, before it fires
    -- keep: 300                  seconds without the condition before it is resolved
    -- every: 300                 seconds between evaluations; without it, at each one
    -- asked: first               before all others, which are not asked while it has a row; or always: nevertheless
    -- unit: °C                   of the value, as the metric table names units
    -- summary: GPU {gpu} of {host} is at {value}
    -- do: what to do about it
    -- @celsius 90  meaning       a threshold: its default, which settings may change

and the SQL gives a row for each subject that is in the condition. Its columns before `value` are the labels that tell
subjects apart; `value` is what was measured; those after it are details, which the summary may name as it may name
labels. A column `starts`, after `value`, is 0 where the condition keeps an alert that is there and begins none; while a
column `still` changes from one evaluation to the next, the condition does not hold.
`{now:DateTime64(3, 'UTC')}` is the time of the evaluation: rules ask for that and never for now().
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Final

from warpmeter.alerts.alert import SEVERITIES, Severity

NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,62}")
NAMED: Final = re.compile(r"\{(\w+)\}")
"""What a summary names."""
_USE: Final = re.compile(r"\{(\w+):\s*([^{}]+)\}")
_PARAMETER: Final = re.compile(r"-- @(\w+)\s+(\S+)\s+(.+)")
_KEY: Final = re.compile(r"-- (severity|for|keep|every|asked|unit|summary|do):\s*(.*)")
NOW: Final = "now"
OWN: Final = ("store-away", "rule-broken")
"""Rules without SQL: the evaluation tells these of itself."""


class RuleError(Exception):
    """A rule cannot be used; the message says which, and why."""


@dataclass(frozen=True)
class Parameter:
    """A threshold of a rule: its ClickHouse type, the value in force, and what it means."""

    name: str
    type: str
    value: str
    meaning: str = ""


@dataclass(frozen=True)
class Rule:
    """One rule. `sql` is empty for those that the evaluation tells of itself (OWN).

    The condition must hold `for_s` before it fires, and be gone for `keep_s` before it is resolved; `every_s` 0: asked
    at each evaluation. `labels`: the rule's own, put on each of its alerts. `builtin`: shipped with warpmeter. While a
    rule with `gate` has a subject, what others would read is old: only those with `always` are asked.
    """

    name: str
    meaning: str
    severity: Severity
    sql: str
    summary: str
    description: str = ""
    for_s: float = 0.0
    keep_s: float = 0.0
    every_s: float = 0.0
    unit: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    parameters: tuple[Parameter, ...] = ()
    builtin: bool = False
    gate: bool = False
    always: bool = False

    def values(self) -> dict[str, str]:
        """Its parameters, by name."""
        return {each.name: each.value for each in self.parameters}


def parse(name: str, text: str) -> Rule:
    """A rule from its file; raises RuleError when the header lacks something or does not fit the SQL."""
    lines = text.splitlines()
    header = [line for line in lines if line.startswith("--")]
    sql = "\n".join(line for line in lines if not line.startswith("--")).strip().removesuffix(";")
    keys = {match[1]: match[2].strip() for line in header if (match := _KEY.fullmatch(line))}
    told = [match for line in header if (match := _PARAMETER.fullmatch(line))]
    words = [
        line.removeprefix("--").strip()
        for line in header
        if not _KEY.fullmatch(line) and not _PARAMETER.fullmatch(line)
    ]
    types = asked(sql)
    if lacking := [key for key in ("severity", "summary", "do") if not keys.get(key)]:
        raise RuleError(f"rule {name}: its header lacks {', '.join(lacking)}")
    if {match[1] for match in told} != types.keys() or not any(words):
        raise RuleError(f"rule {name}: its header must say what it is about, and just the parameters {sorted(types)}")
    return Rule(
        name=name, meaning=" ".join(words), severity=_severity(name, keys["severity"]), sql=sql,
        summary=keys["summary"], description=keys["do"], unit=keys.get("unit", ""), builtin=True,
        gate=keys.get("asked") == "first", always=keys.get("asked") == "always",
        for_s=_seconds(name, keys, "for"), keep_s=_seconds(name, keys, "keep"), every_s=_seconds(name, keys, "every"),
        parameters=tuple(Parameter(match[1], types[match[1]], match[2], match[3]) for match in told),
    )  # fmt: skip


def asked(sql: str) -> dict[str, str]:
    """The parameters that SQL takes, with their types, but for the time of the evaluation."""
    return {use[1]: use[2].strip() for use in _USE.finditer(sql) if use[1] != NOW}


def takes(sql: str, parameter: str) -> bool:
    """Whether SQL takes a parameter of that name."""
    return any(use[1] == parameter for use in _USE.finditer(sql))


def _severity(name: str, text: str) -> Severity:
    if text not in SEVERITIES:
        raise RuleError(f"rule {name}: severity {text!r} is none; there are {', '.join(SEVERITIES)}")
    return text


def _seconds(name: str, keys: Mapping[str, str], key: str) -> float:
    try:
        return float(keys.get(key) or 0)
    except ValueError:
        raise RuleError(f"rule {name}: {key} is no number of seconds: {keys[key]!r}") from None


_TOLD: Final = (
    Rule(
        name="store-away",
        meaning="The store does not answer, so no rule can be evaluated: nothing fires, and nothing is resolved.",
        severity="critical",
        sql="",
        summary="The store does not answer: no rule is evaluated, and what fires goes on",
        description="Look whether ClickHouse runs and whether the scheduler reaches it (`warpmeter doctor`).",
        for_s=60.0,
        builtin=True,
    ),
    Rule(
        name="rule-broken",
        meaning=(
            "A rule cannot be evaluated: the store refuses it, it takes too long, or it names no value. Or it is in "
            "part: it has more than 10,000 subjects, or a label of more than 1000 characters."
        ),
        severity="warning",
        sql="",
        summary="Rule {broken} {how}: {why}",
        description=(
            "Correct the rule in [[alerts.rules]], or raise alerts.rule_s where it takes too long. Its alerts stand as "
            "they are meanwhile. In part: look where so many subjects, or so long a name, come from."
        ),
        for_s=60.0,
        builtin=True,
    ),
)  # fmt: skip


@cache
def builtin() -> Mapping[str, Rule]:
    """All rules that are shipped, by name."""
    folder = resources.files("warpmeter") / "sql" / "alerts"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    named = ((file.name.removesuffix(".sql").replace("_", "-"), file) for file in files)
    read = [parse(name, file.read_text()) for name, file in named]
    return {rule.name: rule for rule in (*read, *_TOLD)}
