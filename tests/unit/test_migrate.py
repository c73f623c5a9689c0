"""Migrations are ordered, frozen and split as they are meant to be; nothing here needs a store."""

from dataclasses import replace

import pytest

from warpmeter import migrate
from warpmeter.migrate import MigrationError, Recorded, Script
from warpmeter.settings import Store

FILES = (Script("0001_a", "SELECT 1;", 1), Script("0002_b", "SELECT 2;", 2))


def have(*scripts: Script) -> list[Recorded]:
    return [Recorded(script.version, script.name, script.checksum) for script in scripts]


def test_what_was_applied_unchanged_is_accepted() -> None:
    migrate.check(FILES, [])
    migrate.check(FILES, have(FILES[0]))
    migrate.check(FILES, have(*FILES))


def test_a_changed_migration_is_refused() -> None:
    edited = replace(FILES[0], text="SELECT 3;")
    with pytest.raises(MigrationError, match=r"0001_a is not the one that was applied.*never edited"):
        migrate.check([edited, FILES[1]], have(FILES[0]))


def test_a_store_of_a_newer_version_is_refused() -> None:
    with pytest.raises(MigrationError, match=r"0002_b, which this version does not know.*install"):
        migrate.check(FILES[:1], have(*FILES))


def test_a_hole_in_what_was_applied_is_refused() -> None:
    with pytest.raises(MigrationError, match=r"0002_b was applied, but 0001_a was not"):
        migrate.check(FILES, have(FILES[1]))


def test_views_are_no_part_of_the_order() -> None:
    migrate.check(FILES, [*have(FILES[0]), Recorded(0, "10_views", "whatever")])


def test_statements_end_at_a_semicolon_that_ends_a_line() -> None:
    text = "-- a; comment\nSELECT 'a;b',\n  1;\n\n  -- another\nSELECT 2 -- not; here\n;\n"
    assert migrate.statements(text) == ("SELECT 'a;b',\n  1", "SELECT 2 -- not; here")


def test_the_shipped_migrations_are_numbered_without_a_gap() -> None:
    assert [script.version for script in migrate.migrations()] == list(range(1, len(migrate.migrations()) + 1))


def test_settings_do_not_change_a_checksum_but_the_statements() -> None:
    script = migrate.migrations()[0]
    short, long = (migrate.render(script, Store(raw_ttl_days=days)) for days in (3, 30))
    assert "INTERVAL 3 DAY" in short[0]
    assert "INTERVAL 30 DAY" in long[0]


def test_a_template_names_nothing_that_is_not_given() -> None:
    with pytest.raises(Exception, match="'secret' is undefined"):
        migrate.render(Script("x", "SELECT {{ secret }};"), Store())


@pytest.mark.parametrize("name", ["a b", "x`; DROP", "", "1a"])
def test_a_database_with_a_name_that_could_hurt_is_refused(name: str) -> None:
    with pytest.raises(MigrationError, match="cannot name a database"):
        migrate.render(migrate.migrations()[0], Store(database=name))


@pytest.mark.parametrize(
    ("table", "days"),
    [
        *(("gpu_samples", 1), ("gpu_samples_local", 1), ("gpu_heatmap_1m", 2), ("gpu_last", 2), ("job_windows_1h", 3)),
        *(("trace_kernels_loads", 3), ("trace_ranks_loads_local", 3), ("trace_timeline_loads_local", 1)),
    ],
)
def test_tables_live_as_long_as_their_kind(table: str, days: int) -> None:
    assert migrate.ttl_days(Store(raw_ttl_days=1, minute_ttl_days=2, hour_ttl_days=3), table) == days
