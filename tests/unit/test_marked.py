"""Which files of tests a run does not load: none of which it would have run a test."""

import pytest

from tests.conftest import ASTRAY
from tests.marked import needless

QUICK = "not kafka and not browser and not torch and not long and not fuzz"
REST = "(kafka or browser or torch or long) and not fuzz"
PLAIN = "def test_one() -> None: ...\n"
ALL_LONG = f"pytestmark = [pytest.mark.timeout(600), pytest.mark.long]\n{PLAIN}"
ONE_LONG = f"@pytest.mark.long\n{PLAIN}"
SOME_FUZZ = f"{ALL_LONG}@pytest.mark.fuzz\n{PLAIN}"


@pytest.mark.parametrize(
    ("text", "quick", "rest"),
    [
        (PLAIN, True, False),
        (ALL_LONG, False, True),
        (ONE_LONG, True, True),
        (SOME_FUZZ, False, True),
        (f"pytestmark = pytest.mark.fuzz\n{PLAIN}", False, False),
        ("def test_one(broker: Broker) -> None: ...\n", True, True),
        (f"pytestmark = pytest.mark.skipif(not HERE)\n{PLAIN}", True, False),
    ],
)
def test_file_is_loaded_where_one_of_its_tests_could_be_selected(text: str, quick: bool, rest: bool) -> None:
    assert (not needless(text, QUICK), not needless(text, REST)) == (quick, rest)


@pytest.mark.parametrize("expression", ["", "parametrize", "long or slow", "long(only=True)"])
def test_file_is_loaded_where_it_is_not_known_what_is_selected(expression: str) -> None:
    assert not needless(ALL_LONG, expression)
    assert not needless(PLAIN, expression)


@pytest.mark.parametrize("run", ["test", pytest.param("rest", marks=pytest.mark.long)])
def test_tests_bear_the_marks_that_their_files_tell_of(run: str, pytestconfig: pytest.Config) -> None:
    assert pytestconfig.stash[ASTRAY] == [], f"of what make {run} loaded"
