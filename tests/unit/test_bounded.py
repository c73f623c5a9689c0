"""Calls that hang: they keep their own thread, the others are answered, and nobody is asked twice meanwhile."""

import threading
from collections.abc import Iterator

import pytest

from tests.wait import until
from warpmeter.producers.bounded import MOST_STUCK, Pool


class Doors:
    """Work that hangs at closed doors."""

    def __init__(self) -> None:
        self.closed: dict[str, threading.Event] = {}
        self.asked: list[str] = []

    def work(self, key: str) -> str:
        """Wait at a closed door."""
        self.asked.append(key)
        if key in self.closed:
            self.closed[key].wait()
        if key == "broken":
            raise PermissionError(13, "no")
        if key == "bug":
            raise ValueError("bug")
        return key.upper()

    def close(self, key: str) -> None:
        """Close one."""
        self.closed[key] = threading.Event()

    def open(self) -> None:
        """Open all."""
        for event in self.closed.values():
            event.set()
        self.closed = {}


@pytest.fixture
def doors() -> Iterator[Doors]:
    made = Doors()
    yield made
    made.open()


def test_answers_and_errors(doors: Doors) -> None:
    answers = Pool[str]("t").ask(["a", "broken", "bug", "b"], doors.work, 30.0, 30.0)
    assert (answers["a"], answers["b"]) == ("A", "B")
    assert isinstance(answers["broken"], PermissionError)
    assert str(answers["bug"]) == "ValueError('bug')"


def test_one_that_hangs_stops_only_itself_and_is_not_asked_again_until_it_comes_back(doors: Doors) -> None:
    pool = Pool[str]("t")
    doors.close("nfs")
    assert set(pool.ask(["a", "nfs", "b"], doors.work, 0.2, 2.0)) == {"a", "b"}
    assert set(pool.ask(["a", "nfs", "b"], doors.work, 30.0, 30.0)) == {"a", "b"}
    assert doors.asked.count("nfs") == 1
    doors.open()
    until(lambda: "nfs" in pool.ask(["nfs"], doors.work, 30.0, 30.0), "the answer", 30.0)


def test_a_late_answer_is_not_taken_for_a_new_one(doors: Doors) -> None:
    pool = Pool[str]("t")
    doors.close("nfs")
    pool.ask(["nfs"], doors.work, 0.01, 0.02)
    doors.open()
    until(lambda: pool.ask(["nfs"], doors.work, 30.0, 30.0) == {"nfs": "NFS"}, "a new answer", 30.0)
    assert doors.asked.count("nfs") == 2


def test_the_threads_that_may_hang_are_bounded(doors: Doors) -> None:
    pool = Pool[str]("bounded")
    keys = [f"nfs{number}" for number in range(MOST_STUCK + 8)]
    for key in keys:
        doors.close(key)
    assert pool.ask(keys, doors.work, 0.0, 0.05) == {}
    assert pool.ask([*keys, "a"], doors.work, 0.0, 0.05) == {}
    assert sum(thread.name == "bounded" for thread in threading.enumerate()) == MOST_STUCK


def test_one_thread_does_for_all_that_answer(doors: Doors) -> None:
    pool = Pool[str]("single")
    for _ in range(3):
        assert len(pool.ask(["a", "b", "c"], doors.work, 30.0, 30.0)) == 3
    assert sum(thread.name == "single" for thread in threading.enumerate()) == 1
    pool.close()
    until(lambda: not any(thread.name == "single" for thread in threading.enumerate()), "the thread's end", 30.0)
