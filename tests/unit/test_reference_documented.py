"""docs/reference is what its generator makes: of the command and of the settings nothing is left out."""

import dataclasses

import pytest

from warpmeter.cli.documents.__main__ import PAGES, REFERENCE
from warpmeter.cli.documents.meanings import meanings
from warpmeter.config import LISTED, TABLES
from warpmeter.settings import Settings


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_current(page: str) -> None:
    assert (REFERENCE / page).read_text() == PAGES[page](), "run `make docs`"


def test_every_setting_has_a_meaning_and_nothing_else_has() -> None:
    kinds = {table: type(getattr(Settings(), table)) for table in TABLES} | dict(LISTED)
    keys = {f"{table}.{field.name}" for table, kind in kinds.items() for field in dataclasses.fields(kind)}
    assert set(meanings()) == keys, "src/warpmeter/cli/documents/meanings.py says what each is"
    assert all(meanings().values())
