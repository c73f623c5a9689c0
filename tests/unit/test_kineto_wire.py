"""Kineto's datagrams: what its client sends is read, everything else is refused, and nothing breaks."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpmeter.producers.kineto import wire
from warpmeter.producers.kineto.wire import ACTIVITIES, EVENTS, Context, Poll, WireError

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


def datagram(kind: bytes, payload: bytes, size: int | None = None) -> bytes:
    """As libkineto sends it."""
    return struct.pack("=Q32s", len(payload) if size is None else size, kind) + payload


def poll(kinds: int, job: int, *pids: int, count: int | None = None) -> bytes:
    payload = struct.pack("=iiq", kinds, len(pids) if count is None else count, job)
    return datagram(b"req", payload + struct.pack(f"={len(pids)}i", *pids))


def test_a_poll_and_a_context_are_read() -> None:
    assert wire.parse(poll(3, 7, 10, 5, 1)) == Poll(EVENTS | ACTIVITIES, 7, (10, 5, 1))
    assert wire.parse(datagram(b"ctxt", struct.pack("=iiq", 2, 10, 7))) == Context(2, 10, 7)
    assert wire.parse(poll(0, 0, 10)).tracing  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "bad",
    [
        b"", b"x" * 39, datagram(b"req", b""), datagram(b"what", b""), datagram(b"reqx", b"\0" * 20),
        datagram(b"ctxt", b"\0" * 15), datagram(b"ctxt", b"\0" * 17), poll(2, 0), poll(2, 0, 1, count=2),
        poll(2, 0, 1, count=-1), poll(2, 0, 1, count=0), poll(2, 0, 1, 2, count=1), poll(4, 0, 1), poll(-1, 0, 1),
        poll(2, 0, *range(65)), poll(2, 0, 1, count=1 << 30), datagram(b"req", b"\0" * 20, size=1 << 63),
        poll(2, 0, 1) + b"x",
    ],
)  # fmt: skip
def test_what_no_client_sends_is_refused(bad: bytes) -> None:
    with pytest.raises(WireError):
        wire.parse(bad)


@given(st.integers(0, 3), INT64, st.lists(INT32, min_size=1, max_size=wire.PIDS_MAX))
def test_every_poll_is_read_as_it_was_sent(kinds: int, job: int, pids: list[int]) -> None:
    assert wire.parse(poll(kinds, job, *pids)) == Poll(kinds, job, tuple(pids))


@given(st.binary(max_size=wire.DATAGRAM_MAX + 8))
def test_noise_is_refused_or_read(noise: bytes) -> None:
    with suppress(WireError):
        assert isinstance(wire.parse(noise), Poll | Context)


@given(st.data(), st.integers(1, 10))
def test_a_changed_poll_is_refused_or_read(data: st.DataObject, pids: int) -> None:
    good = bytearray(poll(3, 7, *range(pids)))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = wire.parse(bytes(good[: data.draw(st.integers(0, len(good)))]))
    except WireError:
        return
    assert not isinstance(found, Poll) or 1 <= len(found.pids) <= wire.PIDS_MAX


def test_replies_are_what_kineto_reads() -> None:
    assert wire.poll_reply("A=1") == datagram(b"req", b"A=1")
    assert wire.poll_reply("") == datagram(b"req", b"")
    assert wire.context_reply(3) == datagram(b"ctxt", struct.pack("=i", 3))


def test_a_question_and_its_answer_come_through_and_nothing_else_is_one() -> None:
    asked = wire.Question(4711, own=True)
    assert wire.parse(wire.question(asked)) == asked
    pids = tuple(range(1, 101))
    assert wire.answered(wire.question_reply(pids)) == (100, pids[: wire.PIDS_MAX])
    assert wire.answered(wire.question_reply([])) == (0, ())
    for pid, own in ((0, 0), (-1, 1), (1, 2)):
        with pytest.raises(WireError):
            wire.parse(datagram(wire.WHO, struct.pack("=ii", pid, own)))
    for bad in (b"", b"x" * 40, wire.question(asked)[:-1], wire.poll_reply(""), datagram(wire.WHO, b"123")):
        with pytest.raises(WireError):
            wire.answered(bad)
