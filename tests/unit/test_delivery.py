"""docs/delivery.md and what it leads to: every test that is named exists, and every sentence names one."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / name for name in ("delivery.md", "agent-edge.md", "replaying.md")]
FREE = {"Delivery", "Words", "Running it", "What is not promised"}
"""Sections that say what the page is and what to do, and what nobody holds."""
NAMED = re.compile(r"\btest_\w+")
REFERENCE = re.compile(r"\[(test_\w+(?:,\s+test_\w+)*)\]")


@cache
def existing() -> frozenset[str]:
    """The names of all tests in the tree, and of their files."""
    files = list((ROOT / "tests").rglob("test_*.py"))
    tests = (name for file in files for name in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE))
    return frozenset([*tests, *(file.stem for file in files)])


def sections(text: str) -> dict[str, str]:
    """The text of each section by its heading."""
    parts = re.split(r"^#+ (.+)$", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def points(text: str) -> list[str]:
    """The points of a section, each on one line."""
    return [" ".join(point.split()) for point in re.split(r"^- ", text, flags=re.MULTILINE) if point.strip()]


def bare(text: str) -> list[str]:
    """What a section says without naming a test: points without a reference, and sentences beside the one it is for."""
    found = []
    for point in points(text):
        claim, *rest = REFERENCE.split(point)
        alone = not rest or re.search(r"[.!?] +[A-Z`]", claim) or not re.search(r"[.!?)]\s*$", claim)
        found += [point] * bool(alone or rest[-1].strip())
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_is_named_exists(page: Path) -> None:
    missing = sorted(set(NAMED.findall(page.read_text())) - existing())
    assert not missing, f"{page.name} names tests that are not there: {missing}"


def test_every_sentence_of_the_promise_names_a_test() -> None:
    found = sections(PAGES[0].read_text())
    assert set(found) >= FREE | {"The promise", "The invariant", "What breaks it"}
    assert {name: bare(text) for name, text in found.items() if name not in FREE and bare(text)} == {}


@pytest.mark.parametrize(
    "point",
    [
        "- No test.",
        "- One sentence. Another one. [test_a]",
        "- A claim [test_a]",
        "- A claim. [test_a] And more.",
        "Prose.",
    ],
)
def test_a_sentence_that_nothing_holds_is_found(point: str) -> None:
    assert bare(point)
    assert not bare("- A claim that goes\n  on. [test_a,\n  test_b]\n- Another, of `x`. [test_c]\n")


def test_the_page_is_found_from_the_readme_and_the_architecture() -> None:
    for page in ("README.md", "docs/architecture.md"):
        assert "delivery.md" in (ROOT / page).read_text()
