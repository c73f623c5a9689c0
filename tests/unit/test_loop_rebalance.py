"""A rebalance while something is declared: the declare stays, so that the next owner inserts the very same span."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.ingest_world import FIRST, TOPIC, Process, World
from tests.wait import until
from warpmeter.consumers import loop
from warpmeter.consumers.batch import Batch
from warpmeter.consumers.ledger import Entry
from warpmeter.consumers.sink import Away, Result
from warpmeter.consumers.span import Partition

SECOND = Partition(TOPIC, 1)


@pytest.fixture
def worker() -> Iterator[ThreadPoolExecutor]:
    """A thread of its own for inserts, as the real process has."""
    with ThreadPoolExecutor(1) as executor:
        yield executor


class Gate:
    """Holds up one insert until it is opened."""

    def __init__(self, world: World, partition: int, first: int) -> None:
        self._real, self._held = world.sink.insert, (partition, first)
        self.reached, self.open = threading.Event(), threading.Event()
        world.sink.insert = self._insert  # type: ignore[method-assign]

    def _insert(self, batch: Batch) -> Result:
        if (batch.span.partition, batch.span.first) == self._held:
            self.reached.set()
            assert self.open.wait(30)
        return self._real(batch)


def step_until(process: Process, event: threading.Event) -> None:
    """Turn the loop until the worker is where it should be."""

    def turned() -> bool:
        process.loop.step()
        return event.is_set()

    until(turned, "the insert to begin", every_s=0.001)


def spans(world: World, partition: int = 0) -> list[tuple[int, int]]:
    """What landed, in order of offsets."""
    return sorted((span.first, span.last) for span in world.sink.rows if span.partition == partition)


def test_after_a_lost_reply_the_next_owner_replays_the_declared_span() -> None:
    world = World()
    world.produce(4)
    one = world.start(FIRST)
    one.turn(2)
    world.produce(4)
    world.sink.lose_reply = True
    one.turn(1)
    one.broker.take([FIRST])
    one.turn(1)
    assert '"upto"' in world.ledger.records[FIRST][1]
    world.start(FIRST).settle()
    assert world.landed == world.produced


def test_the_lag_of_a_partition_that_went_is_told_by_its_next_owner_alone() -> None:
    world = World()
    for partition in (0, 1):
        world.produce(4, partition)
    one = world.start(FIRST, SECOND)
    one.settle()

    def told() -> set[str]:
        return {sample.labels["partition"] for metric in loop.LAG.collect() for sample in metric.samples}

    world.clock.time += loop.LAG_EVERY_S
    one.turn(1)
    assert told() >= {"0", "1"}
    one.broker.take([FIRST])
    world.clock.time += loop.LAG_EVERY_S
    one.turn(2)
    assert "0" not in told()
    assert "1" in told()


def test_a_partition_that_landed_inside_a_running_flight_is_not_set_back(worker: ThreadPoolExecutor) -> None:
    world = World()
    gate = Gate(world, 1, 4)
    for partition in (0, 1, 0, 1):
        world.produce(4, partition)
    one = world.start(FIRST, SECOND, worker=worker)
    step_until(one, gate.reached)
    releaser = threading.Timer(0.2, gate.open.set)
    releaser.start()
    one.broker.take([FIRST])
    one.loop.step()
    releaser.join()
    world.start(FIRST).settle()
    assert sorted(world.landed) == sorted(set(world.landed))
    assert spans(world) == [(0, 3), (4, 7)]


def test_an_insert_slower_than_the_deadline_of_a_revoke_doubles_nothing(
    worker: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "REVOKE_S", 0.1)
    world = World()
    gate = Gate(world, 0, 4)
    world.produce(4)
    one = world.start(FIRST, worker=worker)
    until(lambda: one.loop.step() or world.landed, "the first span", every_s=0.001)  # type: ignore[func-returns-value]
    world.produce(3)
    one.loop.step()
    world.clock.time += 1.1
    step_until(one, gate.reached)
    one.broker.take([FIRST])
    one.loop.step()  # waits its deadline, in vain
    assert '"upto"' in world.ledger.records[FIRST][1]
    world.produce(2)
    gate.open.set()
    two = world.start(FIRST)
    two.turn(20)
    two.settle()
    assert world.landed == world.produced
    assert spans(world) == [(0, 3), (4, 6), (7, 8)]


@pytest.mark.parametrize("lost", [False, True], ids=["revoked", "lost"])
def test_a_partition_that_is_given_up_while_paused_is_read_when_it_comes_back(lost: bool) -> None:
    world = World()
    process = world.start(FIRST)
    process.turn(2)
    world.sink.next_results = [Away("connection refused")] * 3
    world.produce(4)
    while not process.broker.paused:
        process.turn()
    process.broker.take([FIRST], lost)
    process.settle()  # the store is back meanwhile
    process.broker.give([FIRST])
    process.settle()
    assert world.landed == world.produced
    world.produce(4)
    process.settle()
    assert world.landed == world.produced


def test_what_comes_while_the_group_is_left_is_given_back_and_nobody_is_asked_about_it() -> None:
    world = World()
    world.produce(4)
    process = world.start(FIRST)
    process.settle()
    asked: list[Partition] = []
    recall = world.ledger.recall

    def recalled(partitions: Iterable[Partition]) -> Mapping[Partition, Entry]:
        asked.extend(partitions)
        return recall(partitions)

    world.ledger.recall = recalled  # type: ignore[method-assign]
    process.broker.give([SECOND])
    assert process.loop.drain()
    assert not asked
    assert process.loop.partitions == frozenset()
    assert spans(world) == [(0, 3)]
