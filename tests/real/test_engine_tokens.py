"""What the engine knows of tokens after it was killed: exactly the inserts whose rows it has."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from clickhouse_connect.driver.exceptions import ClickHouseError

from tests.brokers import Broker
from tests.engine import DATABASE, EngineServer
from tests.engine.template import with_tables
from tests.ingest_bench import make_bench
from tests.ingest_process import IngestProcess, Table
from tests.wait import until
from warpmeter import store, tokens
from warpmeter.consumers import status
from warpmeter.consumers.ledger import Settled
from warpmeter.settings import Settings, Store


class Crashing:
    """An engine with a table like the raw ones, killed and started again on the same folder."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.server = EngineServer(self.data)
        self.server.make_database()
        with self.server.client(write=True) as client:
            client.command(
                "CREATE TABLE t (n UInt32) ENGINE = MergeTree ORDER BY n PARTITION BY n % 2 "
                "SETTINGS non_replicated_deduplication_window = 100"
            )
            path = client.command("SELECT data_paths[1] FROM system.tables WHERE name = 't' AND database != 'system'")
        self.path = Path(str(path))

    @property
    def log(self) -> Path:
        """Where the table keeps its tokens."""
        return self.path / "deduplication_logs" / "deduplication_log_1.txt"

    def insert(self, *numbers: int) -> None:
        """One insert, under a token that says what it inserts."""
        token = {"insert_deduplication_token": str(numbers)}
        with self.server.client(write=True) as client:
            client.command(f"INSERT INTO t SELECT arrayJoin({list(numbers)})", settings=token)

    def has(self) -> list[int]:
        """What the table holds."""
        with self.server.client() as client:
            return [int(n) for (n,) in client.query("SELECT n FROM t ORDER BY n").result_rows]

    def again(self) -> None:
        """Start it anew."""
        self.server.kill()
        self.server = EngineServer(self.data)

    def close(self) -> None:
        self.server.kill()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Crashing]:
    with closing(Crashing(tmp_path)) as found:
        yield found


def test_an_insert_killed_before_its_part_was_in_place_lands_when_it_comes_again(engine: Crashing) -> None:
    """The token is on the disk before the part: the part is taken away as if it had not come to it."""
    engine.insert(1, 2)
    engine.insert(3, 4)
    engine.server.kill()
    shutil.rmtree(max(engine.path.glob("1_*_0")))
    engine.server = EngineServer(engine.data)
    assert engine.has() == [1, 2, 4]
    for _ in range(2):
        engine.insert(1, 2)
        engine.insert(3, 4)
        assert engine.has() == [1, 2, 3, 4]
    engine.again()
    engine.insert(3, 4)
    assert engine.has() == [1, 2, 3, 4]


def test_what_was_merged_or_changed_since_is_still_known(engine: Crashing) -> None:
    for n in range(6):
        engine.insert(n)
    with engine.server.client(write=True) as client:
        client.command("OPTIMIZE TABLE t FINAL")
        client.command("ALTER TABLE t DELETE WHERE n = 4 SETTINGS mutations_sync = 2")
    engine.again()
    for n in range(6):
        engine.insert(n)
    assert engine.has() == [0, 1, 2, 3, 5]


def test_a_record_that_was_cut_short_takes_no_other_with_it(engine: Crashing) -> None:
    engine.insert(1)
    engine.server.kill()
    with engine.log.open("ab") as log:
        log.write(b"1\t1_9")
    engine.server = EngineServer(engine.data)
    engine.insert(3)
    engine.again()
    engine.insert(1)
    engine.insert(3)
    assert engine.has() == [1, 3]


def obstacle(engine: Crashing) -> Path:
    """A file where the next part of odd numbers is to be: the system refuses to put a folder in its place."""
    newest = max(int(part.name.split("_")[2]) for part in engine.path.glob("[01]_*_0"))
    found = engine.path / f"1_{newest + 1}_{newest + 1}_0"
    found.touch()
    return found


def test_an_engine_that_could_not_put_a_part_in_place_ends_and_takes_its_rows_when_they_come_again(
    engine: Crashing,
) -> None:
    engine.insert(1, 2)
    in_the_way = obstacle(engine)
    with pytest.raises((ClickHouseError, OSError)):
        engine.insert(3, 4)
    assert engine.server.process.wait(120) == tokens.EXIT_AGAIN
    assert "ends, to be started again" in engine.server.log.read_text()
    in_the_way.unlink()
    engine.server = EngineServer(engine.data)
    for _ in range(2):
        engine.insert(3, 4)
        assert engine.has() == [1, 2, 3, 4]


def test_an_insert_that_fails_before_its_token_ends_no_engine(engine: Crashing) -> None:
    engine.insert(1, 2)
    with pytest.raises(ClickHouseError), engine.server.client(write=True) as client:
        client.command("INSERT INTO t SELECT throwIf(number = 3) + number FROM numbers(5)")
    engine.insert(3)
    assert engine.has() == [1, 2, 3]


def settled(settings: Settings) -> int:
    """How many messages the ledger says have landed."""
    return sum(each.next for each in status.records(settings).values() if isinstance(each, Settled))


@pytest.mark.long
def test_a_consumer_whose_own_engine_could_not_put_a_part_in_place_ends_and_loses_nothing(
    tansu: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with closing(with_tables(data)) as server:
        at = make_bench(tansu, server, topic_prefix, tmp_path)
        with server.client() as client:
            name = f"database = '{DATABASE}' AND name = 'gpu_samples'"
            path = client.command(f"SELECT data_paths[1] FROM system.tables WHERE {name}")
    inside = replace(at.settings, store=replace(at.settings.store, dsn=f"chdb://{data}"))
    with closing(IngestProcess(inside, at.log)) as process:
        at.feed.good(20)
        until(lambda: settled(at.settings) == 20, "the first to be settled")
        newest = max(Path(str(path)).glob("2*_*_*_*"), key=lambda part: int(part.name.split("_")[2])).name
        day, _, last, _ = newest.split("_")
        in_the_way = [Path(str(path)) / f"{day}_{number}_{number}_0" for number in range(int(last) + 1, int(last) + 4)]
        for each in in_the_way:
            each.touch()
        at.feed.good(100)
        assert process.ended(120) == tokens.EXIT_AGAIN
        assert "ends, to be started again" in process.said()
    for each in in_the_way:
        each.unlink()
    with closing(IngestProcess(inside, at.log)) as process:
        until(lambda: settled(at.settings) == 120, "all to be settled")
        assert process.stop() == 0
    with closing(EngineServer(data)) as server:
        at.table = Table(server, topic_prefix)
        at.once()


def test_a_folder_that_cannot_be_put_right_before_it_opens_is_an_error_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "status").mkdir()
    with pytest.raises(ClickHouseError, match=f"cannot open {tmp_path}"):
        store.connect(Store(dsn=f"chdb://{tmp_path}"))
