"""docs/sql.md and the comments of views are what the dictionary says; stable views keep their columns.

`pytest tests/real/test_documented_views.py --update` writes the page, and adds new columns to what was promised; it
takes none away that the deprecation rule still holds.
"""

import re
from pathlib import Path
from typing import Final

import pytest

from tests.tables import ask
from warpmeter import __version__, migrate
from warpmeter.dictionary import catalogue, meanings, page, stability
from warpmeter.dictionary.catalogue import Catalogue
from warpmeter.settings import Store
from warpmeter.store import Client

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "sql.md"
PROMISED: Final = ROOT / "tests" / "golden" / "stable_views.json"
SHARED: Final = Store(database="shared")


@pytest.fixture(scope="module")
def found(shared_tables: Client) -> Catalogue:
    """What the migrations made."""
    return catalogue.read(shared_tables, SHARED.database)


def test_everything_has_a_meaning(found: Catalogue) -> None:
    assert list(found.untold()) == [], "say in sql/meanings.toml what a row is, and what the column means"
    assert set(meanings.words()) - {"common"} - set(found.entries) <= {"schema_migrations"}, "sections of nothing"
    gone = [
        f"{name}.{column}"
        for name, words in meanings.words().items()
        if name in found.entries
        for column in words.columns
        if column not in {each.name for each in found.entries[name].columns}
    ]
    assert gone == [], "sql/meanings.toml names columns that are not there"


def test_the_page_says_what_the_store_has(found: Catalogue, update: bool) -> None:
    written = page.document(found, SHARED)
    if update:
        PAGE.write_text(written)
    assert PAGE.read_text() == written, "run `make docs` (or pytest with --update), and look at what changed"


def test_views_say_what_their_columns_mean(tables: Client) -> None:
    comments = {column: comment for column, _, _, _, comment, *_ in ask(tables, "DESCRIBE gpus")}
    assert comments["power_watts"] == "power drawn [W]"  # the metric table's word
    assert comments["idle_since"] == "since when it is below 5 %; NULL while it is not"
    inherited = {column: comment for column, _, _, _, comment, *_ in ask(tables, "DESCRIBE trace_kernels")}
    assert inherited["total_ns"] == "sum of its durations [ns]"  # the migration's
    assert ask(tables, "SELECT comment FROM system.tables WHERE database = currentDatabase() AND name = 'gpus'") == [
        ("one row: a GPU or MIG instance with its latest values",)
    ]
    silent = "SELECT c.table, c.name FROM system.columns AS c JOIN system.tables AS t ON t.database = c.database AND "
    silent += "t.name = c.table WHERE c.database = currentDatabase() AND t.engine = 'View' AND c.comment = ''"
    assert [row for row in ask(tables, silent) if not catalogue.INTERNAL.fullmatch(row[0])] == []


def test_comments_come_back_when_somebody_changes_them(tables: Client) -> None:
    assert migrate.plan(tables, SHARED) == ()
    tables.command("ALTER TABLE gpus COMMENT COLUMN power_watts 'mine'")
    (step,) = migrate.plan(tables, SHARED)
    assert step.kind == "comments"
    migrate.apply(tables, SHARED)
    assert migrate.plan(tables, SHARED) == ()


def test_stable_views_keep_their_columns(found: Catalogue, update: bool) -> None:
    before = stability.read(PROMISED.read_text())
    now = stability.promised(found)
    assert list(stability.broken(before, now, __version__)) == []
    if update:
        PROMISED.write_text(stability.written(now))
    assert before == now or update, "run pytest with --update: there are new columns, which stay from now on"


def test_the_changelog_names_what_is_deprecated(found: Catalogue) -> None:
    log = (ROOT / "CHANGELOG.md").read_text()
    ending = [
        f"`{view}.{name}`"
        for view, columns in stability.promised(found).items()
        for name, each in columns.items()
        if each.deprecated
    ]
    assert [each for each in ending if each not in log] == []


def test_the_query_of_the_windows_can_be_asked(tables: Client) -> None:
    queries = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.S)
    assert len(queries) == 5  # the windows, and the views with parameters
    for query in queries:
        assert ask(tables, query) == []
