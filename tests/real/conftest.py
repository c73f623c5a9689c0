"""The engine in this process: one a module (a process can have one engine open at a time)."""

import secrets
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from clickhouse_connect.driver.exceptions import ProgrammingError

from tests.engine import template
from tests.wait import until
from warpmeter import migrate
from warpmeter.settings import Store
from warpmeter.store import Client, connect, release


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """An engine of this module's own, with all tables in its database `shared`; open until the module is done."""
    folder = tmp_path_factory.mktemp("engine") / "data"
    template.copy(folder)
    store = Store(dsn=f"chdb://{folder}")
    with closing(opened(store)):
        yield store
        release(store)  # of threads that asked it for an application


def opened(store: Store) -> Client:
    """A client of it, once the engine of the module before has ended.

    A thread that ends closes what it had of the engine last of all, when it counts as ended already: nobody can wait
    for that but by asking again.
    """
    found: list[Client] = []

    def ended() -> bool:
        try:
            found.append(connect(store, database="default"))
        except ProgrammingError as error:
            if "already initialized" not in str(error):
                raise
        return bool(found)

    until(ended, "the engine of the module before to end")
    return found[0]


@pytest.fixture
def empty(embedded: Store) -> Store:
    """A store whose database does not exist yet."""
    return replace(embedded, database=f"t{secrets.token_hex(4)}")


@pytest.fixture
def admin(embedded: Store) -> Iterator[Client]:
    """A client in the database `default`, which migrations start from."""
    with closing(connect(embedded, database="default")) as client:
        yield client


@pytest.fixture
def own_tables(empty: Store, admin: Client) -> Iterator[Client]:
    """A client in a database of this test's own (`empty`) with all tables and views, for tests that change them."""
    migrate.apply(admin, empty)
    with closing(connect(empty)) as client:
        yield client
    admin.command(f"DROP DATABASE {empty.database} SYNC")


@pytest.fixture(scope="module")
def shared_tables(embedded: Store) -> Iterator[Client]:
    """A client in a database that all tests of the module share: they read what one fixture landed."""
    with closing(connect(replace(embedded, database=template.SHARED))) as client:
        yield client


@pytest.fixture
def tables(shared_tables: Client) -> Client:
    """The shared tables, emptied; that also forgets the tokens they have seen."""
    filled = shared_tables.query(
        "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree' "
        "AND total_rows > 0 AND name NOT LIKE 'schema_%'"
    ).result_rows
    for (name,) in filled:
        shared_tables.command(f"TRUNCATE TABLE {name}")
    return shared_tables
