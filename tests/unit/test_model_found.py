"""What the model has found in the loop, shrunk: each of these lost, doubled or halted once."""

from collections.abc import Iterator, Sequence

import pytest

from tests.model.schedule import Action, Crash, Create, Cut, Delete, Expire, Go, Half, Produce, Retain, Stop
from tests.model.small import small_windows
from tests.model.truth import finish, holds, run
from tests.model.world import PARTITIONS, World


@pytest.fixture(autouse=True)
def _small_windows() -> Iterator[None]:
    with small_windows():
        yield


def happen(world: World, *schedule: Action) -> None:
    for action in schedule:
        action.happen(world)


def stand_at(world: World, slot: int, call: str) -> None:
    """Let a process go on until its worker is about to make a call."""
    process = world.processes[slot]
    assert process is not None
    for _ in range(500):
        worker = process.worker.fiber
        if worker is not None and not worker.done and worker.at == call:
            return
        world.go(process)
    raise AssertionError(f"it never makes the call {call}")


def ends_well(world: World) -> World:
    try:
        finish(world)
        holds(world)
    finally:
        world.close()
    return world


def test_a_topic_deleted_while_a_member_asks_where_to_begin_halts_nobody() -> None:
    """Its records went with it: it seemed a topic of which rows have landed but no offset is known."""
    for calls in range(1, 12):
        schedule: list[Action] = [Produce(0), Go(0, 60), Crash(0), Go(0, calls), Delete()]
        assert not run(schedule).halts, calls


def test_a_member_whose_partition_is_taken_over_while_it_begins_halts_nobody() -> None:
    """What the ledger said was older than what the tables held: that is no contradiction, but another member's work."""
    world = run([Go(1, 3), Produce(0), Expire(1), Go(0, 30)])
    assert not world.halts


@pytest.mark.parametrize("crash", [False, True], ids=["it tries again", "another replays"])
def test_an_insert_tried_again_after_others_have_filled_the_window_is_looked_up_first(crash: bool) -> None:
    """It had landed, and its reply was lost; by the time the store is back it knows the token no more."""
    world = World()
    happen(world, Go(0, 12), Go(1, 12), Go(0, 12), Go(1, 12), Produce(0), Half(0, 0xFF))
    stand_at(world, 0, "insert")
    happen(world, Go(0, 4), Cut(0), Produce(1, "days", 40), Go(1, 300))
    if crash:
        happen(world, Crash(0, over=False))
    happen(world, Cut(0, False))
    ends_well(world)


def test_a_replay_after_inserts_of_other_tables_is_looked_up_for_all_share_the_book_of_spans() -> None:
    """The raw table knew its token still; the book, which every table's inserts fill, had forgotten it: two rows."""
    run(
        [
            *(Go(1, 2), Produce(0), Go(0, 1), Go(1, 6)),
            *(Produce(2, "good", 5), Produce(2, "days", 3), Go(0, 3), Go(1, 2), Produce(2, "good", 3)),
            *(Stop(0), Go(0, 2), Produce(2, "good", 1), Produce(2, "days", 12), Go(1, 120), Crash(1, over=False)),
        ]
    )


def test_a_sleeper_does_not_insert_what_it_read_of_a_topic_that_is_no_more_if_others_have() -> None:
    """Nothing fences it: a topic that is no more takes no declare."""
    world = World()
    happen(world, Go(0, 12), Go(1, 12), Go(0, 12), Go(1, 12), Produce(0, count=2))
    stand_at(world, 0, "topic ids")
    happen(world, Expire(0), Produce(0), Go(1, 60))
    assert [span.last for span in world.spans() if span.where == PARTITIONS[0]] == [2]
    happen(world, Delete(), Go(0, 20))
    ends_well(world)


UNEVENTFUL: dict[str, Sequence[Action]] = {
    "a topic made again no larger than what was read": [Produce(0), Go(0, 30), Delete(), Create(), Produce(0)],
    "retention behind what was read, and nothing new": [Go(0, 1), Produce(0), Go(0, 30), Produce(0), Retain(0, 2)],
}


@pytest.mark.parametrize("schedule", UNEVENTFUL.values(), ids=list(UNEVENTFUL))
def test_these_end_well_without_halts(schedule: Sequence[Action]) -> None:
    assert not run(schedule).halts
