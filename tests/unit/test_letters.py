"""Dead letters: one a reject, with the bytes; shortened where they do not fit, and saying so."""

from collections.abc import Mapping

import pytest

from warpmeter import wire
from warpmeter.consumers.batch import Batch, Limits
from warpmeter.consumers.lane import Began, Lane
from warpmeter.consumers.letters import CUT_HEADER, DEAD, DeadLetter, dead_letters, shortened
from warpmeter.consumers.message import HEADERLESS, Given, Headers, whole
from warpmeter.consumers.shape import looker
from warpmeter.consumers.span import Partition, Span
from warpmeter.consumers.start import Start
from warpmeter.schemas.topics import TOPICS


def letter_of(value: bytes, key: bytes = b"k", headers: Headers = (("type", b"x"),)) -> wire.Envelope:
    message = Given("t", 3, 7, value, headers, key)
    batch = Batch(Span("t", "u", 3, 7, 7), [message], [value], [0], rejects={0: "not an Envelope"})
    return dead_letters(batch, 1.8e9)[0]


def row(envelope: wire.Envelope) -> DeadLetter:
    found = wire.unpack(DEAD, envelope.value)[0]
    assert isinstance(found, DeadLetter)
    return found


def test_a_letter_that_does_not_fit_keeps_its_place_and_says_how_much_of_it_is_there() -> None:
    short = row(shortened(letter_of(b"v" * 5000, b"k" * 3000), 1000, "too large"))
    assert (short.topic, short.topic_uuid, short.partition, short.offset) == ("t", "u", 3, 7)
    assert (short.value, short.key) == (b"v" * 1000, b"k" * 1000)
    assert short.reason.startswith("not an Envelope [cut: 1000 of 5000 bytes are here")
    assert "too large" in short.reason
    assert short.headers == {"type": "x", CUT_HEADER: "5000"}


def test_shortened_again_it_still_tells_the_first_length() -> None:
    once = shortened(letter_of(b"v" * 5000), 1000, "too large")
    twice = row(shortened(once, 0, "too large"))
    assert twice.value == twice.key == b""
    assert twice.reason.count("[cut") == 1
    assert twice.headers[CUT_HEADER] == "5000"


@pytest.mark.parametrize("headers", [[("h", b"x" * 100_000)], [(f"h{n}", b"x" * 200) for n in range(10_000)]])
def test_a_letter_of_huge_headers_gets_small_too(headers: Headers) -> None:
    assert len(shortened(letter_of(b"v", headers=headers), 512, "too large").value) < 10_000


class Unreadable(Given):
    """As confluent-kafka answers for a header's name that is not UTF-8."""

    def headers(self) -> Headers | None:
        raise SystemError("returned a result with an exception set")


def test_a_header_name_that_cannot_be_read_makes_a_reject_and_no_crash() -> None:
    message = Unreadable("t", 0, 5, b"v", None, b"k")
    found, headers, why = whole(message)
    assert (found.headers(), headers, why) == (None, None, HEADERLESS)
    assert (found.value(), found.key(), found.offset()) == (b"v", b"k", 5)
    where = Partition("t", 0)
    lane = Lane(Began(Start(where, "u", 5), None), looker(TOPICS["gpu-samples"], False), Limits(1 << 20, 100, 1.0))
    lane.take(message, 0.0)
    lane.close()
    rejects: Mapping[int, str] = lane.closed[0].rejects
    assert rejects == {0: HEADERLESS}
    assert row(dead_letters(lane.closed[0], 1.8e9)[0]).value == b"v"
