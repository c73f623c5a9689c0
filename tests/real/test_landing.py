"""Loads of traces are seen whole or not at all, replace what was loaded before, and end with one of several at once."""

import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from random import Random
from threading import Event
from typing import Any

import pytest

from tests.captures import columns, event, kernel, process, tables
from tests.engine import TOKEN, WRITER, EngineServer
from tests.engine.template import with_tables
from tests.tables import ask, one
from warpmeter import landing
from warpmeter.landing import TABLES, LandingError, Load, Process, Put
from warpmeter.settings import Store
from warpmeter.store import ClickHouseError, Client, connect

SEEN = "SELECT rank, sum(total_ns) FROM trace_kernels WHERE capture_id = {c:String} GROUP BY rank ORDER BY rank"
EVENTS = "SELECT count() FROM trace_timeline WHERE capture_id = {c:String}"


def no_wait(_: float) -> None:
    """For tests without a query beside the load."""


def load_ranks(client: Client, store: Store, capture: str, total_ns: int, ranks: int = 2) -> landing.Landed:
    """Load that many ranks, each with two kernels of `total_ns` in all."""
    load = landing.begin(client, capture)
    puts = [put(client, store, load, rank, total_ns) for rank in range(ranks)]
    return landing.publish(client, store, load, puts, no_wait)


def put(client: Client, store: Store, load: Load, rank: int, total_ns: int, **more: Any) -> Put:
    rows = [kernel("gemm", total_ns - 1, 3), kernel("add", 1)]
    return landing.put(client, store, load, process(rank, **more), tables(rows))


def stored(client: Client, capture: str) -> dict[str, int]:
    """Rows of a capture that are in the tables, seen or not."""
    sql = "SELECT count() FROM {}_loads WHERE capture_id = {{c:String}}"
    return {name: count for name in (*TABLES, landing.RANKS) if (count := one(client, sql.format(name), c=capture))}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    """An engine behind HTTP, with all tables."""
    with closing(with_tables(tmp_path_factory.mktemp("engine"))) as server:
        yield server


@pytest.fixture(scope="module")
def store(server: EngineServer) -> Store:
    """The database with all tables on it."""
    return Store(dsn=f"http://{WRITER}:{TOKEN}@127.0.0.1:{server.port}")


@pytest.fixture
def client(store: Store) -> Iterator[Client]:
    """A writer's client."""
    with closing(connect(store)) as client:
        yield client


@pytest.fixture
def capture(request: pytest.FixtureRequest) -> str:
    """A capture of this test's own."""
    return str(request.node.name)


# --- one after the other -----------------------------------------------------------------------------------------


def test_a_load_again_replaces_its_rows(client: Client, store: Store, capture: str) -> None:
    first = load_ranks(client, store, capture, 100)
    assert (first.processes, first.replaced, first.overtaken) == (("0", "1"), (), ())
    assert ask(client, SEEN, c=capture) == [(0, 100), (1, 100)]
    before = stored(client, capture)
    again = load_ranks(client, store, capture, 50)
    assert (again.replaced, again.left, again.rows) == (("0", "1"), "", first.rows == again.rows and first.rows)
    assert ask(client, SEEN, c=capture) == [(0, 50), (1, 50)]
    assert stored(client, capture) == before == {"trace_kernels": 4, "trace_timeline": 6, "trace_ranks": 2}


def test_one_rank_is_replaced_and_others_stay(client: Client, store: Store, capture: str) -> None:
    load_ranks(client, store, capture, 100, ranks=3)
    load_ranks(client, store, f"{capture}/another", 70)
    load = landing.begin(client, capture)
    landing.publish(client, store, load, [put(client, store, load, 1, 60)], no_wait)
    assert ask(client, SEEN, c=capture) == [(0, 100), (1, 60), (2, 100)]
    assert ask(client, SEEN, c=f"{capture}/another") == [(0, 70), (1, 70)]


