"""The spool keeps order and loses nothing but what its bounds say, over kills and restarts."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spools import kill, message, numbers, open_spool, take_all
from warpmeter.producers.segment import Position
from warpmeter.producers.spool import FIRST, SpoolTakenError
from warpmeter.wire import Envelope


def test_gives_back_what_was_put_in_order(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    for number in range(100):
        assert spool.append(message(number))
    assert spool.waiting
    assert take_all(spool) == list(range(100))
    assert spool.bytes == 0
    spool.sweep()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_message_comes_back_whole(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    sent = Envelope("gpu-samples", "gerät-1".encode(), bytes(range(256)), "GpuSample", 8)
    spool.append(sent)
    taken = spool.take()
    assert taken is not None
    assert taken[0] == sent


def test_new_messages_go_behind_those_that_wait(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    order = []
    for number in range(10):
        spool.append(message(number))
        if number % 3 == 2:
            found = spool.take()
            assert found is not None
            order += numbers([found[0]])
    assert order + take_all(spool) == list(range(10))


def test_a_killed_agent_sends_again_only_what_was_not_reported(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    for number in range(10):
        spool.append(message(number))
    positions = [found[1] for _ in range(6) if (found := spool.take())]
    for position in positions[:4]:
        spool.done(position)
    spool.sweep()
    kill(spool)
    assert take_all(open_spool(tmp_path)) == [4, 5, 6, 7, 8, 9]


def test_reports_out_of_order_are_kept_one_by_one(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    for number in range(4):
        spool.append(message(number))
    positions = [found[1] for _ in range(4) if (found := spool.take())]
    for position in (positions[3], positions[1], positions[0]):
        spool.done(position)
    spool.sweep()
    kill(spool)
    assert take_all(open_spool(tmp_path)) == [2]


def test_the_oldest_go_when_it_is_full_and_are_counted(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, max_bytes=20_000)
    for number in range(200):
        assert spool.append(message(number, size=400))
    assert sum(path.stat().st_size for path in tmp_path.glob("*.spool")) <= 20_000
    left = take_all(spool)
    assert left == list(range(200 - len(left), 200))
    assert len(left) > 20
    assert spool.lost == {"full": 200 - len(left), "corrupt": 0}


def test_put_back_goes_in_front_and_ends_what_was_taken(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    for number in range(10, 15):
        spool.append(message(number))
    taken = [found[0] for _ in range(2) if (found := spool.take())]
    assert spool.put_back([message(5), *taken])
    spool.close()
    assert take_all(open_spool(tmp_path)) == [5, 10, 11, 12, 13, 14]


def test_put_back_twice_keeps_order(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    spool.put_back([message(7), message(8)])
    spool.put_back([message(3)])
    assert take_all(spool) == [3, 7, 8]


def test_a_second_agent_is_refused_with_what_to_do(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    with pytest.raises(SpoolTakenError, match=r"another agent of this host runs on the spool"):
        open_spool(tmp_path)
    spool.close()
    open_spool(tmp_path).close()


def test_a_report_for_a_segment_that_is_gone_is_nothing(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    spool.done(Position(FIRST, 99))
    assert spool.take() is None


class Model:
    """What a spool must do: a list, how much of it was taken, and what of that is done."""

    def __init__(self) -> None:
        self.put: list[int] = []
        self.taken = 0
        self.done: set[int] = set()

    def reopened(self) -> list[int]:
        """What comes after a kill: all that is not done."""
        return [number for index, number in enumerate(self.put) if index not in self.done]


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(st.sampled_from(["put", "put", "take", "done", "sweep", "rewind", "kill"]), max_size=60))
def test_any_history_behaves_as_a_list(tmp_path_factory: pytest.TempPathFactory, steps: list[str]) -> None:
    folder = tmp_path_factory.mktemp("model")
    spool, model, out = open_spool(folder, max_bytes=100_000), Model(), dict[int, Position]()
    number = 0
    for step in steps:
        if step == "put":
            spool.append(message(number))
            model.put.append(number)
            number += 1
        elif step == "take" and (found := spool.take()) is not None:
            assert numbers([found[0]]) == [model.put[model.taken]]
            out[model.taken] = found[1]
            model.taken += 1
        elif step == "done" and out:
            index = min(out) if number % 2 else max(out)
            spool.done(out.pop(index))
            model.done.add(index)
        elif step == "sweep":
            spool.sweep()
        elif step == "rewind":
            spool.rewind()
            model.put, model.taken, model.done, out = model.reopened(), 0, set(), {}
        elif step == "kill":
            kill(spool)
            model.put, model.taken, model.done, out = model.reopened(), 0, set(), {}
            spool = open_spool(folder, max_bytes=100_000)
    assert take_all(spool) == model.put[model.taken :]
    kill(spool)


def test_what_is_delivered_out_of_order_is_not_sent_again_from_another_segment(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, max_bytes=100_000)
    spool.append(message(0))
    assert spool.take() is not None  # seals the first segment
    spool.append(message(1))
    taken = spool.take()
    assert taken is not None
    spool.done(taken[1])
    spool.sweep()
    kill(spool)
    again = open_spool(tmp_path, max_bytes=100_000)
    assert take_all(again) == [0]
    kill(again)
