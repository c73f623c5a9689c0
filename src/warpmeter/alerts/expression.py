"""Expressions of matchers, in Python's syntax, matched in a time that grows with expression times value alone.

`re` tries one way after the other: `(a+)+b` takes years of thirty letters, and holds the whole process meanwhile. So an
expression becomes a machine that goes all ways at once (https://swtch.com/~rsc/regexp/regexp1.html). What looks ahead,
back, or at what a group has found cannot be one, and is refused.
"""

import re
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Final

MOST_STEPS: Final = 1000
"""Of a machine: `{1,1000}` is a thousand."""
DEEPEST: Final = 50
_ONE: Final = re.compile(
    r"\\(?:[dDwWsSnrtfva]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[^A-Za-z0-9])|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\\[()|*+?^$]",
    re.DOTALL,
)
"""What is one character of the value."""
_EDGE: Final = re.compile(r"\^|\$|\\A|\\Z")
_REPEAT: Final = re.compile(r"(?:([*+?])|\{(?=[\d,])(\d*)(,?)(\d*)\})(\??)")
_GROUP: Final = re.compile(r"\((?:\?:|\?P<\w+>|(?!\?))")


_ANY_CASE: Final = "(?i)"
_LONG: Final = "it is too long, its repetitions counted"


class ExpressionError(Exception):
    """It is none; the message says why."""


@dataclass(frozen=True)
class _One:
    """A character that this pattern fits."""

    pattern: re.Pattern[str]


@dataclass(frozen=True)
class _Edge:
    """The value's begin or end."""

    begin: bool


@dataclass(frozen=True)
class _Repeated:
    """A part so often; `most` None: without an end."""

    part: "_Part"
    least: int
    most: int | None


@dataclass(frozen=True)
class _Either:
    """One of these, each of which is one part after the other."""

    ways: tuple[tuple["_Part", ...], ...]


_Part = _One | _Edge | _Repeated | _Either


@dataclass
class _Step:
    """Where it goes on, after the character `one`, or at once; at an `edge` of the value alone."""

    then: list[int] = field(default_factory=list)
    one: re.Pattern[str] | None = None
    edge: _Edge | None = None


@lru_cache(65_536)
def fits(expression: str, value: str) -> bool:
    """Whether the whole value fits. Raises ExpressionError."""
    steps = compiled(expression)
    at = _reached(steps, {0}, 0, len(value))
    for place, character in enumerate(value, 1):
        on = {steps[each].then[0] for each in at if (one := steps[each].one) is not None and one.fullmatch(character)}
        if not on:
            return False
        at = _reached(steps, on, place, len(value))
    return len(steps) - 1 in at


def _reached(steps: tuple[_Step, ...], at: set[int], place: int, length: int) -> set[int]:
    """Where these lead without reading."""
    found, todo = set(at), list(at)
    while todo:
        step = steps[todo.pop()]
        if step.one is not None or (step.edge and place != (0 if step.edge.begin else length)):
            continue
        new = [each for each in step.then if each not in found]
        found.update(new)
        todo += new
    return found


@cache
def compiled(expression: str) -> tuple[_Step, ...]:
    """The machine: it begins at the first step, and the last is its end. Raises ExpressionError."""
    try:
        re.compile(expression)
    except (re.error, OverflowError, RecursionError) as error:
        raise ExpressionError(str(error)) from None
    steps: list[_Step] = []
    _put(steps, _Reading(expression).either())
    _add(steps, _Step())
    return tuple(steps)


def _add(steps: list[_Step], step: _Step) -> _Step:
    if len(steps) >= MOST_STEPS:
        raise ExpressionError(_LONG)
    steps.append(step)
    return step


def _put(steps: list[_Step], part: _Part) -> None:
    """A part, which goes on at the step after it."""
    match part:
        case _One():
            _add(steps, _Step([len(steps) + 1], part.pattern))
        case _Edge():
            _add(steps, _Step([len(steps) + 1], edge=part))
        case _Either():
            fork, ends = _add(steps, _Step()), []
            for way in part.ways:
                fork.then.append(len(steps))
                for each in way:
                    _put(steps, each)
                ends.append(_add(steps, _Step()))
            for end in ends:
                end.then.append(len(steps))
        case _Repeated():
            _put_repeated(steps, part)


def _put_repeated(steps: list[_Step], part: _Repeated) -> None:
    for _ in range(part.least):
        _put(steps, part.part)
    for _ in range(part.least, part.least + 1 if part.most is None else part.most):
        fork, at = _add(steps, _Step([len(steps) + 1])), len(steps) - 1
        _put(steps, part.part)
        if part.most is None:
            _add(steps, _Step([at]))
        fork.then.append(len(steps))


class _Reading:
    """Reads an expression that `re` has taken."""

    def __init__(self, expression: str) -> None:
        self._any_case = re.IGNORECASE if expression.startswith(_ANY_CASE) else re.NOFLAG
        self._text, self._at, self._deep = expression.removeprefix(_ANY_CASE), 0, 0

    def either(self) -> _Either:
        """Ways with `|` between them, up to a `)` or the end."""
        ways: list[list[_Part]] = [[]]
        while self._at < len(self._text) and self._text[self._at] != ")":
            if self._text[self._at] == "|":
                self._at += 1
                ways.append([])
            else:
                ways[-1].append(self._part())
        return _Either(tuple(tuple(way) for way in ways))

    def _take(self, what: re.Pattern[str]) -> re.Match[str] | None:
        found = what.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return found

    def _part(self) -> _Part:
        part = self._whole()
        return part if (often := self._take(_REPEAT)) is None else _Repeated(part, *_bounds(often))

    def _whole(self) -> _Part:
        if (one := self._take(_ONE)) is not None:
            return _One(re.compile(one[0], self._any_case))
        if (edge := self._take(_EDGE)) is not None:
            return _Edge(edge[0] in ("^", r"\A"))
        if self._deep == DEEPEST or self._take(_GROUP) is None:
            told = self._text[self._at : self._at + 4]
            raise ExpressionError(f"{told!r} is not taken here: characters, classes, groups, | and repetitions are")
        self._deep += 1
        found = self.either()
        self._deep -= 1
        self._at += 1  # its ')'
        return found


def _bounds(often: re.Match[str]) -> tuple[int, int | None]:
    sign, least, comma, most, _ = often.groups()
    if sign:
        return {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
    low = int(least or 0)
    high = int(most) if most else None if comma else low
    if max(low, high or 0) > MOST_STEPS:
        raise ExpressionError(_LONG)
    return low, high