def test_a_rank_that_its_trace_tells_is_the_captures_and_another_is_its_hosts(
    client: Client, store: Store, capture: str
) -> None:
    load = landing.begin(client, capture)
    told = [put(client, store, load, rank, 10, host=host) for rank, host in ((0, "ant"), (1, "bee"))]
    landing.publish(client, store, load, told, no_wait)
    load = landing.begin(client, capture)
    landing.publish(client, store, load, [put(client, store, load, 1, 20, host="cow")], no_wait)
    hosts = "SELECT rank, host FROM trace_ranks WHERE capture_id = {c:String} ORDER BY rank"
    assert ask(client, hosts, c=capture) == [(0, "ant"), (1, "cow")]
    load = landing.begin(client, alone := f"{capture}/alone")
    puts = [put(client, store, load, 0, 10, host=host, told=False) for host in ("ant", "bee")]
    landing.publish(client, store, load, puts, no_wait)
    hosts = "SELECT host FROM trace_ranks WHERE capture_id = {c:String} ORDER BY host"
    assert ask(client, hosts, c=alone) == [("ant",), ("bee",)]


def test_what_a_load_no_longer_has_is_gone(client: Client, store: Store, capture: str) -> None:
    load_ranks(client, store, capture, 100)
    load = landing.begin(client, capture)
    rank = landing.put(client, store, load, process(0), tables([kernel("other", 5)], events=0))
    landing.publish(client, store, load, [rank], no_wait)
    names = "SELECT name FROM trace_kernels WHERE rank = 0 AND capture_id = {c:String}"
    assert (ask(client, names, c=capture), one(client, EVENTS, c=capture)) == ([("other",)], 3)


def test_a_load_through_a_server_whose_clock_is_behind_is_still_the_later(
    client: Client, store: Store, capture: str
) -> None:
    ahead = Load(landing.uuid7(int(time.time() * 1000) + 3_600_000), capture)
    landing.publish(client, store, ahead, [put(client, store, ahead, 0, 100)], no_wait)
    load_ranks(client, store, capture, 40, ranks=1)
    assert ask(client, SEEN, c=capture) == [(0, 40)]


# --- half way ----------------------------------------------------------------------------------------------------


def test_nothing_of_a_load_is_seen_before_it_is_published(client: Client, store: Store, capture: str) -> None:
    load_ranks(client, store, capture, 100)
    load = landing.begin(client, capture)
    puts = [put(client, store, load, rank, 30) for rank in (0, 1)]
    assert ask(client, SEEN, c=capture) == [(0, 100), (1, 100)]
    assert one(client, EVENTS, c=capture) == 6
    landing.publish(client, store, load, puts, no_wait)
    assert ask(client, SEEN, c=capture) == [(0, 30), (1, 30)]


def test_rows_that_are_missing_are_noticed(client: Client, store: Store, capture: str) -> None:
    load = landing.begin(client, capture)
    found = put(client, store, load, 0, 30)
    client.command("DELETE FROM trace_kernels_loads WHERE name = 'add' AND capture_id = {c:String}", {"c": capture})
    with pytest.raises(LandingError, match="1 of 2 rows of rank 0 are in trace_kernels: nothing of the load is seen"):
        landing.publish(client, store, load, [found], no_wait)
    assert ask(client, SEEN, c=capture) == []


def test_two_files_of_one_rank_are_refused(client: Client, store: Store, capture: str) -> None:
    load = landing.begin(client, capture)
    found = put(client, store, load, 0, 30)
    other = replace(found, row={**found.row, "file": "b.json"})
    with pytest.raises(LandingError, match=r"rank.json and b.json are both rank 0 of one capture.*--capture"):
        landing.publish(client, store, load, [found, other], no_wait)


def test_an_insert_whose_reply_was_lost_lands_once(client: Client, store: Store, capture: str) -> None:
    load, many = landing.begin(client, capture), tables([kernel("gemm", 7)], events=10)
    landing.put(client, store, load, process(0), many)
    found = landing.put(client, store, load, process(0), many)
    landing.publish(client, store, load, [found], no_wait)
    assert one(client, EVENTS, c=capture) == 10


