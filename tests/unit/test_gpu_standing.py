"""Which XIDs stand, and what ends them."""

import json
from dataclasses import replace

import pytest

from warpmeter.producers.gpu.events import Raised
from warpmeter.producers.gpu.standing import (
    ANSWERS,
    LEFT,
    RELOADED,
    RESET,
    Book,
    Look,
    Standing,
    kept,
    recalled,
)
from warpmeter.producers.gpu.xids import OF_APPLICATION, WHAT, what

GPU = "GPU-a"
BUSY = Look(10.0, 0, {GPU: frozenset({7, 8})}, energy={GPU: 500.0})


def book(code: int, look: Look = BUSY, pid: int | None = None, ts: float = 10.5) -> Book:
    """One XID stands."""
    made = Book()
    made.raised(Raised(ts, 0, GPU, code), look, pid)
    return made


def over(made: Book, look: Look) -> list[str]:
    """Why XIDs are over with this look."""
    return [each.why for each in made.looked(look)]


def later(ts: float, **changed: object) -> Look:
    """The same GPU afterwards."""
    return replace(BUSY, ts=ts, **changed)  # type: ignore[arg-type]


def test_a_device_xid_stands_until_the_gpu_was_gone_and_answers() -> None:
    made = book(79)
    assert over(made, later(11)) == []
    assert over(made, later(12, pids={}, gone=frozenset({GPU}))) == []
    assert over(made, later(13, pids={}, gone=frozenset())) == []  # not listed: it does not answer
    assert over(made, later(14)) == [ANSWERS]
    assert over(made, later(15)) == []


def test_a_gpu_that_was_gone_before_its_xid_was_heard_counts() -> None:
    made = book(79, later(10, pids={}, gone=frozenset({GPU})))
    assert over(made, later(11)) == [ANSWERS]


def test_processes_that_leave_do_not_end_a_device_xid() -> None:
    assert over(book(48), later(11, pids={GPU: frozenset()})) == []


def test_a_driver_reload_ends_all() -> None:
    for code in (13, 48, 79):
        assert over(book(code), later(11, loads=1)) == [RELOADED]


def test_an_energy_counter_that_began_anew_ends_all() -> None:
    assert over(book(48), later(11, energy={GPU: 3.0})) == [RESET]
    assert over(book(48), later(11, energy={})) == []


def test_an_application_xid_ends_with_the_processes_of_then() -> None:
    made = book(31)
    assert over(made, later(11, pids={GPU: frozenset({8, 9})})) == []
    assert over(made, later(12, pids={GPU: None})) == []  # not known now
    assert over(made, later(13, pids={GPU: frozenset({9})})) == [LEFT]


def test_where_the_process_at_fault_is_known_it_alone_counts() -> None:
    assert over(book(31, pid=7), later(11, pids={GPU: frozenset({8})})) == [LEFT]
    assert over(book(31, pid=7), later(11, pids={GPU: frozenset({7})})) == []


def test_a_look_of_before_ends_nothing() -> None:
    assert over(book(31), replace(BUSY, pids={GPU: frozenset()})) == []


def test_the_same_again_begins_anew_and_is_over_once() -> None:
    made = book(13)
    made.raised(Raised(11.5, 0, GPU, 13), later(11, pids={GPU: frozenset({9})}), None)
    assert over(made, later(12, pids={GPU: frozenset({9})})) == []
    assert over(made, later(13, pids={GPU: frozenset()})) == [LEFT]
    assert made.standing == ()


def test_an_xid_of_a_mig_instance_has_its_uuid_and_its_processes() -> None:
    look = Look(10.0, 0, {GPU: frozenset({7, 8}), "MIG-x": frozenset({8})}, migs={(0, 3, 0): "MIG-x"})
    made = Book()
    standing = made.raised(Raised(10.5, 0, GPU, 13, 3, 0), look, None)
    assert (standing.uuid, standing.pids) == ("MIG-x", frozenset({8}))
    assert over(made, replace(look, ts=11, pids={GPU: frozenset({7}), "MIG-x": frozenset()})) == [LEFT]


@pytest.mark.parametrize("code", [31, 79])
def test_what_stands_survives_the_agent(code: int) -> None:
    told = json.loads(json.dumps(kept(book(code).standing)))
    again = Book(recalled(told))
    assert again.standing == book(code).standing
    assert over(again, later(20, pids={}, gone=frozenset({GPU}))) == []
    assert over(again, later(21)) == [ANSWERS]


def test_every_xid_has_words() -> None:
    assert what(79) == "GPU has fallen off the bus"
    assert what(9999).startswith("not in this version's table")
    assert WHAT.keys() >= OF_APPLICATION
    assert isinstance(book(79).standing[0], Standing)
