"""docs/cookbook.md is what its generator makes, and says of each of its queries what one must know."""

import re

from warpmeter import cookbook, queries
from warpmeter.cookbook.document import TARGET, document


def test_the_page_is_current() -> None:
    assert TARGET.read_text() == document(), "run `make docs`"


def test_there_are_recipes_enough_and_each_once() -> None:
    assert len(cookbook.NAMES) >= 30
    assert len(set(cookbook.NAMES)) == len(cookbook.NAMES)
    assert set(cookbook.NAMES) <= set(queries.names())


def test_every_recipe_asks_a_question_and_has_an_answer_and_pitfalls() -> None:
    for name in cookbook.NAMES:
        assert queries.get(name).question.endswith("?"), name
    for chapter in cookbook.CHAPTERS:
        for name, told in chapter.recipes.items():
            assert all(len(words) > 40 and words.endswith(".") for words in told), name


def test_every_link_of_the_contents_leads_to_a_heading() -> None:
    page = document()
    headings = re.findall(r"^### (.+)$", page, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", page)) == anchors
    assert len(headings) == len(set(headings)) == len(cookbook.NAMES)