def test_many_events_go_in_several_inserts(
    client: Client, store: Store, capture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landing, "CHUNK_ROWS", 40)
    load, events = landing.begin(client, capture), [event(number) for number in range(100)]
    groups = [columns(events[:30]), columns(events[30:])]
    found = landing.put(client, store, load, process(0), {**tables([]), "trace_timeline": groups})
    landing.publish(client, store, load, [found], no_wait)
    starts = "SELECT start_ns FROM trace_timeline WHERE capture_id = {c:String} ORDER BY start_ns"
    assert ask(client, starts, c=capture) == [(number,) for number in range(100)]


def test_small_ranks_go_together_and_large_ones_in_chunks(
    client: Client, store: Store, capture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landing, "CHUNK_ROWS", 100)
    monkeypatch.setattr(landing, "TOGETHER_ROWS", 10)
    load, events = landing.begin(client, capture), (3, 4, 250, 0, 5, 2)
    ranks = [(process(rank), tables([kernel("gemm", 1 + rank)], events=count)) for rank, count in enumerate(events)]
    counting = Counting(client)
    puts = landing.put_all(counting, store, load, ranks)  # type: ignore[arg-type]
    assert counting.inserts == {"trace_kernels_loads": 1, "trace_timeline_loads": 5}
    landing.publish(client, store, load, puts, no_wait)
    assert ask(client, SEEN, c=capture) == [(rank, 1 + rank) for rank in range(6)]
    by_rank = "SELECT rank, count() FROM trace_timeline WHERE capture_id = {c:String} GROUP BY rank ORDER BY rank"
    assert ask(client, by_rank, c=capture) == [(rank, count) for rank, count in enumerate(events) if count]


