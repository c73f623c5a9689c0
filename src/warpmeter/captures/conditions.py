"""A condition on jobs (`where`), before it is part of a statement: it may name columns of the view `jobs` and functions
that only reckon, so that it can ask nothing of the store but what jobs are like.

What cannot be read with certainty is refused: the store never has to be asked what a condition might mean.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

VIEW: Final = "jobs"
COLUMNS: Final = frozenset({
    "job_id", "name", "command", "user", "scheduler", "state", "hosts", "hosts_lost", "pids", "gpu_uuids", "gpus",
    "world_size", "started_at", "ended_at", "last_seen_at", "duration_s", "processes", "cpu_cores", "rss_bytes",
    "gpu_memory_bytes", "rss_bytes_max", "cpu_core_seconds", "read_bytes", "written_bytes", "labels", "tree_id",
    "ranks", "account",
})  # fmt: skip
"""Of the view `jobs`; tests/real/test_scheduler_resolving.py holds it against the view."""
FUNCTIONS: Final = frozenset({
    "xor", "equals", "notequals", "less", "lessorequals", "greater", "greaterorequals", "if", "multiif", "coalesce",
    "ifnull", "nullif", "isnull", "isnotnull", "assumenotnull", "greatest", "least", "plus", "minus", "multiply",
    "divide", "intdiv", "modulo", "abs", "negate", "round", "floor", "ceil", "lower", "upper", "lowerutf8",
    "upperutf8", "length", "lengthutf8", "empty", "notempty", "concat", "substring", "left", "right", "trim",
    "trimleft", "trimright", "replace", "replaceall", "replaceone", "replaceregexpone", "replaceregexpall",
    "reverse", "tostring", "startswith", "endswith", "position", "positioncaseinsensitive", "locate", "like",
    "notlike", "ilike", "notilike", "match", "multisearchany", "multimatchany", "extract", "splitbychar",
    "splitbystring", "has", "hasany", "hasall", "indexof", "arrayelement", "arrayexists", "arrayall", "arraycount",
    "arrayfilter", "array", "tuple", "map", "mapcontains", "mapcontainskey", "mapkeys", "mapvalues", "now", "now64",
    "today", "yesterday", "todate", "todatetime", "todatetime64", "tounixtimestamp", "datediff", "addseconds",
    "addminutes", "addhours", "adddays", "addweeks", "subtractseconds", "subtractminutes", "subtracthours",
    "subtractdays", "subtractweeks", "tointervalsecond", "tointervalminute", "tointervalhour", "tointervalday",
    "tointervalweek", "tohour", "tominute", "tosecond", "todayofweek", "todayofmonth", "tomonth", "toyear",
    "tostartofminute", "tostartofhour", "tostartofday", "tostartofweek", "tostartofmonth", "touint8", "touint16",
    "touint32", "touint64", "toint8", "toint16", "toint32", "toint64", "tofloat32", "tofloat64", "touint64orzero",
    "toint64orzero", "tofloat64orzero", "touint64ornull", "toint64ornull", "tofloat64ornull",
})  # fmt: skip
"""Functions of their arguments alone, of no more than they are given; in lower case."""
WORDS: Final = frozenset({
    "and", "or", "not", "in", "like", "ilike", "between", "is", "null", "true", "false", "case", "when", "then",
    "else", "end", "interval", "second", "seconds", "minute", "minutes", "hour", "hours", "day", "days", "week",
    "weeks", "div", "mod",
})  # fmt: skip
_TOKEN: Final = re.compile(
    r"(?P<space>\s+|--[^\n]*)|(?P<string>'(?:[^'\\\0]|\\.|'')*')|(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.]))"
    r"|(?P<word>[A-Za-z_]\w*(?![$\w]))|(?P<name>`\w+`|\"\w+\")|(?P<symbol>->|[<>=!]=|<>|\|\||/(?!\*)|[][()<>=,.+*%-])",
    re.ASCII | re.DOTALL,
)
_CLOSES: Final = {")": "(", "]": "["}


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def objection(where: str) -> str:
    """Why a condition cannot be taken, with the place of what is wrong, from 1; '' when it can."""
    found = list(_tokens(where))
    if not found:
        return "the condition has nothing in it"
    if found[-1].kind == "odd":
        return f"the condition cannot be read from its character {found[-1].at + 1} on: {_short(found[-1].text)}"
    return _unbalanced(found) or next(filter(None, _misnamed(found)), "")


def _tokens(where: str) -> Iterator[_Token]:
    at = 0
    while at < len(where):
        found = _TOKEN.match(where, at)
        if found is None or found.lastgroup is None:
            yield _Token("odd", where[at:], at)
            return
        if found.lastgroup != "space":
            yield _Token(found.lastgroup, found[0].strip('`"') if found.lastgroup == "name" else found[0], at)
        at = found.end()


def _unbalanced(tokens: list[_Token]) -> str:
    """Where a bracket is closed that it did not open: it would reach beyond the condition."""
    opened: list[str] = []
    for token in tokens:
        if token.kind == "symbol" and token.text in "([":
            opened.append(token.text)
        elif token.text in _CLOSES and (not opened or opened.pop() != _CLOSES[token.text]):
            return f"the condition closes a bracket at its character {token.at + 1} that it did not open"
    return "the condition opens a bracket that it does not close" if opened else ""


def _misnamed(tokens: list[_Token]) -> Iterator[str]:
    """Of each token that names something, why it may not, or ''."""
    bound = {token.text for token, after in pairwise(tokens) if after.text == "->"}
    values = _of_sets(tokens)
    texts = ["", *(token.text for token in tokens), ""]
    for number, token in enumerate(tokens):
        before, after = texts[number], texts[number + 2]
        if token.kind == "symbol" and token.text == "." and before != VIEW:
            yield _refused(token)
        if token.kind == "name" or (token.kind == "word" and token.text.lower() not in WORDS):
            if after == "(":
                known = token.text.lower() in FUNCTIONS
            else:
                known = token.text in COLUMNS | bound or (token.text == VIEW and after == ".")
                known = known and number not in values
            yield "" if known else _refused(token)


def _of_sets(tokens: list[_Token]) -> set[int]:
    """What stands to the right of an IN: a name there would be a table's."""
    found: set[int] = set()
    for number, token in enumerate(tokens):
        if token.kind == "word" and token.text.lower() == "in":
            depth, at = 0, number + 1
            while at < len(tokens):
                found.add(at)
                depth += (tokens[at].text in "([") - (tokens[at].text in _CLOSES)
                at += 1
                if depth <= 0:
                    break
    return found


def _refused(token: _Token) -> str:
    return (
        f"the condition may not name {_short(token.text)} (its character {token.at + 1}): it takes columns of the view "
        "jobs, functions of text, numbers, times and arrays, and after IN values"
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:39]}…")
