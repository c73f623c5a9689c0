"""docs/traces.md names every query of captures; tables of traces are kept as it says (their columns: docs/sql.md)."""

from pathlib import Path
from typing import Final

from tests.captures import OF_THE_PAGE, QUERIES
from tests.tables import ask
from warpmeter.landing import RANKS, TABLES
from warpmeter.settings import Store
from warpmeter.store import Client

PAGE: Final = Path(__file__).parents[2] / "docs" / "traces.md"


def test_the_page_names_every_query_of_captures() -> None:
    assert [
        name
        for name in (*QUERIES, *OF_THE_PAGE)
        if f"`{name}`" not in PAGE.read_text() and f" {name}" not in PAGE.read_text()
    ] == []


def test_tables_are_kept_as_the_page_says(tables: Client) -> None:
    kept = {RANKS: Store().hour_ttl_days, **dict.fromkeys(TABLES, Store().hour_ttl_days)}
    kept["trace_timeline"] = Store().raw_ttl_days
    sql = "SELECT name, engine_full FROM system.tables WHERE database = currentDatabase() AND name LIKE 'trace%_loads'"
    engines = dict(ask(tables, f"{sql} AND engine LIKE '%MergeTree'"))
    assert len(engines) == 8
    for name, days in kept.items():
        assert f"TTL toDateTime(loaded_at) + toIntervalDay({days})" in engines[f"{name}_loads"]