class Counting:
    """A client that counts inserts by table."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.inserts: Counter[str] = Counter()

    def insert(self, table: str, *args: Any, **more: Any) -> Any:
        self.inserts[table] += 1
        return self._client.insert(table, *args, **more)


class Dying:
    """A client whose process is killed instead of, or right after, its n-th insert."""

    def __init__(self, client: Client, inserts: int, after: bool) -> None:
        self._client, self._left, self._after = client, inserts, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def insert(self, *args: Any, **more: Any) -> Any:
        self._left -= 1
        if self._left < 0 and not self._after:
            os.kill(os.getpid(), signal.SIGKILL)
        done = self._client.insert(*args, **more)
        if self._left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return done


def killed_load(store: Store, capture: str, inserts: int, after: bool) -> None:
    """A process that is killed at its n-th insert of a load of two ranks."""
    with closing(connect(store)) as client:
        load_ranks(Dying(client, inserts, after), store, capture, 30)  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.parametrize("after", [False, pytest.param(True, marks=pytest.mark.long)])
def test_killed_at_every_insert_it_is_seen_whole_or_not_at_all_and_loading_again_is_all_it_needs(
    client: Client, store: Store, capture: str, after: bool
) -> None:
    whole = load_ranks(client, store, capture, 100)
    before, spawn = stored(client, capture), multiprocessing.get_context("spawn")
    for insert in range(5):  # kernels and events of two ranks, then the ranks
        child = spawn.Process(target=killed_load, args=(store, capture, insert, after))
        child.start()
        child.join(200)
        assert child.exitcode == -signal.SIGKILL
        seen = 30 if (insert, after) == (4, True) else 100
        assert ask(client, SEEN, c=capture) == [(0, seen), (1, seen)]
        assert one(client, EVENTS, c=capture) == 6
        assert load_ranks(client, store, capture, 100).rows == whole.rows
        assert ask(client, SEEN, c=capture) == [(0, 100), (1, 100)]
        assert stored(client, capture) == before


def test_what_a_killed_first_load_left_goes_with_a_later_load_of_the_capture(
    client: Client, store: Store, capture: str
) -> None:
    old = Load(landing.uuid7(int(time.time() * 1000) - 2 * landing.LOAD_FOR_MS - 60_000), capture)
    put(client, store, old, 5, 30)
    young = landing.begin(client, capture)
    put(client, store, young, 6, 30)
    load_ranks(client, store, capture, 100)
    ranks = "SELECT DISTINCT rank FROM trace_kernels_loads WHERE capture_id = {c:String} ORDER BY rank"
    assert ask(client, ranks, c=capture) == [(0,), (1,), (6,)]
    assert ask(client, SEEN, c=capture) == [(0, 100), (1, 100)]


def test_a_load_that_began_too_long_ago_is_refused(client: Client, store: Store, capture: str) -> None:
    old = Load(landing.uuid7(int(time.time() * 1000) - landing.LOAD_FOR_MS - 60_000), capture)
    with pytest.raises(LandingError, match="began too long ago"):
        landing.publish(client, store, old, [put(client, store, old, 0, 30)], no_wait)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_engine_killed_at_any_moment_of_a_load(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What is seen is the load before or this one, in all tables; loading again is all it needs."""
    folder, moments = tmp_path_factory.mktemp("killed"), Random(5)
    engine = with_tables(folder)
    store = Store(dsn=f"http://{WRITER}:{TOKEN}@127.0.0.1:{engine.port}")
    with closing(connect(store)) as client:
        load_ranks(client, store, "c", 100)
    outcomes = set()
    for number in range(8):
        with ThreadPoolExecutor(1) as pool, closing(connect(store)) as client:
            under_way = pool.submit(load_ranks, client, store, "c", 30 + number)
            time.sleep(moments.uniform(0, 0.6))  # not for luck: any moment must do
            engine.kill()
            engine = EngineServer(folder, port=engine.port)
            done = under_way.exception(100) is None
        with closing(connect(store)) as client:
            found = ask(client, SEEN, c="c")
            assert found in ([(0, 100), (1, 100)], [(0, 30 + number), (1, 30 + number)])
            assert not done or found[0][1] == 30 + number
            assert ask(client, EVENTS, c="c") == [(6,)]
            outcomes.add(found[0][1] == 100)
            load_ranks(client, store, "c", 100)
            assert stored(client, "c") == {"trace_kernels": 4, "trace_timeline": 6, "trace_ranks": 2}
    engine.close()
    assert outcomes


# --- at once -----------------------------------------------------------------------------------------------------


def two(client: Client, store: Store, capture: str) -> tuple[tuple[Load, list[Put]], tuple[Load, list[Put]]]:
    """Two loads of the same ranks, both with all their rows there."""
    older = landing.begin(client, capture)
    time.sleep(0.002)  # so that their numbers differ in time
    newer = landing.begin(client, capture)
    return (older, [put(client, store, older, 0, 10)]), (newer, [put(client, store, newer, 0, 20)])


def test_of_two_at_once_the_one_that_began_last_is_seen_whoever_ends_first(
    client: Client, store: Store, capture: str
) -> None:
    older, newer = two(client, store, capture)
    landing.publish(client, store, *older, no_wait)
    assert ask(client, SEEN, c=capture) == [(0, 10)]
    assert landing.publish(client, store, *newer, no_wait).replaced == ("0",)
    assert ask(client, SEEN, c=capture) == [(0, 20)]
    older, newer = two(client, store, capture)
    landing.publish(client, store, *newer, no_wait)
    found = landing.publish(client, store, *older, no_wait)
    assert (found.processes, found.rows, found.overtaken) == ((), 0, ("0",))
    assert ask(client, SEEN, c=capture) == [(0, 20)]
    assert stored(client, capture) == {"trace_kernels": 2, "trace_timeline": 3, "trace_ranks": 1}


