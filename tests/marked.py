"""Files of tests that a run need not load: `-m` leaves out all that is in them, and their text tells so.

Loading one takes a tenth of a second, the heaviest five seconds, and each worker of a run loads all. What the text
tells is held against what the tests bear (`astray`): `make test` loads each file that tells of no mark, `make
test-rest` the others.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple

import pytest

MARKS: Final = ("kafka", "browser", "torch", "long", "fuzz")
_MARK: Final = re.compile(rf"\bmark\.({'|'.join(MARKS)})\b")
_ON_ALL: Final = re.compile(r"^pytestmark = .*$", re.MULTILINE)
_EACH_BROKER: Final = re.compile(r"\bbroker: Broker\b")
"""A test that takes the fixture `broker` bears `kafka` in one of its two turns."""


class Told(NamedTuple):
    """Of `MARKS`: what each test of a file bears, and what it may bear."""

    on_all: frozenset[str]
    on_some: frozenset[str]


def told(text: str) -> Told:
    """What the source of a file tells of its tests."""
    on_all = _ON_ALL.search(text)
    brokers = {"kafka"} if _EACH_BROKER.search(text) else set()
    return Told(frozenset(_MARK.findall(on_all[0]) if on_all else ()), frozenset(_MARK.findall(text)) | brokers)


def needless(text: str, expression: str) -> bool:
    """Whether `-m expression` selects no test that a file of this source can have; False where that is not known."""
    names = set(re.findall(r"\w+", expression)) - {"and", "or", "not"}
    if not names or not names <= set(MARKS):
        return False
    return not any(
        eval(expression, {}, {mark: mark in marks for mark in MARKS})  # the grammar of `-m` is a part of Python's
        for marks in _possible(told(text))
    )


def _possible(tells: Told) -> Iterator[set[str]]:
    more = sorted(tells.on_some - tells.on_all)
    for size in range(len(more) + 1):
        for chosen in combinations(more, size):
            yield {*tells.on_all, *chosen}


def astray(item: pytest.Item) -> str:
    """What is wrong where a test's marks are not those that its file tells of: a run could miss it; else nothing."""
    tells = _of_file(item.path)
    bears = {mark.name for mark in item.iter_markers()} & set(MARKS)
    if tells.on_all <= bears <= tells.on_some:
        return ""
    return f"{item.nodeid} bears {sorted(bears)}, its file tells of {tells}"


@cache
def _of_file(path: Path) -> Told:
    return told(path.read_text())