def test_a_load_that_is_overtaken_while_it_publishes_is_never_seen(client: Client, store: Store, capture: str) -> None:
    older, newer = two(client, store, capture)

    def overtaken(_: float) -> None:
        landing.publish(client, store, *newer, no_wait)
        landing.put(client, store, older[0], process(0), tables([kernel("late", 1)]))

    found = landing.publish(client, store, *older, overtaken)
    assert (found.overtaken, ask(client, SEEN, c=capture)) == (("0",), [(0, 20)])
    assert stored(client, capture) == {"trace_kernels": 2, "trace_timeline": 3, "trace_ranks": 1}


@pytest.mark.long
def test_many_loads_at_once_and_readers_beside_them(client: Client, store: Store, capture: str) -> None:
    """Each load's two ranks and all tables say the same number; no reader ever sees anything else."""
    load_ranks(client, store, capture, 1)
    done = Event()
    sums = (
        f"SELECT rank, sum(total_ns), ({EVENTS}) FROM trace_kernels WHERE capture_id = {{c:String}} "
        "GROUP BY rank ORDER BY rank"
    )

    def writer(number: int) -> None:
        with closing(connect(store)) as own:
            for again in range(3):
                load, total = landing.begin(own, capture), 10 * again + number
                landing.publish(own, store, load, [put(own, store, load, rank, total) for rank in (0, 1)])

    def reader() -> int:
        looks = 0
        with closing(connect(store)) as own:
            while not done.is_set():
                (first, one_sum, events), (second, other_sum, _) = ask(own, sums, c=capture)
                assert (first, second, events) == (0, 1, 6)
                assert one_sum == other_sum
                looks += 1
        return looks

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(reader) for _ in range(2)]
        try:
            for each in [pool.submit(writer, number) for number in (2, 3)]:
                each.result()
        finally:
            done.set()
        assert sum(each.result() for each in readers) > 0
    load_ranks(client, store, capture, 9)
    assert ask(client, SEEN, c=capture) == [(0, 9), (1, 9)]
    assert stored(client, capture) == {"trace_kernels": 4, "trace_timeline": 6, "trace_ranks": 2}


# --- the store ---------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_store_without_the_tables_or_half_migrated_is_refused(own_tables: Client) -> None:
    own_tables.command("CREATE TABLE schema_half_done (x UInt8) ENGINE = Memory COMMENT 'ant:1'")
    with pytest.raises(LandingError, match="half migrated"):
        landing.begin(own_tables, "c")
    own_tables.command("DROP TABLE schema_half_done")
    own_tables.command("DROP TABLE trace_ranks_loads")
    with pytest.raises(LandingError, match="run `warpmeter migrate`"):
        landing.begin(own_tables, "c")
    with pytest.raises(LandingError, match="--capture"):
        landing.begin(own_tables, "")


def test_a_reader_may_not_load(store: Store, capture: str, server: EngineServer) -> None:
    with closing(connect(replace(store, dsn=f"http://127.0.0.1:{server.port}"))) as reader:
        load = landing.begin(reader, capture)
        with pytest.raises(ClickHouseError):
            put(reader, store, load, 0, 1)


@pytest.mark.long
def test_in_this_process(own_tables: Client, empty: Store, capture: str) -> None:
    load_ranks(own_tables, empty, capture, 100)
    load_ranks(own_tables, empty, capture, 60)
    assert ask(own_tables, SEEN, c=capture) == [(0, 60), (1, 60)]
    assert stored(own_tables, capture) == {"trace_kernels": 4, "trace_timeline": 6, "trace_ranks": 2}


def test_numbers_of_loads_are_in_the_order_of_time() -> None:
    loads = [landing.uuid7(ms) for ms in (1, 2, 1 << 40, (1 << 48) - 1)]
    assert loads == sorted(loads)
    assert [landing.milliseconds(load) for load in loads] == [1, 2, 1 << 40, (1 << 48) - 1]
    assert all(load[14] == "7" and load[19] in "89ab" and len(load) == 36 for load in loads)
    assert Process(3, "ant", True, 0).name == "3"
